"""How are the sessions of an agent listed? The newest first, a page at a time, whoever has them open."""

from pathlib import Path

from harnessd.daemon.assemble import Runtime
from harnessd.errors import HarnessdError
from harnessd.facts.base import Record
from harnessd.home.layout import Home
from harnessd.ids import ID
from harnessd.journal.sessions import UnreadableSession, summary
from harnessd.journal.standing import standing


class SessionEntry(Record):
    """A session in the list; `waiting` counts the approvals that were asked for in it.

    `status` is `running` or `stopping` in this process, `waiting` for a person, `parked`, `queued` (a message waits),
    `unfinished` (interrupted, or at work in another process), `quiet` (nothing has run yet), why the last run ended,
    or `unreadable` for the `reason` given.
    """

    session_id: str = ""
    agent_id: str = "main"
    title: str = ""
    status: str = ""
    waiting: int = 0
    started_at: str = ""
    last_at: str = ""
    last_seq: int = 0
    user_id: str | None = None
    reason: str | None = None


class SessionPage(Record):
    """Some sessions, the newest first; ask for those `before` the session `next` to go on, if there is one."""

    sessions: tuple[SessionEntry, ...] = ()
    next: str | None = None


def session_page(home: Home, before: str | None, count: int) -> SessionPage:
    """The `count` newest sessions of the main agent that began before the session `before`. Blocks.

    Only names are read of the others: ids sort by the time at which a session began.
    """
    folder = home.sessions("main")
    try:
        names = sorted((path.stem for path in folder.iterdir() if path.suffix == ".jsonl"), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    entries: list[SessionEntry] = []
    for session_id in (name for name in names if ID.fullmatch(name) and (before is None or name < before)):
        entry = _entry(folder / f"{session_id}.jsonl")
        if entry is None:
            continue
        if len(entries) == count:
            return SessionPage(sessions=tuple(entries), next=entries[-1].session_id)
        entries.append(entry)
    return SessionPage(sessions=tuple(entries))


def with_what_runs(page: SessionPage, home: Home, runtime: Runtime) -> SessionPage:
    """The page, with what this process knows better than the journals do."""
    entries: list[SessionEntry] = []
    for entry in page.sessions:
        session = runtime.sessions.find((home.path, entry.session_id))
        if session is not None and not session.quiet:
            run = session.state.active_run
            status = "stopping" if run is not None and run.status == "stopping" else "running"
            entry = entry.model_copy(update={"status": status})
        entries.append(entry)
    return page.model_copy(update={"sessions": tuple(entries)})


def _entry(journal: Path) -> SessionEntry | None:
    """The session of that journal; None if it was deleted."""
    found = summary(journal)
    if isinstance(found, UnreadableSession):
        return SessionEntry(session_id=found.session_id, status="unreadable", reason=found.reason)
    if found.deleted:
        return None
    try:
        stands = standing(journal)
    except HarnessdError as error:
        return SessionEntry(session_id=found.session_id, status="unreadable", reason=error.message)
    return SessionEntry(
        session_id=found.session_id,
        title=found.title,
        status=stands.ended or stands.word if stands.word == "quiet" else stands.word,
        waiting=len(stands.approvals),
        started_at=found.started_at,
        last_at=found.last_at,
        last_seq=found.last_seq,
        user_id=found.user_id,
    )
