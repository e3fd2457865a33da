"""How one follows a session without a gap: from any seq on, over every broken connection and restarted daemon."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic_core import from_json

from harnessd.client.connection import FIRST_WAIT, LONGEST_WAIT, Connection, Unreachable
from harnessd.client.frames import Frame, Frames
from harnessd.client.problem import Problem
from harnessd.facts.event import (
    AssistantReasoningDelta,
    AssistantTextDelta,
    Delta,
    Event,
    ToolCallDelta,
    read_event,
)

if TYPE_CHECKING:
    import aiohttp

_DELTAS: dict[str, type[Delta]] = {
    kind.model_fields["type"].default: kind for kind in (AssistantTextDelta, AssistantReasoningDelta, ToolCallDelta)
}


class Following:
    """An async iterator of events and deltas. Each event with a seq above `after` comes once and in order.

    After a lost connection it goes on behind the last event, and each text that is being written comes again from
    its beginning, as its `offset` says. Ends only when it is closed; raises `Unreachable` when the daemon stayed
    away for the connection's patience, `SessionNotFound` when the session is gone. `away` is called
    with True when the daemon cannot be reached, and with False when it is there again.
    """

    def __init__(
        self,
        connection: Connection,
        path: str,
        after: int = 0,
        *,
        away: Callable[[bool], None] | None = None,
    ) -> None:
        self.reconnects = 0
        self._tell_away = away or (lambda _: None)
        self._is_away = False
        self._connection = connection
        self._path = path
        self._seen = after
        self._patience = connection.patience
        self._ready: deque[Event | Delta] = deque()
        self._open = AsyncExitStack()
        self._response: aiohttp.ClientResponse | None = None
        self._frames = Frames()
        self._failures = 0
        self._lost_at: float | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event | Delta:
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            if self._response is None:
                await self._connect()
            else:
                await self._read(self._response)
        return self._ready.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends it; what was not yet taken is dropped."""
        self._closed = True
        self._ready.clear()
        await self._hang_up()

    async def _connect(self) -> None:
        """Opens the stream behind the last event, after a pause that grows with each failure."""
        if self._failures:
            await asyncio.sleep(self._pause())
            await self._connection.relocate()
        headers = {"Last-Event-ID": str(self._seen), "Accept": "text/event-stream"}
        opening = self._connection.answer(
            "GET", self._path, query={"after": str(self._seen)}, headers=headers, endless=True
        )
        try:
            answer = await self._open.enter_async_context(opening)
        except Unreachable as error:
            self._failed(error)
            return
        if isinstance(answer, Problem):
            await self._hang_up()
            if not answer.passing:
                raise answer.error()
            self._failed(Unreachable(answer.detail, hint=answer.hint))
            return
        self._response, self._frames, self._lost_at = answer, Frames(), None
        self._away(False)

    async def _read(self, response: "aiohttp.ClientResponse") -> None:
        """Takes in what has arrived, and waits for it if nothing has."""
        import aiohttp

        try:
            piece = await response.content.readany()
            frames = self._frames.feed(piece)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            piece, frames = b"", []
        for frame in frames:
            self._take(frame)
        if not piece:
            await self._hang_up()
            self.reconnects += 1
            self._failed(None)

    def _take(self, frame: Frame) -> None:
        """Queues what the frame tells. Only that counts as success: a daemon may say goodbye each time at once."""
        if frame.event in _DELTAS:
            self._ready.append(_DELTAS[frame.event].model_validate_json(frame.data))
        elif frame.id:
            event = read_event(from_json(frame.data))
            if event.seq > self._seen:
                self._seen = event.seq
                self._ready.append(event)
        else:
            return
        self._failures = 0

    def _failed(self, error: Unreachable | None) -> None:
        """Counts a failure; raises it once patience is at an end."""
        now = asyncio.get_running_loop().time()
        self._failures += 1
        if self._lost_at is None:
            self._lost_at = now
        if error is not None:
            self._away(True)
        if error is not None and self._patience is not None and now - self._lost_at >= self._patience:
            raise error

    def _away(self, is_away: bool) -> None:
        if is_away is not self._is_away:
            self._is_away = is_away
            self._tell_away(is_away)

    def _pause(self) -> float:
        """Nothing at first; then longer each time, and never the same for all that were cut off together."""
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(self._failures - 1, 10))
        return 0.0 if self._failures == 1 else random.uniform(longest / 2, longest)  # noqa: S311 - no secret

    async def _hang_up(self) -> None:
        self._response = None
        opened, self._open = self._open, AsyncExitStack()
        await opened.aclose()
