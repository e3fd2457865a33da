"""A session that runs in the daemon, to be worked with like one of this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from harnessd.client.answers import Accepted, Refused
from harnessd.client.connection import Unreachable
from harnessd.client.follow import Following
from harnessd.client.mirror import Mirror
from harnessd.errors import HarnessdError
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.event import Event
from harnessd.facts.state import State

ASK_AGAIN_SECONDS, DOUBTS = 0.3, 4
"""How often it is asked again when nothing runs although something is to be done: after a restart the daemon may be
about to take it up."""

if TYPE_CHECKING:
    from harnessd.client.client import Client


class RemoteSession:
    """One session, kept up to date by a stream of its own. Made by its `open`."""

    def __init__(
        self,
        client: "Client",
        agent: str,
        session_id: str,
        state: State,
        away: Callable[[bool], None] | None = None,
    ) -> None:
        self.session_id = session_id
        self._client = client
        self._agent = agent
        self._away = away
        self._mirror = Mirror(state)
        self._moved = anyio.Event()
        self._broken: HarnessdError | None = None
        self._asking: set[anyio.CancelScope] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        client: "Client",
        agent: str,
        session_id: str,
        state: State,
        away: Callable[[bool], None] | None = None,
    ) -> AsyncIterator["RemoteSession"]:
        """The session while the block runs, beginning with `state`; `away` is told when the daemon is, and is not."""
        session = cls(client, agent, session_id, state, away)
        raised: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session._keep_up)
            try:
                yield session
            except Exception as error:  # noqa: BLE001 - carried past the task group, which would wrap it
                raised = error
            tasks.cancel_scope.cancel()
        if raised is not None:
            raise raised

    @property
    def agent_id(self) -> str:
        """Whose it is: `main`, or a subagent's name."""
        return self._mirror.state.agent_id

    @property
    def state(self) -> State:
        """What is true now, as far as the daemon has told."""
        return self._mirror.state

    def subscribe(self, after: int = 0) -> Following:
        """Every event after that seq, then what comes, with deltas; broken connections are mended underneath."""
        return self._client.follow(self._agent, self.session_id, after)

    async def control(self, control: Invoke | Resume | Continue | Stop | UpdateState | Reload) -> Accepted | Refused:
        """Carries out one control; `state` has what it changed before this returns."""
        answer = await self._client.control(self._agent, self.session_id, control)
        if isinstance(answer, Accepted):
            await self.reached(answer.seq)
        return answer

    async def reached(self, seq: int) -> State:
        """Waits until `state` has everything up to `seq`. Raises what broke the stream."""
        while self.state.seq < seq:
            await self._news()
        return self.state

    async def idle(self) -> State:
        """Waits until nothing runs: the run ended, waits for a person or is parked. Raises what broke the session."""
        doubts = 0
        while True:
            try:
                state = await self.reached(await self._quiet())
                if is_quiet(state) or doubts == DOUBTS:
                    return state
                doubts += 1
            except Unreachable:
                doubts = 0  # the stream waits for the daemon as well, and knows when to give up
            with anyio.move_on_after(ASK_AGAIN_SECONDS):
                await self._news()

    async def _quiet(self) -> int:
        """The seq at which nothing runs. The daemon may hold that answer back for hours: only the stream, which says
        something all the time, tells whether it still lives. Raises what broke the stream."""
        with anyio.CancelScope() as asking:
            self._asking.add(asking)
            try:
                return await self._client.quiet(self._agent, self.session_id)
            finally:
                self._asking.discard(asking)
        await self._news()  # raises
        return self.state.seq

    async def page(self, before: int | None, count: int) -> list[Event]:
        """The last `count` events below seq `before` (None: of all), in order."""
        end = self.state.seq + 1 if before is None else before
        found: list[Event] = []
        if count <= 0 or end <= 1:
            return found
        async with self.subscribe(max(0, end - 1 - count)) as items:
            async for item in items:
                if isinstance(item, Event):
                    if item.seq < end:
                        found.append(item)
                    if item.seq >= end - 1:
                        break
        return found

    def recover(self) -> None:
        """Nothing to do here: the daemon goes on by itself with what a former process left."""

    async def _keep_up(self) -> None:
        try:
            async with self._client.follow(self._agent, self.session_id, self.state.seq, away=self._away) as items:
                async for item in items:
                    self._mirror.take(item)
                    if isinstance(item, Event):
                        self._wake()
        except HarnessdError as error:
            self._broken = error
            self._wake()
            for asking in tuple(self._asking):
                asking.cancel()

    async def _news(self) -> None:
        if self._broken is not None:
            raise self._broken
        await self._moved.wait()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


def is_quiet(state: State) -> bool:
    """Whether nothing is at work in a session: it is idle, waits for a person, or is parked."""
    run = state.active_run
    if run is None:
        first = state.queue[0] if state.queue else None
        return first is None or (first.parked and not first.stopped)
    if run.status == "parked":
        return True
    if run.status != "waiting_approval":
        return False
    below = {ref.parent_tool_call_id for ref in state.subagents if ref.status == "waiting"}
    return all(entry.status in {"waiting_approval", "finished"} or entry.call.id in below for entry in run.calls)
