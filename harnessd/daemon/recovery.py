"""What did a former process leave, and what becomes of it?

One path for start and resume: a session with something left to do is opened, and goes on as it would have. Only the
ends of the journals are read to find those; what merely waits for a person is noted and not opened.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from harnessd.daemon.delegation import WayUp, way_up
from harnessd.daemon.session import Session
from harnessd.daemon.sessions import Sessions
from harnessd.errors import HarnessdError
from harnessd.home.layout import Home
from harnessd.journal.peek import peek
from harnessd.journal.records import read_page
from harnessd.journal.standing import Standing, standing

AT_ONCE = 4
"""How many homes are looked through at the same time."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A home or session that could not be taken up, and why; it hinders no other."""

    where: str
    reason: str


@dataclass(slots=True)
class Recovered:
    """What was found: sessions that go on, that are parked, that wait for a person; and what could not be read."""

    homes: int = 0
    resumed: list[str] = field(default_factory=list)
    parked: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


Visit = Callable[[Home, str], AbstractAsyncContextManager[Session]]
"""Opens a session for as long as it is looked at."""


@dataclass(frozen=True, slots=True)
class _Found:
    agent_id: str
    session_id: str
    how: Standing


async def recover(homes: Sequence[Home], visit: Visit, sessions: Sessions) -> Recovered:
    """Looks through every home and lets each session go on that can; `sessions` learns what waits for a person."""
    report = Recovered(homes=len(homes))
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(home: Home) -> None:
        async with limit:
            found = await anyio.to_thread.run_sync(_look, home, report.unreadable)
            for each in found:
                try:
                    await _take_up(visit, sessions, home, each, report)
                except (HarnessdError, OSError) as error:
                    report.unreadable.append(Unreadable(f"{home.name} {each.session_id}", str(error)))

    async with anyio.create_task_group() as tasks:
        for home in homes:
            tasks.start_soon(one, home)
    return report


async def _take_up(visit: Visit, sessions: Sessions, home: Home, found: _Found, report: Recovered) -> None:
    if found.agent_id != "main":
        await _take_up_below(visit, home, found, report)
    elif found.how.word in {"unfinished", "queued"}:
        async with visit(home, found.session_id) as session:
            session.recover()
            (report.parked if session.parked else report.resumed).append(session.session_id)
    else:
        (report.parked if found.how.word == "parked" else report.waiting).append(found.session_id)
    if found.how.approvals:
        state = await anyio.to_thread.run_sync(
            peek, home.journal(found.agent_id, found.session_id), home.checkpoint(found.agent_id, found.session_id)
        )
        sessions.learn((home.path, found.session_id), found.agent_id, state)


async def _take_up_below(visit: Visit, home: Home, found: _Found, report: Recovered) -> None:
    """A subagent goes on with the run at the top, which does not know that it can if it waited; or ends without it."""
    way, since = await anyio.to_thread.run_sync(_look_up, home, found)
    if way.wanted and found.how.word != "unfinished":
        return
    async with visit(home, way.session_id) as session:
        if not way.wanted:
            await session.end_below()
            return
        session.recover(since)
        if session.parked and session.session_id not in report.parked:
            report.parked.append(session.session_id)


def _look_up(home: Home, found: _Found) -> tuple[WayUp, str]:
    """Whom a subagent's session works for, and when its last fact was; blocks."""
    journal = home.journal(found.agent_id, found.session_id)
    state = peek(journal, home.checkpoint(found.agent_id, found.session_id))
    since = "".join(event.at for event in read_page(journal, None, 1))
    return way_up(home, found.session_id, state.parent), since


def _look(home: Home, unreadable: list[Unreadable]) -> Sequence[_Found]:
    """Every session of the home in which something is left to do, those of the main agent first; blocks."""
    found: list[_Found] = []
    try:
        journals = sorted((home.path / "agents").glob("*/sessions/*.jsonl"))
    except OSError as error:
        unreadable.append(Unreadable(home.name, str(error)))
        return ()
    for path in journals:
        try:
            how = standing(path)
        except HarnessdError as error:
            unreadable.append(Unreadable(f"{home.name} {path.stem}", str(error)))
            continue
        if how.word != "quiet":
            found.append(_Found(path.parents[1].name, path.stem, how))
    return sorted(found, key=lambda one: one.agent_id != "main")
