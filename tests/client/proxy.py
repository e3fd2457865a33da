"""A bad line: a proxy that passes bytes on and breaks each connection after as many bytes as it is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class BadLine:
    """`breaks` counts the connections that it broke; `whole` lets everything through from then on; while `passes` is
    not set nothing gets through and nothing breaks, as if the daemon were stopped by a signal."""

    path: Path
    budget: Callable[[], int]
    breaks: int = 0
    whole: bool = False
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)


@contextlib.asynccontextmanager
async def bad_line(path: Path, to: Path, budget: Callable[[], int]) -> AsyncIterator[BadLine]:
    """Listens at the socket `path` and passes on to `to`; `budget` says after how many answered bytes it breaks."""
    line = BadLine(path, budget)
    line.passes.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        line._tasks.add(task)
        if not line.passes.is_set():
            try:
                await line.passes.wait()
            except asyncio.CancelledError:
                writer.transport.abort()
                return
        there_reader, there_writer = await asyncio.open_unix_connection(str(to))
        asking = asyncio.create_task(_pass_on(reader, there_writer))
        left = line.budget()
        try:
            while data := await there_reader.read(4096):
                await line.passes.wait()
                if not line.whole:
                    data = data[:left]
                    left -= len(data)
                writer.write(data)
                await writer.drain()
                if not left and not line.whole:
                    line.breaks += 1
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass  # the task is this connection's alone, and ends here
        finally:
            asking.cancel()
            writer.transport.abort() if line.breaks % 2 else writer.close()
            there_writer.transport.abort() if line.breaks % 3 else there_writer.close()
            line._tasks.discard(task)

    server = await asyncio.start_unix_server(serve, str(path))
    try:
        yield line
    finally:
        server.close()
        for task in tuple(line._tasks):
            task.cancel()
        await asyncio.gather(*line._tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()
