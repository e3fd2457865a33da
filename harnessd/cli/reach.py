"""Where does a command do its work: in the daemon that runs here, or in this process?

No command asks which it is: it gets a `Place`, opens a `Conversation` there and speaks to that.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, runtime_checkable

import anyio.to_thread

from harnessd.cli.output import Output
from harnessd.client.find import find_daemon
from harnessd.daemon.config import Settings
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.event import Delta, Event
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.journal.bus import Cut


@asynccontextmanager
async def reach(settings: Settings, home: Home, out: Output) -> AsyncIterator["Place"]:
    """The place where sessions of `home` are opened: the daemon that runs it, else this process.

    A daemon runs the homes under its workspaces folder, so a home that lies elsewhere is opened in this process.
    `out` is where it is told that a daemon went away in the middle.
    """
    # Each side is imported only when it is the one: the loop with its tools, or the HTTP client.
    if await _has_a_daemon(settings, home):
        from harnessd.cli.there import there

        async with there(settings, out) as place:
            yield place
    else:
        from harnessd.cli.here import here

        async with here(settings) as own:
            yield own


class Place(Protocol):
    """Where sessions are opened."""

    def session(
        self, home: Home, session_id: str | None = None, *, user_id: str | None = None, model: str | None = None
    ) -> AbstractAsyncContextManager["Conversation"]:
        """The session of that id, or a new one, for as long as the block runs; `model` stands in for the home's own.

        Raises `SessionNotFound`, `InvalidName`, `Locked`, `StorageError`.
        """
        ...


class Conversation(Protocol):
    """One session, wherever it is open."""

    @property
    def session_id(self) -> str:
        """Its id."""
        ...

    @property
    def agent_id(self) -> str:
        """Whose it is: `main`, or a subagent's name."""
        ...

    @property
    def state(self) -> State:
        """What is true now, as far as it is known here."""
        ...

    def subscribe(self, after: int = 0) -> "Stream":
        """Every event after that seq, then what comes, with deltas."""
        ...

    async def control(self, control: Invoke | Resume | Continue | Stop | UpdateState | Reload) -> "Accepted | Refused":
        """Carries out one control; what it changed is on disk before this returns. Raises a `HarnessdError`."""
        ...

    async def idle(self) -> State:
        """Waits until nothing runs: the run ended, waits for a person or is parked. Raises what broke the session."""
        ...

    def recover(self) -> None:
        """Goes on with what a former process left: an interrupted run, or messages that wait."""
        ...


class Stream(Protocol):
    """Facts and pieces of text as they come."""

    async def __aenter__(self) -> "Stream": ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __aiter__(self) -> "Stream": ...

    async def __anext__(self) -> Event | Delta | Cut: ...


class Accepted(Protocol):
    """A control that is on disk."""

    @property
    def run_id(self) -> str | None:
        """The run that it starts or is about, None if it waits in the queue."""
        ...

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """What keeps a queued message from being read, in words."""
        ...


@runtime_checkable
class Refused(Protocol):
    """A control that changed nothing."""

    @property
    def status(self) -> int:
        """The HTTP status that it stands for."""
        ...

    @property
    def message(self) -> str:
        """Why, for a person."""
        ...

    @property
    def current(self) -> object:
        """What stands now: a decision on record, an approval, a seq."""
        ...


async def _has_a_daemon(settings: Settings, home: Home) -> bool:
    """Whether a daemon of this state directory answers, and the home is one of those that it runs."""
    address = await find_daemon(settings)
    if address is None or address.workspaces is None:
        return False
    return await anyio.to_thread.run_sync(_lies_in, home, address.workspaces)


def _lies_in(home: Home, workspaces: Path) -> bool:
    try:
        return home.path.parent.samefile(workspaces)
    except OSError:
        return False
