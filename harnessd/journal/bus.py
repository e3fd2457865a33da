"""Who is told what happened: every event once, in order, after it is on disk; deltas as they come.

A reader that joins in the middle of a text begins with the text so far. One that falls behind is cut, never
waited for; it comes back with the last seq it saw.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import anyio.to_thread

from harnessd.facts.draft import Drafts
from harnessd.facts.event import Delta, Event

QUEUE_LIMIT = 4096
BATCH = 512

ReadBatch = Callable[[int, int, int], list[Event]]
"""`(after, upto, count)` → at most `count` events on disk with after < seq ≤ upto; blocks."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The reader was too slow and gets nothing more; subscribing again with `after` continues without a gap."""

    after: int


class Subscription:
    """An async iterator of events and deltas; ends when the session closes, or with a `Cut` as its last item."""

    def __init__(self, bus: "Bus", after: int, limit: int) -> None:
        self._bus = bus
        self._limit = limit
        self._seen = after
        self._told = after
        self._queue: deque[Event | Delta | Cut] = deque()
        self._stage: Literal["behind", "live", "over"] = "behind"
        self._wake: asyncio.Future[None] | None = None

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Event | Delta | Cut:
        while not self._queue:
            if self._stage == "over":
                raise StopAsyncIteration
            await (self._news() if self._stage == "live" else self._catch_up())
        item = self._queue.popleft()
        if isinstance(item, Event):
            self._told = item.seq
        return item

    def close(self) -> None:
        """Ends it; what was not yet taken is dropped."""
        self._queue.clear()
        self._end()

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def pending(self) -> int:
        """How many items wait to be taken."""
        return len(self._queue)

    def put(self, item: Event | Delta) -> None:
        """Takes in what was published; never waits. For the bus."""
        if isinstance(item, Event):
            if item.seq <= self._seen:
                return
            self._seen = item.seq
        if len(self._queue) >= self._limit:
            self._queue.clear()
            self._queue.append(Cut(self._told))
            self._end()
            return
        self._queue.append(item)
        self._ring()

    def finish(self) -> None:
        """No more will come; what is queued is still delivered. For the bus."""
        self._end()

    async def _catch_up(self) -> None:
        """Queues what is on disk; once that is all, joins the live stream in the same step, so nothing is missed."""
        upto = self._bus.durable
        if self._seen >= upto:
            drafts = self._bus.join(self)
            self._stage = "over" if drafts is None else "live"
            self._queue.extend(drafts or ())
            return
        events = await anyio.to_thread.run_sync(self._bus.read, self._seen, upto, BATCH)
        self._queue.extend(events)
        # Records that are damaged on disk are not looked for again.
        self._seen = events[-1].seq if events else upto

    async def _news(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def _end(self) -> None:
        self._stage = "over"
        self._bus.leave(self)
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Bus:
    """One session's readers. Belongs to one event loop; nothing here waits."""

    def __init__(self, read: ReadBatch, durable: int, told: Callable[[Event], None] | None = None) -> None:
        self.read = read
        self._told = told
        self.durable = durable
        self.closed = False
        self._readers: dict[Subscription, None] = {}
        self._held: deque[Event | Delta] = deque()
        self._drafts = Drafts()

    @property
    def held(self) -> int:
        """How many items wait for the disk."""
        return len(self._held)

    def subscribe(self, after: int, limit: int = QUEUE_LIMIT) -> Subscription:
        """Everything with a seq above `after`: first from disk, then the text so far of what is being written, then
        live."""
        return Subscription(self, after, limit)

    def hold(self, event: Event) -> None:
        """Keeps a recorded event until it is on disk."""
        self._held.append(event)

    def delta(self, delta: Delta) -> None:
        """Tells the readers at once, or behind the events recorded before it."""
        if not self._held:
            self._publish(delta)
        elif len(self._held) < QUEUE_LIMIT:
            self._held.append(delta)

    def release(self, durable: int) -> None:
        """Everything up to seq `durable` is on disk: tells it, with the deltas that waited behind it."""
        self.durable = durable
        while self._held and (not isinstance(self._held[0], Event) or self._held[0].seq <= durable):
            item = self._held.popleft()
            if self._told is not None and isinstance(item, Event):
                self._told(item)
            self._publish(item)

    def close(self) -> None:
        """Ends every subscription after what it has queued."""
        self.closed = True
        self._held.clear()
        self._drafts.clear()
        for reader in tuple(self._readers):
            reader.finish()

    def join(self, reader: Subscription) -> tuple[Delta, ...] | None:
        """Adds a reader that has seen everything up to `durable` and gives it what is being written, as far as it
        was told; None if the session is closed."""
        if self.closed:
            return None
        self._readers[reader] = None
        return self._drafts.so_far()

    def leave(self, reader: Subscription) -> None:
        """Removes a reader; one that is not there is fine."""
        self._readers.pop(reader, None)

    def _publish(self, item: Event | Delta) -> None:
        if isinstance(item, Event):
            self._drafts.settle(item)
        else:
            self._drafts.take(item)
        for reader in tuple(self._readers):
            reader.put(item)
