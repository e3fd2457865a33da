"""What the gate is told before a command begins: the command, its environment, its limits, where it may write.

It goes through a pipe, since what stands in arguments can be read by every user of the machine, and what stands in
bubblewrap's environment works on bubblewrap itself.
"""

import marshal
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio.abc import Process

from harnessd.sandbox.mounts import GATE, interpreter
from harnessd.sandbox.outcome import Limits

_COUNTS_PER_NAMESPACE = (5, 14)
"""Since this Linux a user namespace counts its own processes; before, the limit would count all of the user's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """For one start. `confined` is whether there are namespaces around it.

    `writable` None bounds no writing, `limits` None nothing else.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    limits: Limits | None
    writable: tuple[tuple[str, bool], ...] | None
    confined: bool = False

    async def send(self, process: Process, lifeline: int | None = None) -> None:
        """Tells the gate; if it is not there any more, its output says why."""
        assert process.stdin is not None  # noqa: S101 - it is started with pipes
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(self.message(lifeline))

    def message(self, lifeline: int | None = None) -> bytes:
        """What the gate reads: the length, then a marshalled tuple."""
        told = marshal.dumps(
            (
                list(self.command),
                dict(self.environment),
                self._limits(),
                self.confined,
                None if self.writable is None else list(self.writable),
                lifeline,
            )
        )
        return b"%08d%b" % (len(told), told)

    def _limits(self) -> list[tuple[str, int]]:
        limits = self.limits
        if limits is None:
            return []
        found = [
            ("RLIMIT_CORE", 0),
            ("RLIMIT_DATA", limits.memory),
            ("RLIMIT_FSIZE", limits.file_size),
            ("RLIMIT_NOFILE", limits.open_files),
        ]
        if self.confined and counts_processes():
            found.append(("RLIMIT_NPROC", limits.processes))
        return found


def gate_command() -> tuple[str, ...]:
    """The gate as a program."""
    return (str(interpreter()), "-I", "-S", str(GATE))


def counts_processes() -> bool:
    """Whether the kernel can bound the number of processes of one sandbox without a control group: never for root."""
    parts = platform.release().split(".")
    try:
        version = (int(parts[0]), int(parts[1].split("-")[0]))
    except (ValueError, IndexError):
        return False
    return version >= _COUNTS_PER_NAMESPACE and os.getuid() != 0
