"""How does a person say one thing to an agent and get the answer?"""

import sys
from dataclasses import dataclass
from typing import Literal

import anyio
import click

from harnessd.cli.exits import STOPPED, exit_code
from harnessd.cli.find import main_session
from harnessd.cli.follow import attended
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, conversation, shared
from harnessd.cli.output import Output
from harnessd.cli.reach import Conversation, reach
from harnessd.cli.refusal import taken
from harnessd.cli.waiting import tell_queued, tell_waiting
from harnessd.daemon.config import Settings, load_settings
from harnessd.errors import UsageError
from harnessd.facts.control import Invoke, UpdateState
from harnessd.home.layout import find_home

WhenBusy = Literal["queue", "steer", "reject"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is said to whom: `session` None is a new one, `last` the latest."""

    agent: str
    text: str
    session: str | None = None
    model: str | None = None
    mode: str | None = None
    user_id: str | None = None
    when_busy: WhenBusy = "queue"


@click.command("run")
@click.argument("agent")
@click.argument("text")
@conversation
@click.option(
    "--when-busy",
    type=click.Choice(["queue", "steer", "reject"]),
    default="queue",
    show_default=True,
    help="If something runs there: wait until it has ended, enter before its next turn, or leave it.",
)
@shared
def run(
    agent: str,
    text: str,
    session: str | None,
    model: str | None,
    mode: str | None,
    user_id: str | None,
    when_busy: WhenBusy,
    out: Output,
    flags: Flags,
) -> int:
    """Say TEXT to AGENT and print its answer as it comes; "-" reads TEXT from standard input.

    The answer goes to standard output, tool calls and problems to standard error. With --json the run's events
    are printed, one a line. Ctrl-C stops the run.
    """
    said = read_text(text)
    if not said.strip():
        raise UsageError("there is nothing to say", where="TEXT", hint="give a text, or - and a text on standard input")
    settings = load_settings(flags)
    question = Question(agent, said, session, model, mode, user_id, when_busy)
    return anyio.run(_run, settings, question, out)


def read_text(text: str) -> str:
    """The text itself, or what standard input holds for `-`; always valid Unicode."""
    raw = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


async def ask(session: Conversation, question: Question, out: Output) -> int:
    """Puts the question to an open session, shows the run and returns the exit code."""
    after = 0 if question.session is None else session.state.seq

    async def say() -> None:
        if question.mode is not None:
            taken(await session.control(UpdateState(patch={"mode": question.mode})))
        said = Invoke(input=question.text, when_busy=question.when_busy)
        tell_queued(taken(await session.control(said)), session.state, question.when_busy, out)

    state = await attended(session, screen_for(out, session.state), after, say)
    if state is None:
        return STOPPED
    tell_waiting(question.agent, state, out)
    return exit_code(state)


async def _run(settings: Settings, question: Question, out: Output) -> int:
    home = find_home(question.agent, settings.workspaces)
    session_id = await anyio.to_thread.run_sync(main_session, home, question.session)
    async with (
        reach(settings, home, out) as place,
        place.session(home, session_id, user_id=question.user_id, model=question.model) as session,
    ):
        return await ask(session, question, out)
