"""How does a person talk with an agent at the terminal?"""

import re
import signal
from dataclasses import dataclass, replace

import anyio
import click
from anyio.abc import TaskStatus

from harnessd.cli.exits import STOPPED, exit_code
from harnessd.cli.find import main_session
from harnessd.cli.follow import Follower, following, moved
from harnessd.cli.lines import Lines
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, conversation, shared
from harnessd.cli.output import Output
from harnessd.cli.question import VISITED, WAYS, fill_in
from harnessd.cli.reach import Accepted, Conversation, Place, Refused, reach
from harnessd.cli.render import approval_text
from harnessd.cli.sessions import all_sessions
from harnessd.cli.transcript import transcript
from harnessd.cli.waiting import tell_queued
from harnessd.daemon.config import Settings, load_settings
from harnessd.facts.control import Invoke, Resume, Stop, UpdateState
from harnessd.facts.run import Approval, ApprovalBelow, Question
from harnessd.facts.state import State
from harnessd.facts.view import view
from harnessd.home.layout import Home, find_home
from harnessd.journal.records import read_events
from harnessd.journal.sessions import SessionSummary

COMMANDS = {
    "/help": "this list",
    "/sessions": "the sessions of this agent",
    "/new": "begin a new session",
    "/stop": "end the run that waits",
    "/show": "what was said and done in this session",
    "/quit": "leave; the session stays as it is",
}
ANSWERS = "[y] once  [s] in this session  [a] always  [n] no  [l] later"


@click.command("chat")
@click.argument("agent")
@conversation
@shared
def chat(
    agent: str,
    session: str | None,
    model: str | None,
    mode: str | None,
    user_id: str | None,
    out: Output,
    flags: Flags,
) -> int:
    """Talk with AGENT; what needs your consent is asked in place, with its diff.

    A line is a message; text that is pasted is one message. Ctrl-C stops the run, a second one leaves. /help lists
    the commands. With --json lines of standard input are messages and events are printed, one a line; approvals
    then stay open.
    """
    how = Manner(session, model, mode, user_id)
    return anyio.run(_chat, load_settings(flags), agent, how, out)


@dataclass(frozen=True, slots=True)
class Manner:
    """How the conversation is held: `session` None is a new one, `last` the latest."""

    session: str | None = None
    model: str | None = None
    mode: str | None = None
    user_id: str | None = None


class Chat:
    """One conversation at the terminal, in one session or, after `/new`, several."""

    def __init__(self, place: Place, home: Home, how: Manner, lines: Lines, out: Output) -> None:
        self._place = place
        self._home = home
        self._how = how
        self._lines = lines
        self._out = out
        self._session: Conversation | None = None
        self._presses = 0

    async def talk(self) -> int:
        """Talks until the person leaves or has nothing more to say; returns the exit code."""
        with anyio.CancelScope() as leave:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._obey_signals, leave)
                again, code = await self._one_session(self._how.session)
                while again:
                    again, code = await self._one_session(None)
                tasks.cancel_scope.cancel()
                return code
        return STOPPED

    async def _one_session(self, session_id: str | None) -> tuple[bool, int]:
        """Whether a new session is wanted, and the exit code if not."""
        how = self._how
        async with self._place.session(self._home, session_id, user_id=how.user_id, model=how.model) as session:
            self._session = session
            return await self._converse(session, 0 if session_id is None else session.state.seq)

    async def _converse(self, session: Conversation, after: int) -> tuple[bool, int]:
        """One conversation, shown from the fact after seq `after` on."""
        if self._how.mode is not None:
            self._told(await session.control(UpdateState(patch={"mode": self._how.mode})))
        if not self._out.as_json:
            self._greet(session)
        async with following(session, screen_for(self._out, session.state), after) as follower:
            session.recover()
            await self._settle(session, follower)
            while (text := await self._lines.next(self._prompt())) is not None:
                self._presses = 0
                match text.strip():
                    case "":
                        continue
                    case "/quit" | "/exit":
                        return False, 0
                    case "/new":
                        return True, 0
                    case command if command.startswith("/") and command.split()[0] in COMMANDS:
                        await self._command(command.split()[0], session, follower)
                    case unknown if re.fullmatch(r"/[a-z]+", unknown):
                        self._out.note(self._out.side.odd(f"{unknown} is no command; /help lists them"))
                    case _:
                        await self._say(text, session)
                        await self._settle(session, follower)
        return False, exit_code(session.state)

    async def _say(self, text: str, session: Conversation) -> None:
        answer = await session.control(Invoke(input=text))
        self._told(answer)
        if not isinstance(answer, Refused):
            tell_queued(answer, session.state, "queue", self._out)

    async def _settle(self, session: Conversation, follower: Follower) -> None:
        """Until nothing runs and nothing waits that the person wants to decide now."""
        state = await follower.settled()
        later: set[str] = set()
        while not self._out.as_json:
            asked = next((one for one in _asked(state) if one.approval.id not in later), None)
            if asked is None:
                return
            if asked.session_id != session.session_id:
                self._out.note(approval_text(asked.approval, self._out.side))
            control = await self._decision(asked.approval)
            if control is None:
                later.add(asked.approval.id)
            else:
                self._told(await self._decide(control, asked, session))
                state = await follower.settled()

    async def _decide(self, control: Resume, asked: ApprovalBelow, session: Conversation) -> Accepted | Refused:
        """Sends the decision to the session in which it was asked for."""
        if asked.session_id == session.session_id:
            return await session.control(control)
        seq = session.state.seq
        async with self._place.session(self._home, asked.session_id) as below:
            answer = await below.control(control)
            if not isinstance(answer, Refused) and not below.state.pending_approvals:
                await moved(session, seq)
            return answer

    async def _decision(self, approval: Approval) -> Resume | None:
        """What the person decides; None is later."""
        if approval.question is not None:
            return await self._answer(approval.id, approval.question)
        choices = {"y": ("allow", "once"), "s": ("allow", "session"), "a": ("allow", "always"), "n": ("deny", "once")}
        while True:
            answer = await self._lines.next(f"{ANSWERS} > ")
            key = (answer or "l").strip()[:1].lower()
            if key in choices:
                decision, scope = choices[key]
                return Resume.model_validate({"approvalId": approval.id, "decision": decision, "scope": scope})
            if key == "l":
                return None

    async def _answer(self, approval_id: str, question: Question) -> Resume | None:
        """What the person says to a server's question; None is later."""
        decisions = {"y": "allow", "n": "deny", "c": "cancel"}
        while True:
            said = await self._lines.next(f"{WAYS if question.url is None else VISITED} > ")
            key = (said or "l").strip()[:1].lower()
            if key == "l":
                return None
            if key in decisions:
                answer = await fill_in(question, self._lines, self._out) if key == "y" else {}
                control = {"approvalId": approval_id, "decision": decisions[key], "arguments": answer or None}
                return None if answer is None else Resume.model_validate(control)

    async def _command(self, name: str, session: Conversation, follower: Follower) -> None:
        out = self._out
        match name:
            case "/help":
                for command, said in COMMANDS.items():
                    out.line(f"  {command.ljust(10)} {said}")
            case "/sessions":
                for agent_id, one in await anyio.to_thread.run_sync(all_sessions, self._home):
                    title = one.title if isinstance(one, SessionSummary) else one.reason
                    here = "*" if one.session_id == session.session_id else " "
                    out.line(f"{here} {one.session_id}  {agent_id}  {title}")
            case "/stop":
                self._told(await session.control(Stop(scope="session")))
                await self._settle(session, follower)
            case "/show":
                journal = self._home.journal(session.agent_id, session.session_id)
                events = await anyio.to_thread.run_sync(lambda: list(read_events(journal)))
                for line in transcript(events, out.style):
                    out.line(line)
                for approval in session.state.pending_approvals:
                    out.line(approval_text(approval, out.style))

    async def _obey_signals(
        self, leave: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """The first Ctrl-C stops the run, or says how to leave; the second leaves. SIGTERM leaves."""
        # The second does not wait for what the first one asks: a daemon that does not answer may take a minute.
        async with anyio.create_task_group() as asking:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()
                async for number in signals:
                    self._presses += 1
                    session = self._session
                    if number == signal.SIGTERM or self._presses > 1 or session is None:
                        leave.cancel()
                        return
                    if session.state.active_run is not None:
                        self._out.note(self._out.side.odd("\nstopping; Ctrl-C again leaves"))
                        asking.start_soon(session.control, Stop(scope="session"))
                    else:
                        self._out.note("\nCtrl-C again or /quit leaves")

    def _greet(self, session: Conversation) -> None:
        style = self._out.side
        waiting = "".join("\n" + approval_text(one, style) for one in session.state.pending_approvals)
        self._out.note(
            f"{style.bold(self._home.name)}  {style.dim(session.session_id + ', /help lists commands')}{waiting}"
        )

    def _prompt(self) -> str:
        return "" if self._out.as_json else self._out.style.bold("> ")

    def _told(self, answer: object) -> None:
        """A refusal is told, and the conversation goes on."""
        if isinstance(answer, Refused):
            self._out.note(self._out.side.odd(answer.message))


async def _chat(settings: Settings, agent: str, how: Manner, out: Output) -> int:
    home = find_home(agent, settings.workspaces)
    session_id = await anyio.to_thread.run_sync(main_session, home, how.session)
    async with reach(settings, home, out) as place:
        return await Chat(place, home, replace(how, session=session_id), Lines(0, out), out).talk()


def _asked(state: State) -> tuple[ApprovalBelow, ...]:
    """What waits for a person in the session and in those of its subagents, with the session of each."""
    banner = view(state).approval_banner
    own = (ApprovalBelow(session_id=state.session_id, approval=one) for one in banner.approvals)
    return (*own, *banner.below)
