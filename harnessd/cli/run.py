"""How does a person say one thing to an agent and get the answer?"""

import sys
from dataclasses import dataclass

import anyio
import click

from harnessd.cli.exits import STOPPED, exit_code
from harnessd.cli.follow import attended
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, conversation, shared
from harnessd.cli.output import Output
from harnessd.cli.waiting import tell_waiting
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.daemon.session import Refused, Session
from harnessd.errors import Conflict, UsageError
from harnessd.facts.control import Invoke, UpdateState


@dataclass(frozen=True, slots=True)
class Question:
    """What is said to whom: `session` None is a new one, `last` the latest."""

    agent: str
    text: str
    session: str | None = None
    model: str | None = None
    mode: str | None = None
    user_id: str | None = None


@click.command("run")
@click.argument("agent")
@click.argument("text")
@conversation
@shared
def run(
    agent: str,
    text: str,
    session: str | None,
    model: str | None,
    mode: str | None,
    user_id: str | None,
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
    question = Question(agent, said, session, model, mode, user_id)
    return anyio.run(_run, settings, question, out)


def read_text(text: str) -> str:
    """The text itself, or what standard input holds for `-`; always valid Unicode."""
    raw = sys.stdin.buffer.read() if text == "-" else text.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


async def ask(session: Session, question: Question, out: Output) -> int:
    """Puts the question to an open session, shows the run and returns the exit code."""
    after = 0 if question.session is None else session.state.seq

    async def say() -> None:
        if question.mode is not None:
            _accepted(await session.control(UpdateState(patch={"mode": question.mode})))
        _accepted(await session.control(Invoke(input=question.text)))

    state = await attended(session, screen_for(out, session.state), after, say)
    if state is None:
        return STOPPED
    tell_waiting(question.agent, state, out)
    return exit_code(state)


async def _run(settings: Settings, question: Question, out: Output) -> int:
    async with Runtime.open(settings) as runtime:
        home = runtime.home(question.agent)
        session = await runtime.session(home, question.session, user_id=question.user_id, model=question.model)
        return await ask(session, question, out)


def _accepted(answer: object) -> None:
    if isinstance(answer, Refused):
        raise (UsageError if answer.status in {400, 403} else Conflict)(answer.message)
