"""How does a person talk with an agent at the terminal?"""

import re
import signal
from dataclasses import dataclass

import anyio
import click
from anyio.abc import TaskStatus

from harnessd.cli.exits import STOPPED, exit_code
from harnessd.cli.follow import Follower, following
from harnessd.cli.lines import Lines
from harnessd.cli.live import screen_for
from harnessd.cli.options import Flags, conversation, shared
from harnessd.cli.output import Output
from harnessd.cli.render import approval_text
from harnessd.cli.sessions import all_sessions
from harnessd.cli.transcript import transcript
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.daemon.session import Refused, Session
from harnessd.facts.control import Invoke, Resume, Stop, UpdateState
from harnessd.facts.run import Approval
from harnessd.home.layout import Home
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

    def __init__(self, runtime: Runtime, home: Home, how: Manner, lines: Lines, out: Output) -> None:
        self._runtime = runtime
        self._home = home
        self._how = how
        self._lines = lines
        self._out = out
        self._session: Session | None = None
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
        session = await self._runtime.session(self._home, session_id, user_id=how.user_id, model=how.model)
        self._session = session
        if how.mode is not None:
            self._told(await session.control(UpdateState(patch={"mode": how.mode})))
        if not self._out.as_json:
            self._greet(session)
        after = 0 if session_id is None else session.state.seq
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
                        self._told(await session.control(Invoke(input=text)))
                        await self._settle(session, follower)
        return False, exit_code(session.state)

    async def _settle(self, session: Session, follower: Follower) -> None:
        """Until nothing runs and nothing waits that the person wants to decide now."""
        state = await follower.settled()
        later: set[str] = set()
        while not self._out.as_json:
            approval = next((one for one in state.pending_approvals if one.id not in later), None)
            if approval is None:
                return
            control = await self._decision(approval)
            if control is None:
                later.add(approval.id)
            else:
                self._told(await session.control(control))
                state = await follower.settled()

    async def _decision(self, approval: Approval) -> Resume | None:
        """What the person decides; None is later."""
        choices = {"y": ("allow", "once"), "s": ("allow", "session"), "a": ("allow", "always"), "n": ("deny", "once")}
        while True:
            answer = await self._lines.next(f"{ANSWERS} > ")
            key = (answer or "l").strip()[:1].lower()
            if key in choices:
                decision, scope = choices[key]
                return Resume.model_validate({"approvalId": approval.id, "decision": decision, "scope": scope})
            if key == "l":
                return None

    async def _command(self, name: str, session: Session, follower: Follower) -> None:
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
                events = await anyio.to_thread.run_sync(lambda: list(session.journal()))
                for line in transcript(events, out.style):
                    out.line(line)
                for approval in session.state.pending_approvals:
                    out.line(approval_text(approval, out.style))

    async def _obey_signals(
        self, leave: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """The first Ctrl-C stops the run, or says how to leave; the second leaves. SIGTERM leaves."""
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
                    await session.control(Stop(scope="session"))
                else:
                    self._out.note("\nCtrl-C again or /quit leaves")

    def _greet(self, session: Session) -> None:
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
    async with Runtime.open(settings) as runtime:
        return await Chat(runtime, runtime.home(agent), how, Lines(0, out), out).talk()
