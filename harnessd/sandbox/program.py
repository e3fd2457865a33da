"""How does a program of the operator's own run, in no sandbox, so that nothing of it outlives its end or ours?"""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream

from harnessd.sandbox.outcome import Unavailable
from harnessd.sandbox.plan import Plan
from harnessd.sandbox.started import Started
from harnessd.sandbox.unconfined import start_unconfined

KEPT_BYTES = 65_537
"""What is kept of the beginning of each output; the rest is read and dropped."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The program ended by itself: its exit status, 128 + n for signal n, and the beginnings of what it wrote."""

    status: int
    output: bytes
    errors: bytes


async def run_program(
    command: Sequence[str], stdin: bytes, *, environment: Mapping[str, str], folder: str | None = None
) -> Ended | Unavailable:
    """Runs `command` with this environment and no other, in `folder` (None: our own), and gives it its input.

    All that it started, however it hid, is gone when this returns or is cancelled, and soon after this process dies.
    """
    if not command or any("\0" in word for word in command):
        return Unavailable("no command is given", "name a program and its arguments")
    plan = Plan(_found(command, environment.get("PATH", os.defpath)), environment, limits=None, writable=None)
    async with start_unconfined(plan, Path(folder or "."), errors_apart=True) as started:
        if isinstance(started, Unavailable):
            return started
        output, errors = bytearray(), bytearray()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_feed, started, stdin)
            tasks.start_soon(_collect, started.output, output)
            tasks.start_soon(_collect, started.errors, errors)
            status = await started.wait()
            await started.end()
        return Ended(status, bytes(output), bytes(errors))


def _found(command: Sequence[str], path: str) -> tuple[str, ...]:
    """The command by its full path: without a PATH of its own it is looked for where the system keeps programs."""
    program = None if "/" in command[0] else shutil.which(command[0], path=path)
    return program or command[0], *command[1:]


async def _feed(started: Started, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await started.send(data)  # a program need not read what it is told
    await started.close_input()


async def _collect(stream: ByteReceiveStream | None, kept: bytearray) -> None:
    if stream is None:
        return
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in stream:
            kept += chunk[: KEPT_BYTES - len(kept)]
