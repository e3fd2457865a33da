"""How a command runs where it can do no harm: bubblewrap around it, limits on it, nothing left behind.

The home is read-only and `agents/` and `.git` are hidden; writable are `work/`, the granted folders and a
private /tmp. The user's own home directory, other agents and the operator's state do not exist in there. No
network unless granted, no environment but the few names given.
"""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from harnessd.sandbox.namespace import ABSENT, GO, THERE, Namespace, gated

KEPT_OUTPUT = 64_000
"""Bytes of a command's output that are kept; of more, the beginning is dropped."""

LEFT_WITHIN_SECONDS = 0.5
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Ran:
    """The command ended by itself: its exit status and what it printed, both streams in one."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The command was ended after its time; `output` is what it had printed."""

    seconds: float
    output: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No sandbox could be made, or it could not start the command, so nothing ran; `hint` says what to do."""

    message: str
    hint: str


@dataclass(frozen=True)
class Sandbox:
    """What every command of one home may reach. Paths are absolute; `hidden` are folders that it must not see.

    `program` is bubblewrap itself; None looks for it where the system keeps programs.
    """

    home: Path
    workdirs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None

    async def run(self, command: Sequence[str], *, stdin: bytes = b"", seconds: float) -> Ran | TimedOut | Unavailable:
        """Runs `command` in `work/` and waits at most that many seconds; its whole process tree ends with it."""
        program = self.program or shutil.which("bwrap", path=_PATH)
        if program is None:
            return Unavailable("bubblewrap is not installed", "install it: apt-get install bubblewrap")
        self.work.mkdir(exist_ok=True)
        with Namespace() as namespace:
            full = [program, *self.arguments(), *namespace.arguments, "--", *gated(command)]
            with anyio.CancelScope(shield=True):  # cancelled in its middle, nobody would know the process yet
                process = await anyio.open_process(
                    full,
                    stdin=-1,
                    stdout=-1,
                    stderr=-2,
                    env={"PATH": _PATH, **self.environment},
                    start_new_session=True,
                    pass_fds=namespace.inherited,
                )
            output = _Output()
            try:
                with anyio.move_on_after(seconds) as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_collect, process, output)
                        if await namespace.hold() and await output.gate() == THERE:
                            tasks.start_soon(_feed, process, GO + stdin)
                        await process.wait()
                        await namespace.end()  # what it left in the background may hold its output
            finally:
                with anyio.CancelScope(shield=True):
                    await namespace.end()
                    await _end(process)
            text = bytes(output.kept).decode("utf-8", "replace")
            if scope.cancelled_caught:
                return TimedOut(seconds, text)
            if output.first != THERE:
                said = text.strip().removeprefix("bwrap: ") or f"bubblewrap ended with status {process.returncode}"
                if output.first == ABSENT:
                    said = f"there is no program {command[0]!r} in it"
                return Unavailable(f"the sandbox cannot start this: {said}", "see what is missing: harnessd doctor")
        return Ran(process.returncode or 0, text)

    @property
    def work(self) -> Path:
        """The current directory of every command."""
        return self.home / "work"

    def arguments(self) -> list[str]:
        """What bubblewrap is told, in the order in which it mounts."""
        arguments = ["--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
        arguments += ["--unshare-uts", "--unshare-cgroup-try"]
        if not self.network:
            arguments += ["--unshare-net"]
        arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108
        for folder in (Path("/run"), Path("/root"), Path("/home"), *self.hidden):
            if folder.is_dir():
                arguments += ["--tmpfs", str(folder)]
        home = str(self.home)
        arguments += ["--ro-bind", home, home]
        for name in ("agents", ".git"):
            if (self.home / name).is_dir():
                arguments += ["--tmpfs", f"{home}/{name}"]
        for folder in (self.work, *self.workdirs):
            arguments += ["--bind", str(folder), str(folder)]
        return [*arguments, "--chdir", str(self.work), "--setenv", "HOME", str(self.work)]


class _Output:
    """What comes out: the gate's first byte, and of the command's own bytes the last ones."""

    def __init__(self) -> None:
        self.first = b""
        self.kept = bytearray()
        self._heard = anyio.Event()

    async def gate(self) -> bytes:
        """What the gate says; empty if nothing comes out at all."""
        await self._heard.wait()
        return self.first

    def take(self, chunk: bytes) -> None:
        """More output; empty at its end."""
        if not self._heard.is_set():
            if chunk[:1] in {THERE, ABSENT}:
                self.first, chunk = chunk[:1], chunk[1:]
            self._heard.set()
        self.kept += chunk
        if len(self.kept) > KEPT_OUTPUT:
            del self.kept[: len(self.kept) - KEPT_OUTPUT]


async def _feed(process: Process, data: bytes) -> None:
    """Gives the command its input and closes it; a command that does not read is no fault."""
    assert process.stdin is not None  # noqa: S101 - opened as a pipe
    try:
        if data:
            await process.stdin.send(data)
        await process.stdin.aclose()
    except (BrokenPipeError, anyio.BrokenResourceError):
        return


async def _collect(process: Process, output: _Output) -> None:
    stream: ByteReceiveStream | None = process.stdout
    assert stream is not None  # noqa: S101 - opened as a pipe
    async for chunk in stream:
        output.take(chunk)
    output.take(b"")


async def _end(process: Process) -> None:
    """Reaps bubblewrap itself, which goes when its namespace is gone; otherwise it is made to."""
    with anyio.move_on_after(LEFT_WITHIN_SECONDS):
        await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.aclose()
