"""How a command runs where it can do no harm: bubblewrap around it, limits on it, nothing left behind.

The home is read-only and `agents/` and `.git` are hidden; writable are `work/`, the granted folders and a
private /tmp. The user's own home directory, other agents and the operator's state do not exist in there. No
network unless granted, no environment but the few names given.
"""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

KEPT_OUTPUT = 64_000
"""Bytes of a command's output that are kept; of more, the beginning is dropped."""

GRACE_SECONDS = 2.0
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
    """There is no sandbox on this machine, so nothing ran; `hint` says how to get one."""

    message: str
    hint: str


@dataclass(frozen=True)
class Sandbox:
    """What every command of one home may reach. Paths are absolute; `hidden` are folders that it must not see."""

    home: Path
    workdirs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    async def run(self, command: Sequence[str], *, stdin: bytes = b"", seconds: float) -> Ran | TimedOut | Unavailable:
        """Runs `command` in `work/` and waits at most that many seconds; its whole process tree ends with it."""
        program = shutil.which("bwrap", path=_PATH)
        if program is None:
            return Unavailable("bubblewrap is not installed", "install it: apt-get install bubblewrap")
        self.work.mkdir(exist_ok=True)
        process = await anyio.open_process(
            [program, *self.arguments(), "--", *command],
            stdin=-1,
            stdout=-1,
            stderr=-2,
            env={"PATH": _PATH, **self.environment},
            start_new_session=True,
        )
        output = bytearray()
        try:
            with anyio.move_on_after(seconds) as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_feed, process, stdin)
                    tasks.start_soon(_collect, process, output)
                    await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
        text = bytes(output).decode("utf-8", "replace")
        if scope.cancelled_caught:
            return TimedOut(seconds, text)
        return Ran(process.returncode or 0, text)

    @property
    def work(self) -> Path:
        """The current directory of every command."""
        return self.home / "work"

    def arguments(self) -> list[str]:
        """What bubblewrap is told, in the order in which it mounts."""
        arguments = ["--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
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


async def _feed(process: Process, data: bytes) -> None:
    """Gives the command its input and closes it; a command that does not read is no fault."""
    assert process.stdin is not None  # noqa: S101 - opened as a pipe
    try:
        if data:
            await process.stdin.send(data)
        await process.stdin.aclose()
    except (BrokenPipeError, anyio.BrokenResourceError):
        return


async def _collect(process: Process, output: bytearray) -> None:
    stream: ByteReceiveStream | None = process.stdout
    assert stream is not None  # noqa: S101 - opened as a pipe
    async for chunk in stream:
        output += chunk
        if len(output) > KEPT_OUTPUT:
            del output[: len(output) - KEPT_OUTPUT]


async def _end(process: Process) -> None:
    """Ends the process group; with the pid namespace's first process gone, the kernel ends everything in it."""
    if process.returncode is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            with anyio.move_on_after(GRACE_SECONDS):
                await process.wait()
                break
    await process.aclose()
