"""How a daemon is started, killed and ended for a trial, and which processes are left of it."""

import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from harnessd.cli.conformance.nursery import Forked, Nursery, Order
from harnessd.cli.conformance.place import TOKEN, Place

START_SECONDS = 30.0
END_SECONDS = 15.0
LEFT_SECONDS = 3.0
LOG_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Build:
    """What is tried: this very build, whose journal can be made to kill it, or the `command` of any other daemon."""

    nursery: Nursery | None = None
    command: str = ""

    @property
    def inside(self) -> bool:
        """Whether it can be killed at a step of its journal."""
        return self.nursery is not None

    async def start(self, place: Place, log: Path, steps: int | None) -> Process | Forked:
        """A process of it. `steps`: where it kills itself; 0 counts the steps, None is an ordinary disk."""
        env = _environment(place)
        if self.nursery is not None:
            arguments = (str(place.notes),) if steps is None else (str(place.notes), str(steps))
            return await self.nursery.start(Order(arguments, env, str(place.path), str(log)))
        with log.open("wb") as errors:
            return await anyio.open_process(
                shlex.split(self.command), stdin=None, stdout=errors, stderr=errors, env=env, cwd=place.path,
                start_new_session=True,
            )  # fmt: skip


class Daemon:
    """A process that was started; `url` is None until it is up, and stays so if it ends before."""

    def __init__(self, process: Process | Forked, place: Place, log: Path) -> None:
        self.url: str | None = None
        self.killed = False
        self._process = process
        self._place = place
        self._log = log
        self._pid = process.pid

    async def up(self) -> None:
        """Waits until it says where it listens, or has ended."""
        with anyio.move_on_after(START_SECONDS):
            while self._process.returncode is None and self.url is None:
                found = self._place.daemon()
                if found is not None and _alive(found[0]):
                    self._pid, self.url = found
                else:
                    await anyio.sleep(0.005)

    def kill(self) -> None:
        """Kills it as an outage would; what it started is not touched."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    async def end(self) -> None:
        """Asks it to end, and insists."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        with anyio.move_on_after(END_SECONDS):
            await self._process.wait()
        await self.gone()

    async def gone(self) -> None:
        """Waits until the process is gone, killing what does not go by itself."""
        with anyio.move_on_after(END_SECONDS):
            await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            self.kill()
            await self._process.wait()
        self.killed = self._process.returncode == -signal.SIGKILL or self._place.daemon() is not None

    @property
    def log(self) -> str:
        """The end of what it wrote to its error output."""
        return self._log.read_text("utf-8", "replace")[-LOG_CHARACTERS:].strip() if self._log.exists() else ""


@asynccontextmanager
async def started(build: Build, place: Place, number: int, steps: int | None) -> AsyncIterator[Daemon]:
    """A daemon; at the end of the block it is gone in any case."""
    log = place.path / f"daemon-{number}.log"
    process = await build.start(place, log, steps)
    daemon = Daemon(process, place, log)
    try:
        yield daemon
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                daemon.kill()
                process.kill()
            await process.wait()


async def left_of(mark: str, seconds: float = LEFT_SECONDS) -> tuple[str, ...]:
    """The processes whose command line holds `mark` and which are still there after so long."""
    found: tuple[str, ...] = ()
    with anyio.move_on_after(seconds):
        while found := await anyio.to_thread.run_sync(running, mark):  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.02)
    return found


def put_away(mark: str) -> None:
    """Kills the processes whose command line holds `mark`: what is left is reported, and does not stay. Blocks."""
    for found in running(mark):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(int(found.split()[0]), signal.SIGKILL)


def running(mark: str) -> tuple[str, ...]:
    """The processes, but for this one, whose command line holds `mark`. Blocks."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
            if mark in words:
                found.append(f"{entry.name} {words[:100].strip()}")
    return tuple(found)


def _environment(place: Place) -> dict[str, str]:
    """Only what a daemon needs: nothing of the user's harnessd, keys or git."""
    kept = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "HOME": str(place.path),
        "HARNESSD_WORKSPACES": str(place.workspaces),
        "HARNESSD_STATE": str(place.state),
        "HARNESSD_PORT": "0",
        "HARNESSD_TOKEN": TOKEN,
        "OPENAI_API_KEY": "conformance",
    }


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
