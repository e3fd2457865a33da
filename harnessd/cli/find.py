"""Where in a home is that session, run or approval? Everything here blocks and reads files only."""

import mmap
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harnessd.errors import RunNotFound, SessionNotFound, UsageError
from harnessd.facts.event import Event, MessageCreated, MessageQueued, RunStarted, SessionCreated, ToolApprovalRequired
from harnessd.facts.message import UserMessage, text_of
from harnessd.home.layout import Home
from harnessd.ids import check_id
from harnessd.journal.records import read_events
from harnessd.journal.sessions import list_sessions

LAST = "last"


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """A session and where its journal lies."""

    agent_id: str
    session_id: str
    path: Path

    def events(self) -> Iterator[Event]:
        """Everything in its journal, in order."""
        return read_events(self.path)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A run, what it began with, and the session that holds it."""

    session: SessionPlace
    started: RunStarted

    def events(self) -> Iterator[Event]:
        """What the run recorded, in order, and the message that woke it."""
        wanted = self.started.run_id
        for event in self.session.events():
            if event.run_id == wanted or _message_id(event) == self.started.trigger.message_id != "":
                yield event


def session_places(home: Home) -> list[SessionPlace]:
    """Every session of every agent of the home that holds anything, the one that was written last first."""
    found = []
    for path in (home.path / "agents").glob("*/sessions/*.jsonl"):
        try:
            facts = path.stat()
        except OSError:
            continue  # gone between the listing and the look
        if facts.st_size:
            found.append((facts.st_mtime_ns, SessionPlace(path.parents[1].name, path.stem, path)))
    return [place for _, place in sorted(found, key=lambda pair: (pair[0], pair[1].session_id), reverse=True)]


def find_session(home: Home, wanted: str = LAST) -> SessionPlace:
    """The session of that id, or the `last`. Raises `SessionNotFound`, `InvalidName`."""
    if wanted != LAST:
        check_id(wanted, "ses")
    for place in session_places(home):
        if wanted in {LAST, place.session_id}:
            return place
    if wanted == LAST:
        said = "this agent has no sessions yet"
        raise SessionNotFound(said, where=str(home.path), hint=f'begin one with: harnessd run {_named(home)} "Hello"')
    hint = f"list them with: harnessd sessions {_named(home)}"
    raise SessionNotFound(f"there is no session {wanted}", where=str(home.path), hint=hint)


def main_session(home: Home, wanted: str | None) -> str | None:
    """The id of the session of the main agent that is meant: None is a new one, `last` the last used.

    Raises `SessionNotFound`, `InvalidName`.
    """
    if wanted is None:
        return None
    if wanted == LAST:
        newest = next((one.session_id for one in list_sessions(home.sessions("main"))), None)
        if newest is None:
            said = "this agent has no sessions yet"
            raise SessionNotFound(said, where=str(home.path), hint="leave --session out")
        return newest
    place = find_session(home, wanted)
    if place.agent_id != "main":
        said = f"this session is the subagent {place.agent_id}'s; it goes on when the run that delegated to it does"
        raise SessionNotFound(said, where=str(home.path), hint="name a session of the main agent")
    return wanted


def find_run(home: Home, wanted: str = LAST) -> RunPlace:
    """The run of that id, or the `last` one that began. Raises `RunNotFound`, `InvalidName`."""
    if wanted != LAST:
        check_id(wanted, "run")
    mark = b'"type":"run.started"' if wanted == LAST else wanted.encode()
    best: RunPlace | None = None
    for place in session_places(home):
        if best is not None or not _mentions(place.path, mark):
            continue
        for event in place.events():
            if isinstance(event, RunStarted) and wanted in {LAST, event.run_id}:
                best = RunPlace(place, event)
    if best is None:
        said = "this agent has not run yet" if wanted == LAST else f"there is no run {wanted}"
        hint = f"harnessd sessions {_named(home)} lists the sessions, harnessd show {_named(home)} SESSION their runs"
        raise RunNotFound(said, where=str(home.path), hint=hint)
    return best


def holding_run(home: Home, run_id: str) -> SessionPlace:
    """The session that holds a run, also one that has not begun yet. Raises `RunNotFound`, `InvalidName`."""
    mark = b'"runId":"' + check_id(run_id, "run").encode() + b'"'
    for place in session_places(home):
        if _mentions(place.path, mark):
            return place
    hint = f"harnessd ps {_named(home)} lists what is under way"
    raise RunNotFound(f"there is no run {run_id}", where=str(home.path), hint=hint)


def find_approval(home: Home, approval_id: str) -> SessionPlace:
    """The session in which that approval was asked for. Raises `UsageError`, `InvalidName`."""
    mark = b'"id":"' + check_id(approval_id, "apr").encode() + b'"'
    for place in session_places(home):
        if _mentions(place.path, mark) and any(_asks(event, approval_id) for event in place.events()):
            return place
    hint = f"harnessd sessions {_named(home)} says what waits"
    raise UsageError(f"there is no approval {approval_id}", where=str(home.path), hint=hint)


def topmost(home: Home, place: SessionPlace) -> str:
    """The session of the main agent that a subagent's session works for, however deep; a main session is its own.

    Raises `SessionNotFound` if one between them is gone.
    """
    while place.agent_id != "main":
        created = next((event for event in place.events() if isinstance(event, SessionCreated)), SessionCreated())
        if created.parent is None:
            break
        place = find_session(home, created.parent.session_id)
    return place.session_id


def said_before_runs(place: SessionPlace) -> dict[str, str]:
    """What a person said that woke each run of the session, by run id; nothing if its journal is not here."""
    if not place.path.exists():
        return {}
    said: dict[str, str] = {}
    woke: dict[str, str] = {}
    for event in place.events():
        if message_id := _message_id(event):
            said[message_id] = _text(event)
        if isinstance(event, RunStarted) and event.run_id and event.trigger.message_id in said:
            woke[event.run_id] = said[event.trigger.message_id]
    return woke


def _named(home: Home) -> str:
    """The home as a command line takes it from anywhere; its bare name could mean another one."""
    return shlex.quote(str(home.path))


def _message_id(event: Event) -> str:
    if isinstance(event, MessageQueued | MessageCreated) and isinstance(event.message, UserMessage):
        return event.message.id
    return ""


def _text(event: Event) -> str:
    return text_of(event.message) if isinstance(event, MessageQueued | MessageCreated) else ""


def _asks(event: Event, approval_id: str) -> bool:
    """Whether the approval is asked for here, and not below, of which the sessions above keep a note."""
    return isinstance(event, ToolApprovalRequired) and event.approval.id == approval_id


def _mentions(path: Path, mark: bytes) -> bool:
    """Whether the file holds these bytes; the system pages it in and out, so its size does not matter."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return view.find(mark) >= 0
    except (OSError, ValueError):
        return False  # unreadable or empty: it hides no other
