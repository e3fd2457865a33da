"""Which sessions are there, and what happened in one of them?"""

import shlex

import click

from harnessd.cli.find import LAST, SessionPlace, find_run, find_session
from harnessd.cli.harmless import one_line
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.standing import stands
from harnessd.cli.transcript import transcript
from harnessd.cli.waiting import tell_way_on
from harnessd.cli.when import moment
from harnessd.daemon.config import load_settings
from harnessd.facts.event import write_event
from harnessd.home.layout import Home, find_home
from harnessd.journal.sessions import SessionSummary, UnreadableSession, list_sessions


@click.command("sessions")
@click.argument("agent")
@shared
def sessions(agent: str, out: Output, flags: Flags) -> int:
    """List the sessions of AGENT and of its helpers, the last used first."""
    home = find_home(agent, load_settings(flags).workspaces)
    found = all_sessions(home)
    for agent_id, one in found:
        _tell(agent, home, agent_id, one, out)
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


def _tell(agent: str, home: Home, agent_id: str, one: SessionSummary | UnreadableSession, out: Output) -> None:
    if isinstance(one, UnreadableSession):
        if out.as_json:
            out.record({"sessionId": one.session_id, "agentId": agent_id, "status": "unreadable", "reason": one.reason})
        else:
            out.line(f"{one.session_id}  {out.style.bad('unreadable')}  {one.reason}; the file is {one.path}")
        return
    how = stands(home, SessionPlace(agent_id, one.session_id, one.path))
    if out.as_json:
        told = {
            "sessionId": one.session_id,
            "agentId": agent_id,
            "title": one.title,
            "status": how.status,
            "startedAt": one.started_at,
            "lastAt": one.last_at,
            "seq": one.last_seq,
            "userId": one.user_id,
            "parentSessionId": one.parent_session_id,
            "runId": how.run_id,
            "waiting": [approval.id for approval in how.approvals],
        }
        out.record({key: value for key, value in told.items() if value is not None})
        return
    who = "" if agent_id == "main" else f"{agent_id}  "
    paint = out.style.good if how.status == "completed" else out.style.odd
    title = one_line(one.title, 60) or out.style.dim("nothing was said")
    out.line(f"{one.session_id}  {out.style.dim(moment(one.last_at))}  {paint(how.status.ljust(10))}  {who}{title}")
    tell_way_on(agent, how, out)
