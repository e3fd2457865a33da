"""Which sessions are there, and what happened in one of them?"""

import shlex

import click

from harnessd.cli.find import LAST, SessionPlace, find_run, find_session
from harnessd.cli.harmless import one_line
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.transcript import transcript
from harnessd.cli.when import moment
from harnessd.daemon.config import load_settings
from harnessd.facts.event import RunFinished, RunStarted, ToolApprovalRequired, ToolApprovalResolved, write_event
from harnessd.home.layout import Home, find_home
from harnessd.journal.records import read_page
from harnessd.journal.sessions import SessionSummary, UnreadableSession, list_sessions

TAIL_EVENTS = 200
"""How far back from its end a session is read to say how it stands."""


@click.command("sessions")
@click.argument("agent")
@shared
def sessions(agent: str, out: Output, flags: Flags) -> int:
    """List the sessions of AGENT and of its helpers, the last used first."""
    home = find_home(agent, load_settings(flags).workspaces)
    found = all_sessions(home)
    for agent_id, one in found:
        _tell(agent, agent_id, one, out)
    if not found and not out.as_json:
        out.note(f'no sessions yet; begin one with: harnessd run {shlex.quote(agent)} "Hello"')
    return 0


@click.command("show")
@click.argument("agent")
@click.argument("which", metavar="[SESSION|RUN]", default=LAST)
@click.option("--whole", is_flag=True, help="Results in full length, and what the harness told the model.")
@shared
def show(agent: str, which: str, whole: bool, out: Output, flags: Flags) -> int:
    """Show a session of AGENT, or one run of it: what was said, each call with its decision, time and cost.

    Without SESSION or RUN, the last session. With --json the events, one a line.
    """
    home = find_home(agent, load_settings(flags).workspaces)
    place = find_run(home, which) if which.startswith("run_") else find_session(home, which)
    if out.as_json:
        for event in place.events():
            out.record(write_event(event))
    else:
        for line in transcript(place.events(), out.style, whole=whole):
            out.line(line)
    return 0


def all_sessions(home: Home) -> list[tuple[str, SessionSummary | UnreadableSession]]:
    """Each session with the agent that it belongs to, the last used first."""
    agents = home.path / "agents"
    names = sorted(entry.name for entry in agents.iterdir() if entry.is_dir()) if agents.is_dir() else []
    found = [(name, one) for name in names for one in list_sessions(home.sessions(name))]
    return sorted(found, key=lambda pair: (getattr(pair[1], "last_at", ""), pair[1].session_id), reverse=True)


def standing(place: SessionPlace) -> tuple[str, tuple[str, ...]]:
    """How a session stands, from the end of its journal: in a word, and the approvals that wait."""
    waiting: dict[str, None] = {}
    status = "quiet"
    for event in read_page(place.path, None, TAIL_EVENTS):
        match event:
            case ToolApprovalRequired(approval=approval):
                waiting[approval.id] = None
            case ToolApprovalResolved(approval_id=decided):
                waiting.pop(decided, None)
            case RunStarted():
                status = "unfinished"
            case RunFinished(reason=reason):
                waiting.clear()
                status = reason
    return ("waiting", tuple(waiting)) if waiting else (status, ())


def _tell(agent: str, agent_id: str, one: SessionSummary | UnreadableSession, out: Output) -> None:
    if isinstance(one, UnreadableSession):
        if out.as_json:
            out.record({"sessionId": one.session_id, "agentId": agent_id, "status": "unreadable", "reason": one.reason})
        else:
            out.line(f"{one.session_id}  {out.style.bad('unreadable')}  {one.reason}; the file is {one.path}")
        return
    status, waiting = standing(SessionPlace(agent_id, one.session_id, one.path))
    if out.as_json:
        told = {
            "sessionId": one.session_id,
            "agentId": agent_id,
            "title": one.title,
            "status": status,
            "startedAt": one.started_at,
            "lastAt": one.last_at,
            "seq": one.last_seq,
            "userId": one.user_id,
            "parentSessionId": one.parent_session_id,
            "waiting": list(waiting),
        }
        out.record({key: value for key, value in told.items() if value is not None})
        return
    who = "" if agent_id == "main" else f"{agent_id}  "
    paint = out.style.good if status == "completed" else out.style.odd
    title = one_line(one.title, 60) or out.style.dim("nothing was said")
    out.line(f"{one.session_id}  {out.style.dim(moment(one.last_at))}  {paint(status.ljust(9))}  {who}{title}")
    for approval in waiting:
        out.line(f"  {out.style.odd('?')} {approval}  harnessd approve {shlex.quote(agent)} {approval}")
