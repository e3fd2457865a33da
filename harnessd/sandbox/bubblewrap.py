"""How a command runs where it can do no harm: bubblewrap around it, limits on it, nothing left behind.

The home is read-only and `agents/` and `.git` are hidden; writable are `work/`, the granted folders and a
private /tmp. The user's own home directory, other agents and the operator's state do not exist in there. No
network unless granted, no environment but a small fixed one and what is given.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import Process

from harnessd.sandbox.cgroups import Group, make_group
from harnessd.sandbox.gate import ABSENT, READY
from harnessd.sandbox.mounts import CannotMount, Machine, Mounts, Places, plan_mounts
from harnessd.sandbox.namespace import Namespace
from harnessd.sandbox.outcome import NO_PROGRAM, Limits, Ran, TimedOut, Unavailable
from harnessd.sandbox.plan import Plan, gate_command
from harnessd.sandbox.started import LEFT_WITHIN_SECONDS, Held, Started, Tail, exited, first_word
from harnessd.sandbox.unconfined import start_unconfined

__all__ = ["Limits", "Ran", "Sandbox", "Started", "TimedOut", "Unavailable"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""What a command has of this process's environment, where the machine is as the user sees it."""

LAST_WORDS_SECONDS = 1.0
_NAMESPACES = (
    *("--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL"),  # as root the command would keep them all, and could undo the mounts
)
_OFFERED = "see what is missing: harnessd doctor"


@dataclass(frozen=True)
class Sandbox:
    """What every command of one home may reach. Paths are absolute; `hidden` are folders that it must not see.

    `visible` are paths below `agents/` that are shown all the same, `readable` the operator's folders that are shown
    though they lie in a hidden place; both read-only. `machine` is "read-only", or "as-user" for programs that the
    operator trusts with all that the user may do, but for homes and state. `writes=False` leaves nothing to write to
    but the private /tmp. `confined=False` is the operator's choice to go without all of this. `program` is
    bubblewrap itself; None looks for it where the system keeps programs.
    """

    home: Path
    workdirs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    network: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    machine: Machine = "read-only"
    writes: bool = True
    confined: bool = True
    program: str | None = None

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", seconds: float, hear: Callable[[str], None] | None = None
    ) -> Ran | TimedOut | Unavailable:
        """Runs `command` in `work/` and waits at most that many seconds; its whole process tree ends with it.

        `hear` is told the output as it comes, in order. It must not raise.
        """
        tail = Tail(hear)
        status = 0
        with anyio.move_on_after(seconds) as scope:
            async with self.start(command) as started:
                if isinstance(started, Unavailable):
                    return started
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_feed, started, stdin)
                    tasks.start_soon(_collect, started, tail)
                    status = await started.wait()
                    await started.end()  # what it left in the background may hold its output
                    tasks.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_SECONDS
        tail.take(b"", last=True)
        return TimedOut(seconds, tail.text) if scope.cancelled_caught else Ran(status, tail.text)

    def start(
        self, command: Sequence[str], *, cwd: Path | None = None, errors_apart: bool = False
    ) -> AbstractAsyncContextManager[Started | Unavailable]:
        """The running command, for as long as the block runs; leaving it kills everything in it, however it hid.

        It starts in `cwd`, an absolute path as it is in there (default: `work/`). If this process dies, all of it dies.
        """
        return self._start(command, cwd or Path(os.path.realpath(self.work)), errors_apart)

    @property
    def work(self) -> Path:
        """The current directory of every command."""
        return self.home / "work"

    @asynccontextmanager
    async def _start(
        self, command: Sequence[str], cwd: Path, errors_apart: bool
    ) -> AsyncIterator[Started | Unavailable]:
        plan = Plan(tuple(command), self._environment(), self.limits, writable=None)
        if not self.confined:
            async with start_unconfined(plan, cwd, errors_apart=errors_apart) as started:
                yield started
            return
        program = self.program or shutil.which("bwrap", path=PATH)
        if program is None:
            yield Unavailable("bubblewrap is not installed", "install it: apt-get install bubblewrap")
            return
        try:
            with anyio.CancelScope(shield=True):  # cancelled in its middle, nobody would remove the group
                mounts, group = await anyio.to_thread.run_sync(self._prepare, program)
        except CannotMount as error:
            yield Unavailable(f"the sandbox cannot be made: {error}", "mend that folder, or do not grant it")
            return
        plan = Plan(plan.command, plan.environment, plan.limits, mounts.writable, confined=True)
        try:
            async with _confined(self._inside(program, mounts, cwd), group, errors_apart) as (process, namespace):
                if await namespace.hold():
                    await plan.send(process)
                word, said = await first_word(process)
                if word == READY:
                    yield Started(process, _HeldNamespace(namespace))
                else:
                    yield await _why(process, word, said, command)
        finally:
            if group.folders:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(group.remove)

    def _prepare(self, program: str) -> tuple[Mounts, Group]:
        places = Places(self.home, self.workdirs, self.hidden, self.visible, self.readable, self.machine, self.writes)
        size = self.limits.memory // 2 if _knows_size(program) else None
        return plan_mounts(places, network=self.network, tmp_bytes=size), make_group(self.limits)

    def _inside(self, program: str, mounts: Mounts, cwd: Path) -> list[str]:
        network = [] if self.network else ["--unshare-net"]
        return [program, *_NAMESPACES, *network, *mounts.arguments, "--chdir", str(cwd)]

    def _environment(self) -> dict[str, str]:
        if self.machine == "as-user":
            base = {name: os.environ[name] for name in INHERITED if name in os.environ}
        else:
            work = os.path.realpath(self.work)
            base = {"PATH": PATH, "HOME": work, "USER": "agent", "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp"}  # noqa: S108
        return {**base, **self.environment}


@asynccontextmanager
async def _confined(
    inside: Sequence[str], group: Group, errors_apart: bool
) -> AsyncIterator[tuple[Process, Namespace]]:
    """Bubblewrap with the gate in it. At the end of the block all of it is gone."""
    with Namespace(group.folders) as namespace:
        with anyio.CancelScope(shield=True):  # cancelled in its middle, nobody would know the process yet
            process = await anyio.open_process(
                group.entering([*inside, *namespace.arguments, "--", *gate_command()]),
                stdin=-1,
                stdout=-1,
                stderr=-1 if errors_apart else -2,
                env={"PATH": PATH},
                start_new_session=True,
                pass_fds=namespace.inherited,
            )
        try:
            yield process, namespace
        finally:
            with anyio.CancelScope(shield=True):
                await namespace.end()
                await _end(process)


@dataclass(frozen=True)
class _HeldNamespace(Held):
    namespace: Namespace

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.namespace.end()


async def _feed(started: Started, data: bytes) -> None:
    """Gives the command its input and closes it; a command that does not read is no fault."""
    with suppress(anyio.BrokenResourceError):
        if data:
            await started.send(data)
    await started.close_input()


async def _collect(started: Started, tail: Tail) -> None:
    async for chunk in started.output:
        tail.take(chunk)


async def _why(process: Process, word: bytes, said: str, command: Sequence[str]) -> Unavailable:
    if word == ABSENT:
        return Unavailable(f"the sandbox cannot start this: there is no program {command[0]!r} in it", NO_PROGRAM)
    if not said:
        with anyio.move_on_after(LEFT_WITHIN_SECONDS):
            await exited(process)
        said = f"bubblewrap ended with status {process.returncode}"
    return Unavailable(f"the sandbox cannot start this: {said.removeprefix('bwrap: ')}", _OFFERED)


async def _end(process: Process) -> None:
    """Reaps bubblewrap itself, which goes when its namespace is gone; otherwise it is made to."""
    with anyio.move_on_after(LEFT_WITHIN_SECONDS):
        await exited(process)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.aclose()


@cache
def _knows_size(program: str) -> bool:
    """Whether this bubblewrap can bound a folder in memory; with older ones it may take half of it."""
    try:
        said = subprocess.run([program, "--help"], capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return b"--size" in said
