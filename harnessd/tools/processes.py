"""How a helper process is started so that it speaks in lines and leaves nothing behind.

It leads a process group of its own and is killed by the kernel when this process dies, however it dies. Its error
output goes to a log.
"""

import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import Process

from harnessd.tools.helper_log import HelperLog

LINE_AT_MOST = 8 * 1024 * 1024
"""Bytes of one line; a longer one is dropped as it comes and told as None."""

INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
CLOSE_SECONDS = 1.5
TERMINATE_SECONDS = 1.0
LAST_WORDS_SECONDS = 0.5

# PR_SET_PDEATHSIG is 1. If the parent is gone already, the signal will never come.
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class CannotStart(Exception):
    """The command does not exist or cannot be run; the message says which and why."""


class LineProcess:
    """A running helper: lines in, lines out."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.ended = anyio.Event()

    async def lines(self) -> AsyncIterator[bytes | None]:
        """Each line of its output without the line end; None for one that was too long. Ends with the output."""
        buffer = bytearray()
        searched = 0
        dropping = False
        assert self._process.stdout is not None  # noqa: S101 - it is started with pipes
        try:
            async for chunk in self._process.stdout:
                buffer += chunk
                while (end := buffer.find(b"\n", searched)) >= 0:
                    line = bytes(buffer[:end])
                    del buffer[: end + 1]
                    searched = 0
                    if not dropping:
                        yield line
                    dropping = False
                searched = len(buffer)
                if searched > LINE_AT_MOST:
                    if not dropping:
                        yield None
                    dropping = True
                    buffer.clear()
                    searched = 0
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return
        finally:
            self.ended.set()

    async def send(self, line: bytes) -> None:
        """Writes one line. Raises `anyio.BrokenResourceError` if the process no longer listens."""
        assert self._process.stdin is not None  # noqa: S101 - as above
        try:
            await self._process.stdin.send(line + b"\n")
        except OSError as error:
            raise anyio.BrokenResourceError from error


@asynccontextmanager
async def line_process(
    command: str, args: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: HelperLog
) -> AsyncIterator[LineProcess]:
    """A helper for as long as the block runs; at its end the process and its whole group are gone.

    It is asked to end by the end of its input, then by SIGTERM, then killed: at most three seconds in all.
    Raises `CannotStart`.
    """
    whole = {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(env)
    program = await anyio.to_thread.run_sync(_program, command, whole.get("PATH"), cwd)
    try:
        process = await anyio.open_process(tied((program, *args)), env=whole, cwd=cwd, start_new_session=True)
    except (OSError, ValueError) as error:
        raise CannotStart(f"{command!r} cannot be started: {error}") from None
    assert process.stderr is not None  # noqa: S101 - it is started with pipes
    logged = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(log.keep, process.stderr, logged)
        try:
            yield LineProcess(process)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, logged)
            group.cancel_scope.cancel()


def tied(command: Sequence[str]) -> list[str]:
    """`command` as a program that the kernel kills when this process dies, however it dies."""
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *command]


def _program(command: str, path: str | None, cwd: Path) -> str:
    """The file to run. Looked up here, since a missing one shows less clearly afterwards."""
    if not cwd.is_dir():
        raise CannotStart(f"its folder {cwd} does not exist")
    program = str(cwd / command) if "/" in command else shutil.which(command, path=path)
    if program is None or not os.access(program, os.X_OK):
        raise CannotStart(f"there is no program {command!r} on this machine's PATH")
    return program


async def _end(process: Process, logged: anyio.Event) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if process.stdin is not None:
            await process.stdin.aclose()
    if not await _gone(process, CLOSE_SECONDS):
        _signal(process, signal.SIGTERM)
        await _gone(process, TERMINATE_SECONDS)
    # The leader may be gone and have left others of its group behind.
    _signal(process, signal.SIGKILL)
    await _gone(process, TERMINATE_SECONDS)
    # Its last words; whoever left the group may hold the pipe open for ever.
    with anyio.move_on_after(LAST_WORDS_SECONDS):
        await logged.wait()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, ProcessLookupError):
        with anyio.move_on_after(TERMINATE_SECONDS):
            await process.aclose()


async def _gone(process: Process, seconds: float) -> bool:
    """Whether it ended in time. Polls: `wait` would also wait for whoever else holds its pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - see above
            await anyio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
