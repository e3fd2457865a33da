"""How hundreds of daemons start in no time: one process imports everything and forks one of them after the other.

Each is a process of its own with its own session, environment and folder; only the second that imports take is saved.
The nursery (`python -m harnessd.cli.conformance.nursery`) reads one order a line, and tells pids and ends in lines.
"""

import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

READ_BEFORE = (
    "mcp",
    "aiohttp.web",
    "anyio._backends._asyncio",
    "jsonschema",
    "pygit2",
    "harnessd.models.direct",
    "harnessd.api.app",
)
LINE_AT_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """A daemon that is wanted: the arguments of `child`, its environment, its folder, where its output goes."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    folder: str
    log: str


class Forked:
    """A daemon of the nursery, used as a process is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = anyio.Event()

    async def wait(self) -> int:
        """Its exit status, or the signal that killed it as a negative number, as soon as there is one."""
        await self._ended.wait()
        return self.returncode or 0

    def kill(self) -> None:
        """Kills it, if it is there."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def ends(self, code: int) -> None:
        """The nursery has seen it end."""
        self.returncode = code
        self._ended.set()


class Nursery:
    """The kit's end of the line to the nursery."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ordering = anyio.Lock()
        self._born: dict[int, Forked] = {}
        self._next = anyio.create_memory_object_stream[Forked](1)

    async def start(self, order: Order) -> Forked:
        """A new daemon."""
        assert self._process.stdin is not None  # noqa: S101 - it was started with pipes
        async with self._ordering:
            await self._process.stdin.send(json.dumps(asdict(order)).encode() + b"\n")
            return await self._next[1].receive()

    async def listen(self) -> None:
        """Takes in what the nursery tells, until it ends."""
        assert self._process.stdout is not None  # noqa: S101 - as above
        lines = BufferedByteReceiveStream(self._process.stdout)
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
            while True:
                told = json.loads(await lines.receive_until(b"\n", LINE_AT_MOST))
                if "code" in told:
                    self._born.pop(told["pid"]).ends(told["code"])
                    continue
                born = self._born[told["pid"]] = Forked(told["pid"])
                await self._next[0].send(born)


@asynccontextmanager
async def nursery() -> AsyncIterator[Nursery]:
    """A nursery for as long as the block runs; at its end it is gone with everything that it started."""
    command = [sys.executable, "-P", "-m", "harnessd.cli.conformance.nursery"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    async with await anyio.open_process(command, env=env, stderr=None, start_new_session=True) as process:
        line = Nursery(process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.listen)
            try:
                yield line
            finally:
                tasks.cancel_scope.cancel()
                if process.stdin is not None:
                    with anyio.CancelScope(shield=True):
                        await process.stdin.aclose()
                        await process.wait()
                line._next[0].close()  # noqa: SLF001 - its own end
                line._next[1].close()  # noqa: SLF001


def serve() -> None:
    """The nursery itself: forks on order, tells who ended, and ends with its input, which ends everybody."""
    for name in READ_BEFORE:
        import_module(name)
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(told)
    born: set[int] = set()
    rest = b""
    while True:
        ready, _, _ = select.select([0, heard], [], [])
        if heard in ready:
            os.read(heard, 512)
            _reap(born)
        if 0 in ready:
            data = os.read(0, LINE_AT_MOST)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                born.add(_fork(Order(**json.loads(line)), (heard, told)))
    for pid in born:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork(order: Order, own: Sequence[int]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in own:
            os.close(fd)
        _become(order)
    _tell({"pid": pid})
    return pid


def _become(order: Order) -> NoReturn:
    """The forked process turns into a daemon as if it had been started afresh."""
    from harnessd.cli.conformance.child import main

    code = 1
    try:
        os.setsid()
        os.chdir(order.folder)
        log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, fd)
        os.environ.clear()
        os.environ.update(order.env)
        notes, *step = order.arguments
        code = anyio.run(main, Path(notes), int(step[0]) if step else None)
    except BaseException:  # noqa: BLE001 - the end of a process: what broke goes to its log
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _reap(born: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in born:
            born.discard(pid)
            _tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _tell(data: dict[str, int]) -> None:
    os.write(1, json.dumps(data).encode() + b"\n")


if __name__ == "__main__":
    serve()
