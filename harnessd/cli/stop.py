"""How is what runs ended from the command line?"""

from dataclasses import dataclass
from typing import Literal

import anyio
import click

from harnessd.cli.exits import COMPLETED, STOPPED
from harnessd.cli.find import find_session, holding_run
from harnessd.cli.follow import attended
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.ps import UnderWay, under_way
from harnessd.cli.reach import reach
from harnessd.cli.refusal import taken
from harnessd.daemon.config import Settings, load_settings
from harnessd.errors import UsageError
from harnessd.facts.control import Stop
from harnessd.home.layout import Home, find_home

Scope = Literal["run", "session"]


@click.command("stop")
@click.argument("agent")
@click.argument("which", metavar="[SESSION|RUN]", required=False)
@click.option(
    "--scope",
    type=click.Choice(["run", "session"]),
    default="run",
    show_default=True,
    help="The run with its subagents; or that and the messages that wait behind it.",
)
@shared
def stop(agent: str, which: str | None, scope: Scope, out: Output, flags: Flags) -> int:
    """End what runs, waits or is parked in a session of AGENT; what was finished is kept.

    Without SESSION or RUN it is what is under way, if that is one run.
    """
    return anyio.run(_stop, load_settings(flags), agent, which, scope, out)


@dataclass(frozen=True, slots=True)
class _Target:
    """What is to be stopped: a session, and the run if one was named."""

    session_id: str
    run_id: str | None = None


async def _stop(settings: Settings, agent: str, which: str | None, scope: Scope, out: Output) -> int:
    home = find_home(agent, settings.workspaces)
    target = await anyio.to_thread.run_sync(_find, home, settings, agent, which)
    if target is None:
        if not out.as_json:
            out.note("nothing runs here")
        return COMPLETED
    async with reach(settings, home, out) as place, place.session(home, target.session_id) as session:
        before = session.state

        async def end() -> None:
            taken(await session.control(Stop(run_id=target.run_id, scope=scope)))

        state = await attended(session, screen_for(out, before), before.seq, end)
    if state is None:
        return STOPPED
    if before.queue and scope == "session" and not out.as_json:
        out.note(f"{len(before.queue)} message(s) that waited were dropped")
    return COMPLETED


def _find(home: Home, settings: Settings, agent: str, which: str | None) -> _Target | None:
    """What is meant; None if nothing is under way and nothing was named."""
    if which is not None and which.startswith("run_"):
        return _Target(holding_run(home, which).session_id, which)
    if which is not None:
        return _Target(find_session(home, which).session_id)
    found = [one for one in under_way(agent, settings.workspaces) if one.place.agent_id == "main"]
    if len(found) > 1:
        raise UsageError(f"{len(found)} sessions are under way", hint="name one of: " + ", ".join(map(_named, found)))
    return _Target(found[0].place.session_id) if found else None


def _named(one: UnderWay) -> str:
    return f"{one.place.session_id} ({one.how.status})"
