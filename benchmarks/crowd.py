"""harnessd under load, as the soak drives it: in a fresh process per question, which prints its answer as JSON.

`python -m benchmarks.crowd QUESTION BASE HOME STATE N` or `… NxM`.
"""

import statistics
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from benchmarks.bare import run_bare
from benchmarks.harness import Questions, main, open_runtime, resident_mb, say

if TYPE_CHECKING:
    from harnessd.daemon.assemble import Runtime
    from harnessd.home.layout import Home

WORKERS = 20
RUNS_OF_A_SESSION = 10
SECONDS_OF_IDLING = 2.0
PIECES_WHILE_STOPPED = 3000


async def bare(base: str, home: Path, _state: Path, size: str) -> dict[str, float]:
    """`size` (sessions x turns) by the bare loop, each session in a thread of its own, all at once."""
    sessions, turns = map(int, size.split("x"))
    port = int(base.removesuffix("/v1").rpartition(":")[2])
    with ThreadPoolExecutor(sessions) as pool:
        ready = threading.Barrier(sessions + 1)

        def one(number: int) -> int:
            ready.wait()
            return run_bare(port, turns, home, f"bare-{number}")

        asked = [pool.submit(one, number) for number in range(sessions)]
        ready.wait()
        begun, cpu = time.monotonic(), time.process_time()
        done = sum(future.result() for future in asked)
        return _pace(done, begun, cpu)


async def crowd(base: str, home: Path, state: Path, size: str) -> dict[str, float]:
    """The same by harnessd, in one process."""
    sessions, turns = map(int, size.split("x"))
    async with open_runtime(base, home, state) as runtime, _visits(runtime, runtime.home(str(home)), sessions) as open_:
        await say(open_[0], "Hello")  # the process is warm, as a daemon is
        begun, cpu = time.monotonic(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for session in open_:
                tasks.start_soon(say, session, f"turns={turns}")
        return _pace(sessions * turns, begun, cpu)


async def runs(base: str, home: Path, state: Path, count: int) -> dict[str, Any]:
    """`count` runs of one turn, ten in a session, twenty at a time: what is held after a tenth, and at the end."""
    asked = ended = 0
    early: dict[str, float] = {}
    begun, cpu = time.monotonic(), time.process_time()
    async with open_runtime(base, home, state, idle_seconds=0) as runtime:
        where = runtime.home(str(home))

        async def work() -> None:
            nonlocal asked, ended, early
            while asked < count:
                async with runtime.visit(where) as session:
                    for _ in range(min(RUNS_OF_A_SESSION, count - asked)):
                        asked += 1
                        await say(session, "Hello")
                        ended += 1
                        if ended == count // 10:
                            early = _stock()

        async with anyio.create_task_group() as tasks:
            for _ in range(WORKERS):
                tasks.start_soon(work)
        late, pace = _stock(), _pace(ended, begun, cpu)
        await _let_go(runtime)
        return {"early": early, "late": late, "after": _stock(), **pace}


async def homes(base: str, home: Path, state: Path, count: int) -> dict[str, float]:
    """A first and a second run in each of the `count` homes beside `home`: milliseconds, and memory for each."""
    first: list[float] = []
    second: list[float] = []
    async with open_runtime(base, home, state, idle_seconds=0) as runtime:
        begun = time.monotonic()
        found = [one for one in runtime.homes() if one.name.startswith("many-")][:count]
        listed = time.monotonic() - begun
        async with runtime.visit(runtime.home(str(home))) as session:
            await say(session, "Hello")
        before = _stock()
        for times in (first, second):
            for one in found:
                begun = time.monotonic()
                async with runtime.visit(one) as session:
                    await say(session, "Hello")
                times.append(time.monotonic() - begun)
        await _let_go(runtime)
        after = _stock()
    return {
        "homes": len(found),
        "list_ms": listed * 1000,
        "first_ms": statistics.median(first) * 1000,
        "second_ms": statistics.median(second) * 1000,
        "kb": (after["mb"] - before["mb"]) * 1000 / len(found),
        "fds": (after["fds"] - before["fds"]) / len(found),
        "threads": after["threads"] - before["threads"],
    }


async def idle(base: str, home: Path, state: Path, count: int) -> dict[str, Any]:
    """`count` open sessions after a run each, then nothing: what they hold, what they cost, what stays of them."""
    async with open_runtime(base, home, state, idle_seconds=0) as runtime:
        where = runtime.home(str(home))
        async with runtime.visit(where) as session:
            await say(session, "Hello")
        await _let_go(runtime)
        before = _stock()
        async with _visits(runtime, where, count) as sessions:
            for session in sessions:
                await say(session, "Hello")
            held, cpu = _stock(), time.process_time()
            await anyio.sleep(SECONDS_OF_IDLING)
            cost = (time.process_time() - cpu) / SECONDS_OF_IDLING
            later = _stock()
        await _let_go(runtime)
        return {"before": before, "held": held, "later": later, "after": _stock(), "cpu_ms_a_second": cost * 1000}


async def stops(base: str, home: Path, state: Path, count: int) -> dict[str, Any]:
    """While `count` sessions stream, one after the other is stopped: milliseconds to each acknowledgement and end."""
    from harnessd.facts.control import Invoke, Stop

    told: list[float] = []
    ended: list[float] = []
    async with open_runtime(base, home, state) as runtime, _visits(runtime, runtime.home(str(home)), count) as sessions:
        for session in sessions:
            await session.control(Invoke(input=f"pieces={PIECES_WHILE_STOPPED}"))
        for session in sessions:
            async with session.subscribe() as items:
                async for item in items:
                    if getattr(item, "text", ""):
                        break
        for session in sessions:
            begun = time.monotonic()
            await session.control(Stop())
            told.append((time.monotonic() - begun) * 1000)
            await session.idle()
            ended.append((time.monotonic() - begun) * 1000)
    return {"told": sorted(told), "ended": sorted(ended)}


@asynccontextmanager
async def _visits(runtime: "Runtime", home: "Home", count: int) -> AsyncIterator[list[Any]]:
    """So many new sessions, open while the block runs."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(runtime.visit(home)) for _ in range(count)]


async def _let_go(runtime: "Runtime") -> None:
    """Returns when no session is open any more."""
    with anyio.fail_after(30):
        while runtime.sessions.open():  # noqa: ASYNC110 - nobody is told of it
            await anyio.sleep(0.05)


def _stock() -> dict[str, float]:
    """What the process holds now."""
    return {
        "mb": resident_mb(),
        "fds": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": threading.active_count(),
    }


def _pace(done: int, begun: float, cpu: float) -> dict[str, float]:
    wall = time.monotonic() - begun
    return {"wall": wall, "rate": done / wall, "cpu_ms": (time.process_time() - cpu) * 1000 / done}


QUESTIONS: Questions = {
    "bare": bare,
    "crowd": crowd,
    "runs": runs,
    "homes": homes,
    "idle": idle,
    "stops": stops,
}

if __name__ == "__main__":
    main(QUESTIONS)
