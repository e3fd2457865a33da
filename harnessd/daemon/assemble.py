"""Where everything is put together: the one composition root. It wires and decides nothing else."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from harnessd import __version__
from harnessd.daemon.config import Settings, read_secrets
from harnessd.daemon.delegation import Delegation, Task
from harnessd.daemon.redaction import redactor, secret_values
from harnessd.daemon.resident import Resident
from harnessd.daemon.session import Session, Wiring
from harnessd.errors import HarnessdError, SessionNotFound, StorageError
from harnessd.facts.event import SessionCreated
from harnessd.facts.run import Trigger
from harnessd.home import history
from harnessd.home.acceptance import acceptance
from harnessd.home.change import Entries
from harnessd.home.definition import Definition
from harnessd.home.door import Door
from harnessd.home.executables import as_foreign, executable_hash
from harnessd.home.layout import Home, find_home
from harnessd.home.lint import lint_files
from harnessd.home.memory import NoSuchEntry, add_entry, remove_entry
from harnessd.home.pin import Pinner
from harnessd.home.portrait import Portrait, portrait
from harnessd.home.problem import Problem
from harnessd.home.reader import DefinitionReader
from harnessd.home.settings import AgentSettings
from harnessd.home.tiers import Tiers
from harnessd.home.trust import TrustStore
from harnessd.home.validity import invalid
from harnessd.hooks import memory_flush, session_persistence
from harnessd.hooks.chain import Chain
from harnessd.hooks.checks import Checks
from harnessd.hooks.compaction import Compaction
from harnessd.hooks.context import RunContext
from harnessd.hooks.dynamic_skills import DynamicSkills
from harnessd.hooks.dynamic_subagents import DynamicSubagents
from harnessd.hooks.dynamic_tools import DynamicTools
from harnessd.hooks.memory_maintenance import MemoryMaintenance
from harnessd.hooks.workspace_context import WorkspaceContext
from harnessd.ids import check_name, new_id
from harnessd.journal.committer import Committer
from harnessd.journal.file import Disk
from harnessd.journal.ledger import Ledger
from harnessd.journal.sessions import list_sessions
from harnessd.loop.budget import tightest
from harnessd.loop.turn import Turns
from harnessd.models.models import Models
from harnessd.permissions.hooks import ProgramHook
from harnessd.permissions.rules import RuleSet
from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.tools.files import file_tools
from harnessd.tools.memory import memory_tools
from harnessd.tools.seen import Seen
from harnessd.tools.servers import Servers
from harnessd.tools.skill import skill_tool
from harnessd.tools.todo import todo_tool


class Runtime:
    """Everything that one process runs: homes by path, sessions by id. Made by `Runtime.open`."""

    def __init__(self, settings: Settings, env: Mapping[str, str], tasks: TaskGroup, disk: Disk | None) -> None:
        self.settings = settings
        self._disk = disk
        self.trust = TrustStore(settings.state_dir)
        self._secrets = read_secrets(settings.secrets_file)
        self._env = {**env, **self._secrets}
        self.models = Models(self._env, cache_dir=settings.state_dir / "cache")
        self._committer = Committer()
        self._tasks = tasks
        self._residents: dict[Path, Resident] = {}
        self._sessions: dict[tuple[Path, str], Session] = {}
        self._opening: dict[tuple[Path, str], anyio.Lock] = {}
        self._secret_values = secret_values(self._secrets, env)
        self._redact = redactor(self._secret_values)
        self._delegation = Delegation(self._open_below, self._close_below)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, env: Mapping[str, str] | None = None, *, disk: Disk | None = None
    ) -> AsyncIterator["Runtime"]:
        """The runtime while the block runs; at its end nothing of it is left: no process, no open file.

        `disk` is what journals are written through, None the real one.
        """
        raised: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            runtime = cls(settings, os.environ if env is None else env, tasks, disk)
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

    async def session(
        self,
        home: Home,
        session_id: str | None = None,
        *,
        agent_id: str = "main",
        user_id: str | None = None,
        model: str | None = None,
    ) -> Session:
        """A new session, or the one of that id (`last`: the newest), opened once in this process.

        `model` stands in for the home's own. Raises `SessionNotFound`, `InvalidName`, `Locked`, `StorageError`.
        """
        if user_id is not None:
            check_name(user_id, "user id")
        opened = await self._known(home, session_id, agent_id) or new_id("ses")
        key = (home.path, opened)
        if agent_id != "main" and key not in self._sessions:
            said = f"this session is the subagent {agent_id}'s; it goes on when the run that delegated to it does"
            raise SessionNotFound(said, where=str(home.path), hint="run the session of the main agent")
        try:
            async with self._opening.setdefault(key, anyio.Lock()):
                if key not in self._sessions:
                    resident = await anyio.to_thread.run_sync(self.resident, home)
                    created = SessionCreated(user_id=user_id, harness_version=__version__)
                    self._sessions[key] = await self._open(home, opened, "main", created, self._wiring(resident, model))
        finally:
            self._opening.pop(key, None)
        return self._sessions[key]

    def log(self, home: Home, *, paths: Sequence[str] = (), limit: int = 50) -> tuple[history.LogEntry, ...]:
        """Who changed the home, when and why, newest first. Blocks."""
        return history.log(home, paths=paths, limit=limit)

    def portrait(self, home: Home) -> Portrait:
        """What one would say of the agent at a glance. Blocks."""
        pinned, definition = self.resident(home).read()
        return portrait(
            home.name,
            definition,
            pin=pinned.tree,
            head=pinned.pin.head,
            dirty=pinned.pin.dirty,
            last_good=pinned.pin.last_good,
        )

    def lint(self, home: Home) -> tuple[Problem, ...]:
        """What a person should mend, where and how. Blocks."""
        pinned, definition = self.resident(home).read()
        return lint_files(pinned, definition)

    def trust_home(self, home: Home) -> str:
        """Trusts what the home starts by itself as it is now; the hash that is trusted. Blocks."""
        _, definition = self.resident(home).read()
        trusted = executable_hash(definition)
        self.trust.trust(home, trusted)
        return trusted

    def resident(self, home: Home) -> Resident:
        """The parts of a home, made at first use. Blocks; raises `HistoryError` if git can't read it."""
        found = self._residents.get(home.path)
        if found is None:
            found = self._residents.setdefault(home.path, self._resident(home))
        return found

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
        )
        if ledger.state.seq == 0:
            ledger.record(created)
        return Session(ledger, self._tasks, wiring)

    async def _open_below(self, task: Task) -> Session:
        """The session of a subagent that works for a run, made at its first opening."""
        home, parent = task.above.home, task.parent
        resident = await anyio.to_thread.run_sync(self.resident, home)
        created = SessionCreated(
            title=task.title, user_id=task.above.state.user_id, parent=parent, harness_version=__version__
        )
        wiring = self._wiring(resident, task.above.given_model, task)
        session = await self._open(home, task.session_id, task.subagent.name, created, wiring)
        self._sessions[home.path, task.session_id] = session
        return session

    async def _close_below(self, task: Task, session: Session) -> None:
        self._sessions.pop((task.above.home.path, task.session_id), None)
        await session.close()

    async def _known(self, home: Home, session_id: str | None, agent_id: str) -> str | None:
        """The id of an existing session that is meant, None for a new one."""
        if session_id is None:
            return None
        if session_id == "last":
            found = await anyio.to_thread.run_sync(list_sessions, home.sessions(agent_id))
            session_id = next((one.session_id for one in found), None)
            if session_id is None:
                raise SessionNotFound("this agent has no session yet", where=str(home.path), hint="leave --session out")
        elif not home.journal(agent_id, session_id).exists():
            hint = f"list them with: harnessd sessions {home.name}"
            raise SessionNotFound(f"there is no session {session_id}", where=str(home.path), hint=hint)
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

    def _wiring(self, resident: Resident, model: str | None, task: Task | None = None) -> Wiring:
        seen, operators = Seen(), _with_one_address(self.settings)

        def prepare(ledger: Ledger, run_id: str, trigger: Trigger) -> RunContext:
            context = resident.prepare(ledger, run_id, trigger, seen)
            context.model = context.given_model = model or ""
            context.api_base, context.api_models = self.settings.api_base, operators
            if task is not None:
                task.bind(context)
            return context

        return Wiring(
            prepare=prepare,
            run=resident.run,
            rule_for=resident.rule_for,
            write_rule=resident.allow_always,
            reload=resident.reload,
            ceiling=self.settings.ceiling.mode,
        )

    def _resident(self, home: Home) -> Resident:
        """The parts of one home, wired."""
        settings, models = self.settings, self.models
        logs = settings.state_dir / "logs" / home.name
        tiers = Tiers(**settings.tiers)
        secrets = self._secret_values
        door = Door(home, check=acceptance(lambda: secrets), entries=ENTRIES, tiers=tiers)
        trusted_links = frozenset(str(path) for path in settings.trusted_links)
        pinner = Pinner(home, invalid=invalid, trusted_link=lambda path: str(home.path / path) in trusted_links)
        reader = DefinitionReader()
        servers = Servers(self._tasks, home.path, logs, self._redact)

        def trusted(definition: Definition) -> bool:
            return self.trust.is_trusted(home, executable_hash(definition))

        def within_trust(definition: Definition) -> Definition:
            return definition if trusted(definition) else as_foreign(definition)

        async def model_for(asked: AgentSettings) -> str:
            return await models.resolve(asked.model or "auto", operator=settings.model)

        read_home = WorkspaceContext(pinner, reader, model_for, settings.ceiling, tightest, datetime.now, within_trust)
        rules = RuleSet(source="operator", **settings.rules.model_dump())
        builtins = (*file_tools(), *memory_tools(), todo_tool())
        tools = DynamicTools(servers, builtins, self._variable, trusted, rules, settings.mcp_connect_timeout)
        skills, subagents = DynamicSkills(skill_tool()), DynamicSubagents(self._delegation.wake)
        compaction = Compaction(models, settings.small_model)
        checks = Checks(self._sandbox, lambda context: trusted(context.whole_now))
        chain = Chain(
            before_run=(read_home.before_run, tools.before_run, skills.take_up, subagents.take_up),
            before_model=(
                read_home.before_model,
                tools.before_model,
                skills.take_up,
                subagents.take_up,
                compaction.before_model,
            ),
            after_tool=(checks.after_tool,),
            before_finish=(checks.before_finish,),
            after_run=(
                MemoryMaintenance(models, door).after_run,
                memory_flush.after_run,
                session_persistence.after_run,
            ),
        )
        resident: Resident

        async def run_calls(context: RunContext) -> tuple[str, ...]:
            return await resident.run_calls(context)

        resident = Resident(
            home=home,
            settings=settings,
            pinner=pinner,
            reader=reader,
            door=door,
            tiers=tiers,
            servers=servers,
            trust=self.trust,
            chain=chain,
            turns=Turns(models, chain, run_calls, compaction.compact),
            hooks=tuple(ProgramHook(command) for command in settings.hooks.before_tool),
            secrets=secrets,
        )
        return resident

    def _variable(self, name: str) -> str | None:
        """The value of a variable that tools.json may name: from the secret store, or of a granted name."""
        return self._secrets.get(name) or (self._env.get(name) if name in self.settings.allow_env else None)

    def _sandbox(self, context: RunContext) -> Sandbox:
        asked = context.home_now.settings
        return Sandbox(
            context.home.path,
            workdirs=tuple(Path(folder) for folder in asked.workdirs),
            hidden=(self.settings.workspaces, self.settings.state_dir),
            network=asked.network == "full",
        )

    async def _close(self) -> HarnessdError | None:
        """Lets everything go; what still ran is an interruption, and goes on when its session is opened again.

        Gives back the first failure of a session; the others are closed all the same.
        """
        failure: HarnessdError | None = None
        for resident in self._residents.values():
            resident.servers.close()
        while self._sessions:
            # In the order of opening: a run closes the sessions of its subagents itself.
            try:
                await self._sessions.pop(next(iter(self._sessions))).close()
            except HarnessdError as error:
                failure = failure or error
        for resident in self._residents.values():
            resident.pinner.close()
        await self.models.close()
        await anyio.to_thread.run_sync(self._committer.close)
        return failure


def _with_one_address(settings: Settings) -> frozenset[str]:
    """The operator's models that `apiBase` is for: the main one, and the small one if it is of the same provider."""
    if settings.model is None or settings.model == "auto":
        return frozenset()
    small = settings.small_model or ""
    same = small.partition("/")[0] == settings.model.partition("/")[0]
    return frozenset({settings.model, small} if same else {settings.model})


def _remove(text: str, match: str) -> str | None:
    changed = remove_entry(text, match)
    return None if isinstance(changed, NoSuchEntry) else changed


ENTRIES = Entries(add=add_entry, remove=_remove)
