"""A command that runs: its streams, its end, and how all of its processes are ended."""

import os
from abc import ABC, abstractmethod
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, Process

from harnessd.sandbox.gate import ABSENT, READY

KEPT_OUTPUT = 64_000
"""Bytes of a command's output that are kept; of more, the beginning is dropped."""

LEFT_WITHIN_SECONDS = 0.5
_SAID_AT_MOST = 4000


class Held(ABC):
    """Whoever can end every process of a command, however it hid."""

    @abstractmethod
    async def end(self) -> None:
        """Kills them all and returns when they are gone, or after some seconds; twice is fine."""


class Started:
    """A command that was started. `output` holds its error output too, unless they were asked for apart.

    A command that writes waits until somebody reads, so an endless one costs no memory.
    """

    def __init__(self, process: Process, held: Held) -> None:
        assert process.stdout is not None  # noqa: S101 - it is started with pipes
        self.output: ByteReceiveStream = process.stdout
        self.errors: ByteReceiveStream | None = process.stderr
        self._process = process
        self._held = held

    async def send(self, data: bytes) -> None:
        """More input. Raises `anyio.BrokenResourceError` if the command no longer listens."""
        assert self._process.stdin is not None  # noqa: S101 - as above
        try:
            await self._process.stdin.send(data)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def close_input(self) -> None:
        """The command reads the end of its input; twice is fine."""
        assert self._process.stdin is not None  # noqa: S101 - as above
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.aclose()

    async def wait(self) -> int:
        """Waits for the command itself, not for what it left behind; its exit status, 128 + n for signal n."""
        await exited(self._process)
        status = self._process.returncode or 0
        return status if status >= 0 else 128 - status

    async def end(self) -> None:
        """Kills all of its processes and returns when they are gone; leaving the block does it too."""
        await self._held.end()


class Tail:
    """The last bytes of an output as they come, told to `hear` as text: a character is never cut in two."""

    def __init__(self, hear: Callable[[str], None] | None = None) -> None:
        self._kept = bytearray()
        self._hear = hear
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def take(self, chunk: bytes, *, last: bool = False) -> None:
        """More output."""
        self._kept += chunk
        if len(self._kept) > KEPT_OUTPUT:
            del self._kept[: len(self._kept) - KEPT_OUTPUT]
        if self._hear is not None and (text := self._decoder.decode(chunk, last)):
            self._hear(text)

    @property
    def text(self) -> str:
        """What is kept."""
        if len(self._kept) < KEPT_OUTPUT:
            return self._kept.decode("utf-8", "replace")
        cut = next((at for at in range(4) if self._kept[at] & 0xC0 != 0x80), 0)  # where a character begins
        return self._kept[cut:].decode("utf-8", "replace")


async def first_word(process: Process) -> tuple[bytes, str]:
    """What the gate says, `READY` or `ABSENT`; else nothing, and what was said in its place."""
    assert process.stdout is not None  # noqa: S101 - it is started with pipes
    said = bytearray()
    with suppress(anyio.EndOfStream):
        said += await process.stdout.receive(1)
    if bytes(said) in {READY, ABSENT}:
        return bytes(said), ""
    with anyio.move_on_after(LEFT_WITHIN_SECONDS):  # it is about to end, or should be
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                async for chunk in stream:
                    said += chunk[: _SAID_AT_MOST - len(said)]
    return b"", said.decode("utf-8", "replace").strip()


async def exited(process: Process) -> None:
    """Waits for that one process. (`Process.wait` may also wait for whoever else holds its pipes.)"""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(process.pid)
        try:
            await anyio.wait_readable(handle)
        finally:
            os.close(handle)
    while process.returncode is None:  # noqa: ASYNC110 - it has ended, and is about to be reaped
        await anyio.sleep(0.002)
