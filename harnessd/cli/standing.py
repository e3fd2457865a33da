"""How does a session stand, in a word for a person? Read from disk, whoever has it open. Everything here blocks."""

from dataclasses import dataclass
from pathlib import Path

from harnessd.cli.find import SessionPlace
from harnessd.errors import HarnessdError
from harnessd.facts.run import Approval
from harnessd.facts.view import view
from harnessd.home.layout import Home
from harnessd.journal.peek import peek
from harnessd.journal.standing import standing

LOCKS = Path("/proc/locks")


@dataclass(frozen=True, slots=True)
class Standing:
    """A session in a word, the run that it is about, and the approvals that wait in it.

    `status` is `running`, `stopping`, `waiting` (for a person), `parked`, `queued` (a message waits for its run),
    `unfinished` (it was interrupted, and no process has it open), `quiet` (nothing has run yet), `unreadable`, or
    the reason for which its last run ended. `since` (RFC 3339) and `run_id` are those of a run that is not over.
    `below` is how many approvals wait in the sessions of its subagents.
    """

    status: str = "quiet"
    under_way: bool = False
    run_id: str | None = None
    since: str = ""
    approvals: tuple[Approval, ...] = ()
    below: int = 0


def stands(home: Home, place: SessionPlace) -> Standing:
    """How that session stands; the end of its journal tells it, unless something is left to do in it."""
    try:
        found = standing(place.path)
        if found.word == "quiet":
            return Standing(found.ended or "quiet")
        state = peek(place.path, home.checkpoint(place.agent_id, place.session_id))
    except HarnessdError:
        return Standing("unreadable")
    seen = view(state)
    status: str = found.word
    if seen.run_status == "stopping":
        status = "stopping"
    elif status in {"unfinished", "queued"} and holder(place.path) is not None:
        status = "running"
    return Standing(
        status=status,
        under_way=True,
        run_id=seen.run_id or (state.queue[0].run_id if state.queue else None),
        since=state.active_run.started_at if state.active_run else "",
        approvals=seen.approval_banner.approvals,
        below=len(seen.approval_banner.below),
    )


def holder(journal: Path) -> int | None:
    """The pid of the process that has the session open, None if none has. Takes no lock, so it disturbs nobody."""
    lock = journal.with_name(journal.name + ".lock")
    try:
        wanted = str(lock.stat().st_ino)
        lines = LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        parts = line.split()  # 1: FLOCK ADVISORY WRITE 6321 fe:00:2146403 0 EOF
        if len(parts) > 5 and parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == wanted:
            return int(parts[4])
    return None
