"""How is a call that waits decided from the command line, and a parked run let go on?"""

from dataclasses import dataclass, field
from typing import Literal

import anyio
import click
import orjson

from harnessd.cli.exits import STOPPED, exit_code
from harnessd.cli.find import find_approval, holding_run, topmost
from harnessd.cli.follow import attended, moved
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.ps import tell_waiting_across
from harnessd.cli.reach import Conversation, reach
from harnessd.cli.refusal import taken
from harnessd.cli.waiting import tell_waiting
from harnessd.daemon.config import Settings, load_settings
from harnessd.errors import UsageError
from harnessd.facts.control import Continue, Resume
from harnessd.facts.message import JsonObject
from harnessd.home.layout import find_home

WAYS = "harnessd approve AGENT lists what waits"


@click.command("approve")
@click.argument("agent", required=False)
@click.argument("which", metavar="[APPROVAL|RUN]", required=False)
@click.option(
    "--scope",
    type=click.Choice(["once", "session", "always"]),
    default="once",
    show_default=True,
    help="This call; its like in this session; its like for good, as a rule in tools.json.",
)
@click.option(
    "--argument",
    "changes",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change one argument of the call; fill in one field of what its server asks.",
)
@click.option(
    "--arguments", "whole", metavar="JSON", help="Make the call with these arguments, or answer so: a JSON object."
)
@click.option("--note", default="", help="A word to the agent.")
@shared
def approve(
    agent: str | None,
    which: str | None,
    scope: Literal["once", "session", "always"],
    changes: tuple[str, ...],
    whole: str | None,
    note: str,
    out: Output,
    flags: Flags,
) -> int:
    """Allow the call that APPROVAL is about; its run goes on and is shown as by `run`.

    With the id of a RUN that is parked or was interrupted, that run goes on. Without either, what waits is listed:
    of AGENT, or of every home in the workspaces.
    """
    settings = load_settings(flags)
    if agent is None or which is None:
        return tell_waiting_across(agent, settings.workspaces, out)
    if which.startswith("run_"):
        if scope != "once" or changes or whole or note:
            raise UsageError("a run takes no scope, arguments or note", where=which, hint="leave the options out")
        return anyio.run(_go_on, settings, agent, which, out)
    edited = Edited(tuple(_pair(one) for one in changes), None if whole is None else _object(whole))
    verdict = Verdict(which, "allow", scope, note, edited)
    return anyio.run(_decide, settings, agent, verdict, out)


@click.command("deny")
@click.argument("agent")
@click.argument("approval_id", metavar="APPROVAL")
@click.option("--note", default="", help="A word to the agent, such as what it should do instead.")
@click.option("--cancel", is_flag=True, help="Withdraw the question: the call is not made, and nobody has denied it.")
@shared
def deny(agent: str, approval_id: str, note: str, cancel: bool, out: Output, flags: Flags) -> int:
    """Refuse the call that APPROVAL is about; its run goes on without it and is shown as by `run`."""
    verdict = Verdict(approval_id, "cancel" if cancel else "deny", note=note)
    return anyio.run(_decide, load_settings(flags), agent, verdict, out)


@dataclass(frozen=True, slots=True)
class Edited:
    """What a person changed of a call's arguments: single ones, or all of them."""

    changes: tuple[tuple[str, object], ...] = ()
    whole: JsonObject | None = None

    def of(self, arguments: JsonObject) -> JsonObject | None:
        """The arguments that the call is made with; None if they stay as they are."""
        if not self.changes and self.whole is None:
            return None
        return {**(arguments if self.whole is None else self.whole), **dict(self.changes)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person decided about one approval."""

    approval_id: str
    decision: Literal["allow", "deny", "cancel"]
    scope: Literal["once", "session", "always"] = "once"
    note: str = ""
    edited: Edited = field(default_factory=Edited)

    def control(self, session: Conversation) -> Resume:
        """The control for the session in which the approval was asked for."""
        asked = next((one for one in session.state.pending_approvals if one.id == self.approval_id), None)
        return Resume(
            approval_id=self.approval_id,
            decision=self.decision,
            scope=self.scope,
            arguments=self.edited.of(asked.arguments if asked and asked.question is None else {}),
            note=self.note,
        )


async def decide(
    session: Conversation, agent: str, control: Resume | Continue, out: Output, below: Conversation | None = None
) -> int:
    """Decides in an open session, shows how the run goes on and returns the exit code.

    What a subagent asked for is decided in its session, `below`; the run that goes on is that of `session`.
    """
    before = session.state.seq

    async def resume() -> None:
        taken(await (below or session).control(control), hint=WAYS)
        if below is not None and not below.state.pending_approvals:
            await moved(session, before)

    state = await attended(session, screen_for(out, session.state), before, resume)
    if state is None:
        return STOPPED
    tell_waiting(agent, state, out)
    return exit_code(state)


async def _decide(settings: Settings, agent: str, verdict: Verdict, out: Output) -> int:
    home = find_home(agent, settings.workspaces)
    found = await anyio.to_thread.run_sync(find_approval, home, verdict.approval_id)
    top = await anyio.to_thread.run_sync(topmost, home, found)
    async with reach(settings, home, out) as place, place.session(home, top) as session:
        if top == found.session_id:
            return await decide(session, agent, verdict.control(session), out)
        async with place.session(home, found.session_id) as below:
            return await decide(session, agent, verdict.control(below), out, below)


async def _go_on(settings: Settings, agent: str, run_id: str, out: Output) -> int:
    home = find_home(agent, settings.workspaces)
    found = await anyio.to_thread.run_sync(holding_run, home, run_id)
    async with reach(settings, home, out) as place, place.session(home, found.session_id) as session:
        return await decide(session, agent, Continue(run_id=run_id, decision="continue"), out)


def _pair(text: str) -> tuple[str, object]:
    """`name=value`; a value that is JSON is what it says, any other is text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError("an argument is given as NAME=VALUE", where=f"--argument {text}", hint="see approve --help")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _object(text: str) -> JsonObject:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"this is no JSON: {error}", where="--arguments", hint='write {"name": value, …}') from None
    if not isinstance(data, dict):
        raise UsageError(
            "the arguments of a call are a JSON object", where="--arguments", hint='write {"name": value, …}'
        )
    return data
