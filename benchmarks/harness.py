"""harnessd as the benchmarks drive it: in a fresh process per question, which prints its answer as one line of JSON.

`python -m benchmarks.harness QUESTION BASE HOME STATE [N]`
"""

import asyncio
import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harnessd.daemon.assemble import Runtime


async def turns(base: str, home: Path, state: Path, count: int) -> dict[str, Any]:
    """One run of `count` turns in a new session, and the seconds of processor time that a turn took."""
    async with open_runtime(base, home, state) as runtime:
        session = await runtime.session(runtime.home(str(home)))
        begun = time.process_time()
        await say(session, f"turns={count}")
        return {"session": session.session_id, "cpu": (time.process_time() - begun) / count}


async def calls(base: str, home: Path, state: Path, count: int) -> dict[str, Any]:
    """`count` calls of one turn in one session; the seconds of each from the control to the end."""
    async with open_runtime(base, home, state) as runtime:
        session = await runtime.session(runtime.home(str(home)))
        await say(session, "Hello")
        seconds = []
        for _ in range(count):
            start = time.monotonic()
            await say(session, "Hello")
            seconds.append(time.monotonic() - start)
        return {"seconds": seconds}


async def resume(base: str, home: Path, state: Path, session_id: str) -> dict[str, Any]:
    """How long it takes to open an old session, and when its next call was asked for."""
    async with open_runtime(base, home, state) as runtime:
        start = time.monotonic()
        session = await runtime.session(runtime.home(str(home)), session_id)
        opened = time.monotonic()
        await say(session, "Hello")
        return {"open": opened - start, "asked": opened, "messages": len(session.state.messages)}


async def resident(base: str, home: Path, state: Path, count: int) -> dict[str, Any]:
    """Memory in MB after the start, after a first call, and with `count` more sessions that idle after a call."""
    async with open_runtime(base, home, state) as runtime:
        started = resident_mb()
        await say(await runtime.session(runtime.home(str(home))), "turns=3")
        first = resident_mb()
        sessions = [await runtime.session(runtime.home(str(home))) for _ in range(count)]
        for session in sessions:
            await say(session, "turns=3")
        return {"started": started, "first": first, "idle": resident_mb()}


@contextlib.asynccontextmanager
async def open_runtime(base: str, home: Path, state: Path, **more: Any) -> "AsyncIterator[Runtime]":
    """The runtime of the home's workspaces; `more` are further settings."""
    from harnessd.cli.main import LOOKS_FOR_GARBAGE
    from harnessd.daemon.assemble import Runtime
    from harnessd.daemon.config import Settings

    gc.freeze()  # as the command line does once its modules are loaded
    gc.set_threshold(*LOOKS_FOR_GARBAGE)
    settings = Settings(workspaces=home.parent, state_dir=state, model="openai/bench", api_base=base, **more)
    async with Runtime.open(settings) as runtime:
        yield runtime


async def say(session: Any, text: str) -> None:
    """One run, to its end."""
    from harnessd.facts.control import Invoke

    await session.control(Invoke(input=text))
    await session.idle()


def resident_mb() -> float:
    """The memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


Questions = dict[str, Callable[..., Awaitable[dict[str, Any]]]]
QUESTIONS: Questions = {
    "turns": turns,
    "calls": calls,
    "resume": resume,
    "resident": resident,
}


def main(questions: Questions) -> None:
    """Prints the answer to the question of the command line."""
    question, base, home, state, more = sys.argv[1:]
    argument = int(more) if more.isdigit() else more

    async def answer() -> dict[str, Any]:
        return await questions[question](base, Path(home), Path(state), argument)

    print(json.dumps(asyncio.run(answer())))


if __name__ == "__main__":
    main(QUESTIONS)
