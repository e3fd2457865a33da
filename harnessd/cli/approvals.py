"""How is a call that waits decided from the command line?"""

import anyio
import click

from harnessd.cli.exits import STOPPED, exit_code
from harnessd.cli.find import find_approval
from harnessd.cli.follow import attended
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.waiting import tell_waiting
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.daemon.session import Refused, Session
from harnessd.errors import Conflict, UsageError
from harnessd.facts.control import Resume
from harnessd.facts.event import Event


@click.command("approve")
@click.argument("agent")
@click.argument("approval_id")
@click.option(
    "--scope",
    type=click.Choice(["once", "session", "always"]),
    default="once",
    show_default=True,
    help="This call; its like in this session; its like for good, as a rule in tools.json.",
)
@click.option("--note", default="", help="A word to the agent.")
@shared
def approve(agent: str, approval_id: str, scope: str, note: str, out: Output, flags: Flags) -> int:
    """Allow the call that APPROVAL_ID is about; its run goes on and is shown as by `run`."""
    control = Resume.model_validate({"approvalId": approval_id, "decision": "allow", "scope": scope, "note": note})
    return anyio.run(_decide, load_settings(flags), agent, control, out)


@click.command("deny")
@click.argument("agent")
@click.argument("approval_id")
@click.option("--note", default="", help="A word to the agent, such as what it should do instead.")
@shared
def deny(agent: str, approval_id: str, note: str, out: Output, flags: Flags) -> int:
    """Refuse the call that APPROVAL_ID is about; its run goes on without it and is shown as by `run`."""
    control = Resume(approval_id=approval_id, decision="deny", note=note)
    return anyio.run(_decide, load_settings(flags), agent, control, out)


async def decide(session: Session, agent: str, control: Resume, out: Output) -> int:
    """Decides in an open session, shows how the run goes on and returns the exit code."""

    async def resume() -> None:
        answer = await session.control(control)
        if isinstance(answer, Refused):
            raise refusal(answer)

    state = await attended(session, screen_for(out, session.state), session.state.seq, resume)
    if state is None:
        return STOPPED
    tell_waiting(agent, state, out)
    return exit_code(state)


def refusal(answer: Refused) -> Conflict | UsageError:
    """The error for a decision that was not taken, with what stands in its place."""
    if answer.status == 404:
        return UsageError(answer.message, hint="harnessd sessions AGENT says what waits")
    when = f"that was at {answer.current.at}" if isinstance(answer.current, Event) else None
    return Conflict(answer.message, hint=when)


async def _decide(settings: Settings, agent: str, control: Resume, out: Output) -> int:
    async with Runtime.open(settings) as runtime:
        home = runtime.home(agent)
        found = await anyio.to_thread.run_sync(find_approval, home, control.approval_id)
        session = await runtime.session(home, found.session_id, agent_id=found.agent_id)
        return await decide(session, agent, control, out)
