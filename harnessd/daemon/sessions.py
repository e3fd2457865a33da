"""Which sessions are open in this process, for how long, and what waits for a person in those that are not?

There is one `Session` for each session. It stays open while somebody visits it or something runs in it, and is let go a
while after, so that neither memory nor a file is held for one that only waits.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio

from harnessd.daemon.session import Session, runs_out
from harnessd.errors import Conflict, HarnessdError, StorageError
from harnessd.facts.run import Approval
from harnessd.facts.state import State

Key = tuple[Path, str]
"""The home's path and the session's id."""

SHORTEST_LOOK = 0.2
LOOK_SECONDS = 30.0
"""How long at most until it is looked again for what ran out: the clock may have been set."""


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """An approval that waits for a person, and where; `title` is the session's."""

    home: str
    agent_id: str
    session_id: str
    title: str
    user_id: str | None
    approval: Approval


@dataclass(slots=True)
class _Held:
    session: Session
    visitors: int = 0
    left_at: float = 0.0


@dataclass(slots=True)
class _Door:
    """Lets one at a time open or close a session; kept while somebody stands at it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    standing: int = 0


class Sessions:
    """The sessions of one process. `expire` lets approvals of a session that is not open run out."""

    def __init__(self, expire: Callable[[Path, str], Awaitable[None]], idle_seconds: float) -> None:
        self._expire = expire
        self._idle_seconds = idle_seconds
        self._held: dict[Key, _Held] = {}
        self._doors: dict[Key, _Door] = {}
        self._dormant: dict[Key, tuple[WaitingApproval, ...]] = {}
        self._tried: dict[Key, float] = {}
        self._news = anyio.Event()
        self._draining = False
        self._over = False

    async def enter(self, key: Key, open_it: Callable[[], Awaitable[Session]]) -> Session:
        """The session, opened by `open_it` unless it is open; `leave` it when done. Raises what `open_it` does.

        Raises `Conflict` once all are closed for good.
        """
        async with self._at_the_door(key):
            if self._over:
                raise Conflict("the process is ending", where=str(key[0]), hint="open it in another one")
            held = self._held.get(key)
            if held is None or held.session.closed:
                held = self._held[key] = _Held(await open_it())
                self._dormant.pop(key, None)
                if self._draining:
                    held.session.pause()
            held.visitors += 1
            return held.session

    def leave(self, key: Key, session: Session) -> None:
        """One visitor less, unless that one was closed meanwhile and another is open in its place."""
        held = self._held.get(key)
        if held is not None and held.session is session:
            held.visitors -= 1
            held.left_at = time.monotonic()

    def knows(self, key: Key) -> bool:
        """Whether it is open."""
        return key in self._held

    def find(self, key: Key) -> Session | None:
        """It, if it is open."""
        held = self._held.get(key)
        return held.session if held is not None else None

    def title(self, key: Key) -> str:
        """The title of a session that is open; empty if it has none or is not open."""
        held = self._held.get(key)
        return held.session.state.title if held is not None else ""

    def open(self) -> tuple[Session, ...]:
        """Those that are open now, in the order of opening."""
        return tuple(held.session for held in self._held.values())

    def waiting(self) -> tuple[WaitingApproval, ...]:
        """Everything that waits for a person, the oldest first."""
        now = [one for (path, _), held in self._held.items() for one in _waiting_in(path, held.session)]
        found = [*now, *(one for some in self._dormant.values() for one in some)]
        return tuple(sorted(found, key=lambda one: (one.approval.requested_at, one.approval.id)))

    def learn(self, key: Key, agent_id: str, state: State) -> None:
        """Takes note of what waits in a session of that agent which is not open."""
        waiting = waiting_in(key, agent_id, state)
        if waiting and key not in self._held:
            self._dormant[key] = waiting
            self.look()

    def forget(self, key: Key) -> None:
        """Forgets what waits in a session that is not there any more."""
        self._dormant.pop(key, None)

    async def let_go(self, key: Key) -> None:
        """Closes it, unless somebody visits it or something runs in it or for it. Raises `StorageError`."""
        async with self._at_the_door(key):
            held = self._held.get(key)
            if held is None or held.visitors or not held.session.quiet or held.session.has_jobs:
                return
            del self._held[key]
            self.learn(key, held.session.agent_id, held.session.state)
            await held.session.close()

    @asynccontextmanager
    async def shut(self, key: Key) -> AsyncIterator[None]:
        """Keeps it closed while the block runs, whoever visits it, and forgets what waits in it afterwards.

        Raises `Conflict` if something runs in it, `StorageError`.
        """
        async with self._at_the_door(key):
            held = self._held.get(key)
            if held is not None:
                if not held.session.quiet:
                    said = f"something runs in the session {key[1]}"
                    raise Conflict(said, where=str(key[0]), hint=f"stop it first: harnessd stop {key[0].name} {key[1]}")
                del self._held[key]
                await held.session.close()
            yield
            self._dormant.pop(key, None)

    async def keep(self) -> None:
        """Lets go of what is idle, and lets approvals run out, for as long as the process runs."""
        while True:
            self._news = anyio.Event()
            with anyio.move_on_after(self._seconds_until_due()):
                await self._news.wait()
            for key in self._idle():
                try:
                    await self.let_go(key)
                except StorageError:
                    continue  # what could not be written was told to those who asked for it
            for key in [key for key, seconds in self._expiries() if seconds <= 0]:
                self._tried[key] = time.monotonic()
                await self._expire(*key)

    def look(self) -> None:
        """Says that something new waits for a person, and for how long."""
        self._news.set()

    async def drain(self, seconds: float) -> None:
        """Takes no more controls, lets turns end within so many seconds, and saves the state of what was cut short."""
        self._draining = True
        for session in self.open():
            session.pause()
        with anyio.move_on_after(seconds):
            for session in self.open():
                await session.rest()
        for session in self.open():
            if session.quiet and session.state.active_run is not None:
                try:
                    await session.checkpoint()
                except StorageError:
                    continue  # a checkpoint only saves time

    async def close(self, *, last: bool = False) -> HarnessdError | None:
        """Closes all in the order of opening: a run lets go of its subagents itself. The first failure, if any.

        After the `last` time nothing is opened any more.
        """
        failure: HarnessdError | None = None
        while self._held or self._doors:
            if not self._held:
                async with self._at_the_door(next(iter(self._doors))):
                    continue  # one that was just being opened is closed with the others
            key = next(iter(self._held))
            try:
                await self._held.pop(key).session.close()
            except HarnessdError as error:
                failure = failure or error
        self._over = last
        return failure

    def _idle(self) -> list[Key]:
        before = time.monotonic() - self._idle_seconds
        return [
            key
            for key, held in self._held.items()
            if not held.visitors and held.session.quiet and not held.session.has_jobs
            if max(held.left_at, held.session.quiet_since) <= before
        ]

    def _expiries(self) -> list[tuple[Key, float]]:
        """When approvals run out, in seconds from now; one that could not be is tried again after a while."""
        now, today = time.monotonic(), datetime.now(UTC)
        self._tried = {key: at for key, at in self._tried.items() if now - at < LOOK_SECONDS}
        live = ((key, _waiting_in(key[0], held.session)) for key, held in self._held.items())
        return [
            (key, max((end - today).total_seconds(), self._not_before(key) - now))
            for key, some in (*self._dormant.items(), *live)
            for one in some
            if (end := runs_out(one.approval)) is not None
        ]

    def _not_before(self, key: Key) -> float:
        return self._tried[key] + LOOK_SECONDS if key in self._tried else 0.0

    def _seconds_until_due(self) -> float:
        soon = max(SHORTEST_LOOK, self._idle_seconds)
        return max(0.0, min([LOOK_SECONDS, soon, *(seconds for _, seconds in self._expiries())]))

    @asynccontextmanager
    async def _at_the_door(self, key: Key) -> AsyncIterator[None]:
        door = self._doors.setdefault(key, _Door())
        door.standing += 1
        try:
            async with door.lock:
                yield
        finally:
            door.standing -= 1
            if not door.standing:
                self._doors.pop(key, None)


def waiting_in(key: Key, agent_id: str, state: State) -> tuple[WaitingApproval, ...]:
    """What waits for a person in one session; where it is does not come from its journal, which may be damaged."""
    path, session_id = key
    return tuple(
        WaitingApproval(path.name, agent_id, session_id, state.title, state.user_id, approval)
        for approval in state.pending_approvals
    )


def _waiting_in(path: Path, session: Session) -> tuple[WaitingApproval, ...]:
    return waiting_in((path, session.session_id), session.agent_id, session.state)
