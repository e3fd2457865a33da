"""How a session is watched over HTTP: server-sent events, from any seq on, without a gap.

`as=events` (the default) sends each fact as it stands in the journal, and deltas. `as=view` sends what a screen
shows, then what changes of it as JSON Patches, and deltas. Frames of facts carry their seq as `id`, so that
`Last-Event-ID` resumes; a view is sent whole after each reconnect. A reader that is too slow is cut, never waited for.
"""

import asyncio
import time
from dataclasses import dataclass

import anyio
from aiohttp import web
from pydantic_core import PydanticSerializationError, to_json

from harnessd.api.keys import RUNTIME
from harnessd.api.names import home_of, session_of
from harnessd.api.patches import patch
from harnessd.api.wire import LostReader, Pace, Wire, frame
from harnessd.daemon.session import Session
from harnessd.errors import Conflict, UsageError
from harnessd.facts.base import Record
from harnessd.facts.event import Delta, Event, UnknownEvent, write_event
from harnessd.facts.fold import fold
from harnessd.facts.view import View, view
from harnessd.journal.bus import Cut, Subscription

PACE: web.AppKey[Pace] = web.AppKey("pace", Pace)
"""Where an application may keep a pace of its own."""

FOLDED_AT_ONCE = 64
"""Events after which a reader that has many to take in lets others have a turn."""

_Item = Event | Delta | Cut | None
"""What a stream brings: None at its end."""


async def events(request: web.Request) -> web.StreamResponse:
    """`GET …/sessions/{s}/events?after=SEQ&as=events|view`: the stream, until the reader leaves or the daemon stops.

    `event: bye` ends it when the session is closed, `event: cut` when the reader was too slow; both are there to come
    back from. Raises what `Runtime.visit` does, `UsageError` for a bad query, `Conflict` for an `after` to come.
    """
    asked = _asked(request)
    home, session_id = await home_of(request), session_of(request)
    async with request.app[RUNTIME].visit(home, session_id) as session:
        if asked.after > session.state.seq:
            said = f"the session is at seq {session.state.seq}; {asked.after} has not happened yet"
            raise Conflict(said, hint="get the session anew, and follow it from there")
        wire = Wire(request, request.app.get(PACE) or Pace())
        stream = _Views(session, wire) if asked.views else _Facts(session, wire, asked.after)
        try:
            await stream.begin()
            await wire.open()
            await stream.run()
        except LostReader:
            pass  # it is gone, or does not take what it is sent; that changes nothing for anybody else
        except asyncio.CancelledError:
            await wire.farewell(frame("bye", b"{}"))
            raise
        return wire.response


class _Facts:
    """Every fact above a seq, and deltas; what is there already goes out together."""

    def __init__(self, session: Session, wire: Wire, after: int) -> None:
        self._session = session
        self._wire = wire
        self._after = after

    async def begin(self) -> None:
        """Nothing has to be known first."""

    async def run(self) -> None:
        """Sends until the end."""
        async with self._session.subscribe(self._after) as items:
            while True:
                item = await _next(items, self._wire)
                await self._wire.put(_written(item), more=items.pending > 0)
                if _is_last(item):
                    return


class _Views:
    """The view as it is, then each change of it. The first change goes at once, those of a burst go together."""

    def __init__(self, session: Session, wire: Wire) -> None:
        self._session = session
        self._wire = wire
        self._shown = View()
        self._sent_at = 0.0

    async def begin(self) -> None:
        """Takes the state of which all is on disk; raises `StorageError` while the disk refuses."""
        self._state = await self._session.snapshot()

    async def run(self) -> None:
        """Sends until the end."""
        self._shown = view(self._state)
        await self._wire.put(frame("view", _json(self._shown), self._shown.seq), more=False)
        async with self._session.subscribe(self._state.seq) as items:
            while True:
                if self._wait() <= 0:
                    await self._show(more=items.pending > 0)
                try:
                    item = await _next(items, self._wire, self._wait() if self._is_behind else None)
                except TimeoutError:
                    continue
                if isinstance(item, Event):
                    self._state = fold(self._state, item)
                    if item.seq % FOLDED_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    continue
                await self._show(more=True)
                await self._wire.put(_written(item), more=items.pending > 0)
                if _is_last(item):
                    return

    @property
    def _is_behind(self) -> bool:
        return self._state.seq != self._shown.seq

    def _wait(self) -> float:
        """Seconds until the next change may be shown."""
        return self._sent_at + self._wire.pace.patch - time.monotonic()

    async def _show(self, *, more: bool = False) -> None:
        if self._is_behind:
            now = view(self._state)
            changes = to_json(patch(self._shown, now), exclude_none=True)
            await self._wire.put(frame("view.patch", changes, now.seq), more=more)
            self._shown, self._sent_at = now, time.monotonic()


@dataclass(frozen=True, slots=True)
class _Asked:
    after: int
    views: bool


def _asked(request: web.Request) -> _Asked:
    """What the query says; `Last-Event-ID` wins over `after`. Raises `UsageError`."""
    kind = request.query.get("as", "events")
    if kind not in {"events", "view"}:
        raise UsageError("it must be events or view", where="as")
    last = request.headers.get("Last-Event-ID", "")  # an empty one says that no event was seen
    place, text = ("Last-Event-ID", last) if last else ("after", request.query.get("after") or "0")
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise UsageError("it must be the seq of an event: a whole number, 0 for all", where=place)
    return _Asked(int(text), views=kind == "view")


async def _next(items: Subscription, wire: Wire, seconds: float | None = None) -> _Item:
    """The next item, None at the end. Raises `TimeoutError` after so many seconds, `LostReader`."""
    until = None if seconds is None else time.monotonic() + seconds
    while not items.pending:
        left = wire.pace.look if until is None else min(wire.pace.look, max(0.0, until - time.monotonic()))
        with anyio.move_on_after(left):
            return await anext(items, None)
        if until is not None and time.monotonic() >= until:
            raise TimeoutError
        await wire.stay()
    return await anext(items, None)


def _written(item: _Item) -> bytes:
    """The frame of an item; at the end the daemon says goodbye."""
    match item:
        case None:
            return frame("bye", b"{}")
        case Cut(after):
            return frame("cut", b'{"after":%d}' % after)
        case UnknownEvent():
            return frame(_line(item.type), to_json(write_event(item)), item.seq)
        case Event():
            return frame(item.type, _json(item), item.seq)
        case _:
            return frame(item.type, _delta_json(item))


def _is_last(item: _Item) -> bool:
    return item is None or isinstance(item, Cut)


def _json(item: Record) -> bytes:
    return item.__pydantic_serializer__.to_json(item, by_alias=True, exclude_none=True)


def _delta_json(delta: Delta) -> bytes:
    """A lone surrogate, which a model can write and UTF-8 cannot hold, becomes U+FFFD; offsets count it as one."""
    try:
        return _json(delta)
    except (PydanticSerializationError, UnicodeEncodeError):
        text = "".join("\ufffd" if "\ud800" <= sign <= "\udfff" else sign for sign in delta.text)
        return _json(delta.model_copy(update={"text": text}))


def _line(text: str) -> str:
    """A name from somebody else's journal, which must not break out of its line."""
    return "".join(text.split()) or "unknown"
