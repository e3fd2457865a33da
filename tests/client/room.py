"""A daemon with one session in it, whose journal the test writes itself: what streams are tested with."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from aiohttp import web

from harnessd.api.app import make_app
from harnessd.api.door import Door, Limits
from harnessd.api.listen import listening
from harnessd.api.stream import PACE
from harnessd.api.wire import Pace
from harnessd.client.find import Address
from harnessd.daemon.assemble import Runtime
from harnessd.errors import SessionNotFound
from harnessd.facts.event import Event
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.journal.bus import Subscription
from harnessd.journal.committer import Committer
from harnessd.journal.ledger import Ledger
from tests.journal.desk import SESSION, Desk

TOKEN = "a-token-of-the-tests"
AGENT = "ada"


class Seat:
    """The session as the stream sees it: what is asked of `Session`, straight from a ledger."""

    agent_id = "main"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.session_id = ledger.session_id

    @property
    def state(self) -> State:
        return self.ledger.state

    async def snapshot(self) -> State:
        state = self.state
        await self.ledger.barrier(state.seq)
        return state

    def subscribe(self, after: int = 0) -> Subscription:
        return self.ledger.subscribe(after)

    async def page(self, before: int | None, count: int) -> list[Event]:
        return await self.ledger.page(before, count)


class Room:
    """Stands in for the runtime: it knows one home and one session."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.seat = Seat(ledger)
        self.visitors = self.visits = 0
        self.left = asyncio.Event()
        self._folder = folder

    def home(self, agent: str) -> Home:
        return Home(self._folder / agent)

    @contextlib.asynccontextmanager
    async def visit(self, home: Home, session_id: str) -> AsyncIterator[Seat]:
        if home.name != AGENT or session_id != SESSION:
            raise SessionNotFound("there is no such session")
        self.visitors += 1
        self.visits += 1
        try:
            yield self.seat
        finally:
            self.visitors -= 1
            self.left.set()


@dataclass(frozen=True)
class Served:
    """The room with its doors open."""

    room: Room
    ledger: Ledger
    app: web.Application
    address: Address
    path: str = f"/api/agents/{AGENT}/sessions/{SESSION}/events"

    async def empty(self) -> None:
        """Waits until nobody visits the session any more."""
        while self.room.visitors:
            self.room.left.clear()
            await self.room.left.wait()


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    *,
    pace: Pace | None = None,
    over: Literal["socket", "tcp"] = "socket",
    token: str = TOKEN,
    **ledger: Any,
) -> AsyncIterator[Served]:
    """A served session whose files are in `folder`."""
    limits = Limits(rate=100_000, burst=100_000)
    committer = Committer()
    desk = Desk(folder, committer)
    async with desk.ledger(**ledger) as opened:
        room = Room(desk.folder, opened)
        app = make_app(cast(Runtime, room), Door(token=token, limits=limits))
        app[PACE] = pace or Pace(look=0.02)
        async with listening(app, "127.0.0.1", 0, desk.folder / "d.sock") as where:
            socket = where.socket if over == "socket" else None
            yield Served(room, opened, app, Address(f"http://127.0.0.1:{where.port}", token, socket))
    committer.close()
