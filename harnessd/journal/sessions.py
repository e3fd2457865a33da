"""Which sessions an agent has: read from the head and the tail of each journal, never the whole."""

from dataclasses import dataclass
from pathlib import Path

from harnessd.errors import HarnessdError
from harnessd.facts.event import Event, MessageCreated, SessionCreated, StateUpdated
from harnessd.facts.message import UserMessage, text_of
from harnessd.journal.deletion import is_deletion
from harnessd.journal.line import decode
from harnessd.journal.records import CHUNK, Record, open_to_read, read_page, scan

HEAD_EVENTS = 12
TAIL_EVENTS = 12
TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session as a list shows it; `title` is its own, or how its first message begins. Times are RFC 3339."""

    session_id: str
    path: Path
    title: str = ""
    started_at: str = ""
    last_at: str = ""
    last_seq: int = 0
    user_id: str | None = None
    parent_session_id: str | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class UnreadableSession:
    """A journal that yields nothing, and why; it hides no other."""

    session_id: str
    path: Path
    reason: str


def list_sessions(folder: Path, *, deleted: bool = False) -> list[SessionSummary | UnreadableSession]:
    """The sessions whose journals lie in `folder`, the last used first; nothing if it does not exist. Blocks.

    Those that were deleted are named only if `deleted` is asked for.
    """
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".jsonl"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [summary(path) for path in paths]
    shown = [one for one in found if deleted or isinstance(one, UnreadableSession) or not one.deleted]
    return sorted(shown, key=lambda one: (getattr(one, "last_at", ""), one.session_id), reverse=True)


def summary(path: Path) -> SessionSummary | UnreadableSession:
    """The session whose journal lies at `path`. Blocks."""
    session_id = path.stem
    try:
        head = _head(path)
        tail = read_page(path, None, TAIL_EVENTS)
    except HarnessdError as error:
        return UnreadableSession(session_id, path, error.message)
    except OSError as error:
        return UnreadableSession(session_id, path, error.strerror or str(error))
    if not head or not tail:
        return UnreadableSession(session_id, path, "it holds no record" if not path.stat().st_size else "it is damaged")
    created = next((event for event in head if isinstance(event, SessionCreated)), SessionCreated())
    return SessionSummary(
        session_id=session_id,
        path=path,
        title=_title(created, head, tail),
        started_at=head[0].at,
        last_at=tail[-1].at,
        last_seq=tail[-1].seq,
        user_id=created.user_id,
        parent_session_id=created.parent.session_id if created.parent else None,
        deleted=is_deletion(head[0]),
    )


def _head(path: Path) -> list[Event]:
    """The first few events within the first bytes of the journal."""
    found: list[Event] = []
    with open_to_read(path) as file:
        for piece in scan(file, 0, CHUNK // 8):
            event = decode(piece.data) if isinstance(piece, Record) else None
            if isinstance(event, Event):
                found.append(event)
            if len(found) >= HEAD_EVENTS or piece.end > CHUNK:
                break
    return found


def _title(created: SessionCreated, head: list[Event], tail: list[Event]) -> str:
    for event in reversed(tail):
        if isinstance(event, StateUpdated) and event.patch.get("title"):
            return str(event.patch["title"])
    if created.title:
        return created.title
    messages = (event.message for event in head if isinstance(event, MessageCreated))
    first = next((one for one in messages if isinstance(one, UserMessage) and one.kind == "input"), None)
    text = text_of(first).strip() if first else ""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
