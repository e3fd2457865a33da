"""Whether a session was deleted: then its journal is the one fact that says so."""

from pathlib import Path

from harnessd.errors import SessionNotFound
from harnessd.facts.event import Event, SessionRedacted
from harnessd.journal.line import decode
from harnessd.journal.records import Record, open_to_read, scan

DELETED = "deleted"
"""The `reason` of that fact."""
_ENOUGH = 4096


def is_deleted(journal: Path) -> bool:
    """Whether the journal's first record says so; reads no more than that. Raises as `open_to_read` does."""
    with open_to_read(journal) as file:
        first = next((piece for piece in scan(file, 0, _ENOUGH)), None)
    event = decode(first.data) if isinstance(first, Record) and len(first.data) <= _ENOUGH else None
    return isinstance(event, Event) and is_deletion(event)


def is_deletion(event: Event) -> bool:
    """Whether this is the fact that is left of a deleted session."""
    return isinstance(event, SessionRedacted) and event.reason == DELETED


def deleted(journal: Path) -> SessionNotFound:
    """The error for who looks for a session that was deleted."""
    return SessionNotFound("this session was deleted", where=str(journal), hint="begin a new one")
