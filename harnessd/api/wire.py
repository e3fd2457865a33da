"""How the frames of an event stream get out: in time, or the reader is let go."""

import asyncio
import time
from dataclasses import dataclass

import anyio
from aiohttp import hdrs, web

SIGN_OF_LIFE = b":\n\n"
FAREWELL_SECONDS = 0.5
TOGETHER = 64 * 1024
"""Bytes that go out at once while more is there to send."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: between signs of life, for a socket to take what it was sent, between looks whether the reader is
    still there, and between two patches of a view."""

    keep_alive: float = 15.0
    drain: float = 15.0
    look: float = 1.0
    patch: float = 0.05


class LostReader(Exception):
    """The reader is gone, or takes nothing any more."""


class Wire:
    """The open answer of one request."""

    def __init__(self, request: web.Request, pace: Pace) -> None:
        self.pace = pace
        self.response = web.StreamResponse(
            headers={
                hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8",
                hdrs.CACHE_CONTROL: "no-store",
                "X-Accel-Buffering": "no",  # a proxy in front must not collect it
            }
        )
        self._request = request
        self._spoke_at = 0.0
        self._frames: list[bytes] = []
        self._size = 0

    async def open(self) -> None:
        """Sends the head, so that the reader knows that it is heard. Raises `LostReader`."""
        try:
            await self.response.prepare(self._request)
        except ConnectionError:
            raise LostReader from None
        await self.put(SIGN_OF_LIFE, more=False)

    async def put(self, frame: bytes, *, more: bool) -> None:
        """Sends it, together with others if `more` follow at once. Raises `LostReader`."""
        self._frames.append(frame)
        self._size += len(frame)
        if not more or self._size >= TOGETHER:
            frames, self._frames, self._size = self._frames, [], 0
            await self._send(b"".join(frames))

    async def stay(self) -> None:
        """Makes sure that the reader is still there, and shows that we are. Raises `LostReader`."""
        self.look()
        if time.monotonic() - self._spoke_at >= self.pace.keep_alive:
            await self.put(SIGN_OF_LIFE, more=False)

    def look(self) -> None:
        """Raises `LostReader` if the reader is gone."""
        if self._request.transport is None or self._request.transport.is_closing():
            raise LostReader

    async def farewell(self, frames: bytes) -> None:
        """Sends if that is possible at once; for an end that does not wait."""
        if self.response.prepared:
            with anyio.move_on_after(FAREWELL_SECONDS, shield=True):
                try:
                    await self.response.write(frames)
                    await self.response.write_eof()
                except ConnectionError:
                    return

    async def _send(self, data: bytes) -> None:
        """Waits until the socket has taken it, and aborts the socket if no part of it is taken for too long."""
        self.look()
        try:
            for at in range(0, len(data), TOGETHER):  # a large fact may take its time on a thin line
                with anyio.fail_after(self.pace.drain):
                    await self.response.write(data[at : at + TOGETHER])
        except ConnectionError:
            raise LostReader from None
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise LostReader from None
        self._spoke_at = time.monotonic()
        await asyncio.sleep(0)  # a socket that takes everything at once would let nobody else get a turn


def frame(event: str, data: bytes, seq: int | None = None) -> bytes:
    """One server-sent event; `data` is JSON and so holds no line feed."""
    if seq is None:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (seq, event.encode(), data)
