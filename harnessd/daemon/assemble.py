"""Where everything is put together: the one composition root. It wires and decides nothing else."""

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from harnessd import __version__
from harnessd.daemon.config import Settings, read_secrets
from harnessd.daemon.delegation import STOPPED, Delegation, Task, ended, way_up
from harnessd.daemon.recovery import Recovered, recover
from harnessd.daemon.redaction import redactor, secret_values
from harnessd.daemon.resident import Resident
from harnessd.daemon.residents import Residents
from harnessd.daemon.session import Prepare, Session, Wiring
from harnessd.daemon.sessions import Sessions, WaitingApproval
from harnessd.errors import HarnessdError, SessionNotFound, StorageError, UsageError
from harnessd.facts.event import Event, SessionCreated
from harnessd.facts.run import Failure, SubagentRef, Trigger
from harnessd.facts.state import LastRun, State
from harnessd.home import history
from harnessd.home.executables import executable_hash
from harnessd.home.layout import Home, find_home, list_homes
from harnessd.home.lint import lint_files
from harnessd.home.portrait import Portrait
from harnessd.home.problem import Problem
from harnessd.home.trust import TrustStore
from harnessd.hooks.context import RunContext
from harnessd.ids import check_id, check_name, new_id
from harnessd.journal.committer import Committer
from harnessd.journal.erase import erase_session
from harnessd.journal.file import Disk
from harnessd.journal.ledger import Ledger
from harnessd.journal.peek import peek
from harnessd.journal.session_files import SessionFiles
from harnessd.journal.sessions import list_sessions
from harnessd.models.models import Models
from harnessd.permissions.rules import unreadable
from harnessd.sandbox.cgroups import remove_abandoned
from harnessd.tools.seen import Seen

LOG = logging.getLogger("harnessd.daemon")

Watch = Callable[[Home, Event], None]


class Runtime:
    """Everything that one process runs: homes by path, sessions by id. Made by `Runtime.open`."""

    def __init__(
        self,
        settings: Settings,
        env: Mapping[str, str],
        tasks: TaskGroup,
        disk: Disk | None,
        watch: Watch | None,
        only_looks: bool,
    ) -> None:
        self.settings = settings
        self._disk = disk
        self.trust = TrustStore(settings.state_dir)
        secrets = read_secrets(settings.secrets_file)
        self.models = Models({**env, **secrets}, cache_dir=settings.state_dir / "cache")
        self._committer = Committer()
        self._tasks = tasks
        self._watch = watch
        self.safe = False
        self.sessions = Sessions(self._expire, settings.idle_seconds)
        hidden = secret_values(secrets, env)
        self._redact = redactor(hidden)
        wake = Delegation(self._open_below, self._close_below).wake
        self._residents = Residents(
            settings,
            self.trust,
            self.models,
            tasks,
            wake,
            secrets,
            env,
            secret_values=hidden,
            redact=self._redact,
            only_looks=only_looks,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        env: Mapping[str, str] | None = None,
        *,
        disk: Disk | None = None,
        watch: Watch | None = None,
        only_looks: bool = False,
    ) -> AsyncIterator["Runtime"]:
        """The runtime while the block runs; at its end nothing of it is left: no process, no open file.

        `disk` is what journals are written through, None the real one. `watch` is called, on the event loop, with
        every fact of every session once it is on disk; it must not wait. With `only_looks` reading a home writes
        nothing into it, not even which version was read.
        """
        raised: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            runtime = cls(settings, os.environ if env is None else env, tasks, disk, watch, only_looks)
            tasks.start_soon(runtime.sessions.keep)
            tasks.start_soon(_tidy)
            try:
                yield runtime
            except BaseException as error:  # noqa: BLE001 - carried past the task group, which would wrap it
                raised = error
            with anyio.CancelScope(shield=True):
                failure = await runtime._close()
                raised = raised or failure
            tasks.cancel_scope.cancel()
        if raised is not None:
            raise raised

    def home(self, agent: str) -> Home:
        """The home that `agent` names; raises `HomeNotFound` or `NotAHome`."""
        return find_home(agent, self.settings.workspaces)

    def homes(self) -> tuple[Home, ...]:
        """Every home under the workspaces folder, by name. Blocks."""
        return tuple(list_homes(self.settings.workspaces))

    async def session(
        self,
        home: Home,
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        model: str | None = None,
        title: str = "",
    ) -> Session:
        """A new session, or the one of that id (`last`: the newest), open until the runtime is.

        `model` stands in for the home's own. Raises `SessionNotFound`, `InvalidName`, `Locked`, `StorageError`.
        """
        return await self._enter(home, await self._meant(home, session_id), user_id, model, title)

    @asynccontextmanager
    async def visit(
        self,
        home: Home,
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        model: str | None = None,
        title: str = "",
    ) -> AsyncIterator[Session]:
        """The same for as long as the block runs; let go a while after, unless it runs. Subagents' sessions as well."""
        known = await self._meant(home, session_id)
        session = await self._enter(home, known, user_id, model, title)
        try:
            yield session
        finally:
            self.sessions.leave((home.path, session.session_id), session)

    async def erase(self, home: Home, session_id: str) -> None:
        """Deletes a session for good, with those of its subagents: nothing stays but the fact that it was.

        Raises `SessionNotFound`, `Conflict` while something runs in it, `UsageError` for a subagent's own session,
        `Locked`, `StorageError`.
        """
        agent_id = await anyio.to_thread.run_sync(home.agent_of, check_id(session_id, "ses"))
        if agent_id is None:
            raise _no_session(home, session_id)
        if agent_id != "main":
            said = f"this session is the subagent {agent_id}'s"
            raise UsageError(said, where=str(home.path), hint="delete the session that it worked for")
        await self._erase(home, agent_id, session_id)

    async def _erase(self, home: Home, agent_id: str, session_id: str) -> None:
        files = SessionFiles(
            agent_id,
            session_id,
            home.journal(agent_id, session_id),
            home.checkpoint(agent_id, session_id),
            home.evicted(agent_id, session_id),
            home.artifacts(agent_id, session_id),
        )
        async with self.sessions.shut((home.path, session_id)):
            state = await anyio.to_thread.run_sync(peek, files.journal, files.checkpoint)
            for ref in state.subagents:
                # Those below go first: what is left if this is cut short still leads to them.
                if await anyio.to_thread.run_sync(home.agent_of, ref.session_id) is not None:
                    with contextlib.suppress(SessionNotFound):
                        await self._erase(home, ref.agent_id, ref.session_id)
            await anyio.to_thread.run_sync(erase_session, files)
            self._residents.forget(home, session_id)

    def waiting(self) -> tuple[WaitingApproval, ...]:
        """Everything that waits for a person in the sessions that this process knows of, the oldest first."""
        return self.sessions.waiting()

    @property
    def running(self) -> int:
        """In how many sessions something runs now."""
        return sum(not session.quiet for session in self.sessions.open())

    async def recover(self, *, safe: bool = False) -> Recovered:
        """Goes on with what a former process left under the workspaces folder, and learns what waits for a person.

        `safe` lets no run go on by itself, from now on. Raises nothing for a home or session that cannot be read.
        """
        self.safe = safe
        homes = await anyio.to_thread.run_sync(self.homes)
        return await recover(homes, self.visit, self.sessions)

    async def drain(self, seconds: float) -> None:
        """Refuses new controls, lets turns end within so many seconds, and saves what is open."""
        await self.sessions.drain(seconds)

    def log(self, home: Home, *, paths: Sequence[str] = (), limit: int = 50) -> tuple[history.LogEntry, ...]:
        """Who changed the home, when and why, newest first. Blocks."""
        return history.log(home, paths=paths, limit=limit)

    def portrait(self, home: Home) -> Portrait:
        """What one would say of the agent at a glance. Blocks."""
        return self.resident(home).portrait()

    def lint(self, home: Home) -> tuple[Problem, ...]:
        """What a person should mend, where and how. Blocks."""
        pinned, definition = self.resident(home).read()
        return lint_files(pinned, definition, unreadable=unreadable)

    def trust_home(self, home: Home) -> str:
        """Trusts what the home starts by itself as it is now; the hash that is trusted. Blocks."""
        _, definition = self.resident(home).read()
        trusted = executable_hash(definition)
        self.trust.trust(home, trusted)
        return trusted

    def resident(self, home: Home) -> Resident:
        """The parts of a home, made at first use. Blocks; raises `HistoryError` if git can't read it."""
        return self._residents.of(home)

    async def _enter(
        self, home: Home, session_id: str | None, user_id: str | None, model: str | None, title: str
    ) -> Session:
        if user_id is not None:
            check_name(user_id, "user id")
        opened = session_id or new_id("ses")

        async def open_it() -> Session:
            agent_id = await anyio.to_thread.run_sync(home.agent_of, opened) if session_id else "main"
            resident = await anyio.to_thread.run_sync(self.resident, home)
            created = SessionCreated(user_id=user_id, title=title, model=model or "", harness_version=__version__)
            wiring = self._wiring(resident, self._prepare(resident, model or ""))
            return await self._open(home, opened, agent_id or "main", created, wiring)

        return await self.sessions.enter((home.path, opened), open_it)

    async def _open(
        self, home: Home, session_id: str, agent_id: str, created: SessionCreated, wiring: Wiring
    ) -> Session:
        await anyio.to_thread.run_sync(self._refuse_links, home, agent_id, session_id)
        ledger = await Ledger.open(
            home.journal(agent_id, session_id),
            home.checkpoint(agent_id, session_id),
            session_id=session_id,
            agent_id=agent_id,
            committer=self._committer,
            redact=self._redact,
            disk=self._disk,
            told=self._told(home),
        )
        try:
            if ledger.state.seq == 0:
                ledger.record(created)
            session = Session(ledger, self._tasks, wiring)
            await session.take_up(resume_within=self.settings.resume_within, safe=self.safe)
        except BaseException:
            # Nobody knows of it yet, and a journal that stays locked could not be opened again.
            with anyio.CancelScope(shield=True), contextlib.suppress(StorageError):
                await ledger.close()
            raise
        return session

    async def _open_below(self, task: Task) -> Session:
        """The session of a subagent that works for a run, made at its first opening."""
        home, parent = task.above.home, task.parent
        resident = await anyio.to_thread.run_sync(self.resident, home)
        prepare = self._prepare(resident, task.above.given_model, task)

        async def open_it() -> Session:
            created = SessionCreated(
                title=task.title, user_id=task.above.state.user_id, parent=parent, harness_version=__version__
            )
            return await self._open(home, task.session_id, task.subagent.name, created, self._wiring(resident, prepare))

        session = await self.sessions.enter((home.path, task.session_id), open_it)
        session.employ(prepare)
        return session

    async def _close_below(self, task: Task, session: Session) -> None:
        await session.dismiss()
        key = (task.above.home.path, task.session_id)
        self.sessions.leave(key, session)
        await self.sessions.let_go(key)

    async def _end_below(self, home: Home, ref: SubagentRef) -> SubagentRef:
        """Ends a subagent that nobody works with any more, and those below it."""
        try:
            if await anyio.to_thread.run_sync(home.agent_of, ref.session_id) is None:
                return ended(ref, State(), STOPPED)
            async with self.visit(home, ref.session_id) as session:
                return ended(ref, await session.end_below(), STOPPED)
        except (HarnessdError, OSError) as error:
            hint = getattr(error, "hint", None) or ""
            failure = Failure(kind=type(error).__name__, message=str(error), hint=hint)
            return ended(ref, State(), LastRun(reason="failed", failure=failure))

    async def _rouse(self, home: Home, below: Session) -> None:
        """Wakes the run at the top that a subagent's session works for, and that comes down to it by itself.

        One that nobody above waits for any more is ended.
        """
        try:
            way = await anyio.to_thread.run_sync(way_up, home, below.session_id, below.state.parent)
            async with self.visit(home, way.session_id) as session:
                if way.wanted:
                    session.rouse()
                else:
                    await session.end_below()
        except (HarnessdError, OSError) as error:
            # What was decided is on record, and is found when the session at the top is opened again.
            LOG.warning("session %s: the run that it works for can't go on: %s", below.session_id, error)

    async def _meant(self, home: Home, session_id: str | None) -> str | None:
        """The id of an existing session that is meant, None for a new one."""
        if session_id is None:
            return None
        if session_id == "last":
            found = await anyio.to_thread.run_sync(list_sessions, home.sessions("main"))
            session_id = next((one.session_id for one in found), None)
            if session_id is None:
                raise SessionNotFound("this agent has no session yet", where=str(home.path), hint="leave --session out")
        elif self.sessions.knows((home.path, session_id)):
            return session_id
        elif await anyio.to_thread.run_sync(home.agent_of, check_id(session_id, "ses")) is None:
            self.sessions.forget((home.path, session_id))
            raise _no_session(home, session_id)
        return session_id

    def _refuse_links(self, home: Home, agent_id: str, session_id: str) -> None:
        """What the runtime writes stays in the home, wherever the home came from."""
        for place in home.links(agent_id, session_id):
            if place not in self.settings.trusted_links:
                raise StorageError(
                    "this is a link, and a session is not written through it",
                    where=str(place),
                    hint="put a folder in its place, or list it under trustedLinks in harnessd.yaml",
                )

    def _prepare(self, resident: Resident, model: str, task: Task | None = None) -> Prepare:
        """What makes the context of a run; `model` stands in for that of the session and of the home."""
        seen, operators = Seen(), _with_one_address(self.settings)

        def prepare(ledger: Ledger, run_id: str, trigger: Trigger) -> RunContext:
            context = resident.prepare(ledger, run_id, trigger, seen)
            context.model = context.given_model = model or ledger.state.model
            context.api_base, context.api_models = self.settings.api_base, operators
            if task is not None:
                task.bind(context)
            return context

        return prepare

    def _wiring(self, resident: Resident, prepare: Prepare) -> Wiring:
        home = resident.home

        async def end_below(ref: SubagentRef) -> SubagentRef:
            return await self._end_below(home, ref)

        async def rouse(below: Session) -> None:
            await self._rouse(home, below)

        return Wiring(
            prepare=prepare,
            run=resident.run,
            rule_for=resident.rule_for,
            write_rule=resident.allow_always,
            check_answer=resident.check_answer,
            reload=resident.reload,
            end_below=end_below,
            rouse=rouse,
            forget=self.models.forget,
            jobs=resident.jobs,
            ceiling=self.settings.ceiling.mode,
        )

    def _told(self, home: Home) -> Callable[[Event], None]:
        """What is called with each fact of a session of that home once it is on disk."""
        watch = self._watch

        def told(event: Event) -> None:
            if event.type == "tool.approval_required":
                self.sessions.look()
            if watch is not None:
                watch(home, event)

        return told

    async def _expire(self, path: Path, session_id: str) -> None:
        """Lets approvals of a session run out, though nobody has it open."""
        try:
            async with self.visit(Home(path), session_id) as session:
                await session.expire()
                session.recover()
        except (HarnessdError, OSError) as error:
            LOG.warning("session %s: approvals can't expire: %s", session_id, error)

    async def _close(self) -> HarnessdError | None:
        """Lets everything go; what still ran is an interruption, and goes on when its session is opened again.

        Gives back the first failure of a session; the others are closed all the same.
        """
        self._residents.close_servers()
        failure = await self.sessions.close(last=True)
        self._residents.close()
        await self.models.close()
        await anyio.to_thread.run_sync(self._committer.close)
        return failure


async def _tidy() -> None:
    """What a runtime before this one left when it was killed."""
    await anyio.to_thread.run_sync(remove_abandoned)


def _no_session(home: Home, session_id: str) -> SessionNotFound:
    hint = f"list them with: harnessd sessions {home.name}"
    return SessionNotFound(f"there is no session {session_id}", where=str(home.path), hint=hint)


def _with_one_address(settings: Settings) -> frozenset[str]:
    """The operator's models that `apiBase` is for: the main one, and the small one if it is of the same provider."""
    if settings.model is None or settings.model == "auto":
        return frozenset()
    small = settings.small_model or ""
    same = small.partition("/")[0] == settings.model.partition("/")[0]
    return frozenset({settings.model, small} if same else {settings.model})
