"""What runs, waits for a person or is parked just now, across agents?"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from harnessd.cli.find import SessionPlace, session_places
from harnessd.cli.harmless import one_line
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.standing import Standing, stands
from harnessd.cli.waiting import tell_way_on
from harnessd.cli.when import moment
from harnessd.daemon.config import load_settings
from harnessd.home.layout import Home, find_home, list_homes
from harnessd.journal.sessions import SessionSummary, summary


@click.command("ps")
@click.argument("agent", required=False)
@shared
def ps(agent: str | None, out: Output, flags: Flags) -> int:
    """List what runs, waits for you, is parked or was interrupted: of AGENT, or of every home in the workspaces.

    It is read from the journals, so it is the same with and without a daemon.
    """
    workspaces = load_settings(flags).workspaces
    found = list(under_way(agent, workspaces))
    for one in found:
        _tell(one, out)
    if not found and not out.as_json:
        out.note(f"nothing runs, and nothing waits for you{_where(agent, workspaces)}")
    return 0


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A session in which something runs, waits or is parked. `agent` names its home as a command line takes it."""

    agent: str
    home: Home
    place: SessionPlace
    how: Standing


def under_way(agent: str | None, workspaces: Path) -> Iterator[UnderWay]:
    """Of one agent, or of every home under `workspaces`; per home the last written first. Blocks.

    Raises `HomeNotFound` or `NotAHome`.
    """
    homes = list_homes(workspaces) if agent is None else [find_home(agent, workspaces)]
    for home in homes:
        for place in session_places(home):
            how = stands(home, place)
            if how.under_way:
                yield UnderWay(agent or home.name, home, place, how)


def tell_waiting_across(agent: str | None, workspaces: Path, out: Output) -> int:
    """Lists what waits for a person or is parked, and the command that decides it."""
    found = [one for one in under_way(agent, workspaces) if one.how.status in {"waiting", "parked"}]
    for one in found:
        _tell(one, out)
    if not found and not out.as_json:
        out.note(f"nothing waits for you{_where(agent, workspaces)}")
    return 0


def _where(agent: str | None, workspaces: Path) -> str:
    """Homes elsewhere were not looked at."""
    return "" if agent else f" in the homes of {workspaces}"


def _tell(one: UnderWay, out: Output) -> None:
    how, place = one.how, one.place
    known = summary(place.path)
    about = known if isinstance(known, SessionSummary) else SessionSummary(place.session_id, place.path)
    if out.as_json:
        told = {
            "agent": one.home.name,
            "agentId": place.agent_id,
            "sessionId": place.session_id,
            "runId": how.run_id,
            "status": how.status,
            "since": how.since,
            "title": about.title,
            "userId": about.user_id,
            "parentSessionId": about.parent_session_id,
            "waiting": [approval.model_dump(by_alias=True, exclude_none=True) for approval in how.approvals],
        }
        out.record({key: value for key, value in told.items() if value is not None})
        return
    style = out.style
    paint = style.good if how.status == "running" else style.odd
    who = one.agent if place.agent_id == "main" else f"{one.agent}/{place.agent_id}"
    title = one_line(about.title, 60) or style.dim("nothing was said")
    said = f"{paint(how.status.ljust(10))}  {style.dim('since ' + moment(how.since))}  {how.run_id or ''}"
    out.line(f"{style.bold(who)}  {place.session_id}  {said}  {title}")
    tell_way_on(one.agent, how, out)
    if how.status == "unfinished":
        go_on = f"harnessd approve {shlex.quote(one.agent)} {how.run_id}" if how.run_id else "harnessd serve"
        out.line(f"  it was interrupted; it goes on with: {go_on}")
