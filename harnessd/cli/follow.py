"""How are a session's facts put on a screen while it works, and how is it stopped from the keyboard?"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus

from harnessd.cli.live import Screen
from harnessd.cli.reach import Conversation
from harnessd.facts.control import Stop
from harnessd.facts.event import Event
from harnessd.facts.state import State
from harnessd.journal.bus import Cut

LAST_WORDS_SECONDS = 5.0
"""How long the last facts may take to the screen; if the disk refuses them just then, they never come."""

WAKING_SECONDS = 10.0
"""How long it may take until the run at the top has heard of a decision below; it is never longer unless it broke."""


async def attended(
    session: Conversation, screen: Screen, after: int, act: Callable[[], Awaitable[None]]
) -> State | None:
    """Does `act`, then shows every fact with a seq above `after` until the session falls quiet.

    SIGINT and SIGTERM stop what runs. Returns the state, or None if the person left before that.
    """
    state: State | None = None
    with anyio.CancelScope() as leave:
        async with anyio.create_task_group() as tasks:
            await tasks.start(stop_on_signal, session, leave)
            async with following(session, screen, after) as follower:
                await act()
                state = await follower.settled()
            tasks.cancel_scope.cancel()
    return state


class Follower:
    """Shows every fact of a session after one seq, in order, and knows how far it has come."""

    def __init__(self, session: Conversation, screen: Screen, after: int) -> None:
        self._session = session
        self._screen = screen
        self._seen = after
        self._ended = False
        self._moved = anyio.Event()

    async def settled(self) -> State:
        """Waits until nothing runs and all of it is on the screen; raises what broke the session."""
        state = await self._session.idle()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            while self._seen < state.seq and not self._ended:
                await self._moved.wait()
        self._screen.rest()
        return state

    async def follow(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Shows until the session closes."""
        task_status.started()
        try:
            while await self._follow_until_cut():
                pass
        finally:
            self._ended = True
            self._wake()

    async def _follow_until_cut(self) -> bool:
        """Whether it was cut because it was too slow; then there is more after what was seen."""
        async with self._session.subscribe(self._seen) as items:
            async for item in items:
                if isinstance(item, Cut):
                    return True
                self._screen.show(item)
                if isinstance(item, Event):
                    self._seen = item.seq
                    self._wake()
        return False

    def _wake(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


@asynccontextmanager
async def following(session: Conversation, screen: Screen, after: int) -> AsyncIterator[Follower]:
    """A follower that shows in the background for as long as the context lasts."""
    follower = Follower(session, screen, after)
    async with anyio.create_task_group() as tasks:
        await tasks.start(follower.follow)
        yield follower
        tasks.cancel_scope.cancel()


async def moved(session: Conversation, seq: int) -> None:
    """Waits until a fact with a seq above `seq` is there: a decision below wakes the run at the top in its own time."""
    with anyio.move_on_after(WAKING_SECONDS):
        async with session.subscribe(seq) as items:
            async for item in items:
                if isinstance(item, Event):
                    return


async def stop_on_signal(
    session: Conversation, leave: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """SIGINT or SIGTERM stops what runs; one more, or nothing to stop, cancels `leave`."""
    # The second signal does not wait for what the first one asks: a daemon that does not answer may take a minute.
    async with anyio.create_task_group() as asking:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            asked = False
            async for _ in signals:
                if asked or (session.state.active_run is None and not session.state.queue):
                    leave.cancel()
                    return
                asked = True
                asking.start_soon(session.control, Stop(scope="session"))
