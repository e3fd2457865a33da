"""Of what parts is a home made in this process? `assemble`'s wiring of one home, from the pin to the chain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from anyio.abc import TaskGroup

from harnessd.daemon.config import Settings
from harnessd.daemon.resident import Resident
from harnessd.home.acceptance import acceptance
from harnessd.home.change import Entries
from harnessd.home.definition import Definition
from harnessd.home.door import Door
from harnessd.home.executables import as_foreign, executable_hash
from harnessd.home.layout import Home
from harnessd.home.memory import NoSuchEntry, add_entry, remove_entry
from harnessd.home.pin import Pinned, Pinner
from harnessd.home.reader import DefinitionReader
from harnessd.home.settings import AgentSettings
from harnessd.home.tiers import Tiers
from harnessd.home.trust import TrustStore
from harnessd.home.validity import invalid
from harnessd.hooks import memory_flush, session_persistence
from harnessd.hooks.chain import Chain
from harnessd.hooks.checks import Checks
from harnessd.hooks.classifier import CallClassifier
from harnessd.hooks.compaction import Compaction
from harnessd.hooks.context import RunContext
from harnessd.hooks.dynamic_skills import DynamicSkills
from harnessd.hooks.dynamic_subagents import DynamicSubagents, Wake
from harnessd.hooks.dynamic_tools import DynamicTools
from harnessd.hooks.ended_jobs import EndedJobs
from harnessd.hooks.memory_maintenance import MemoryMaintenance
from harnessd.hooks.workspace_context import WorkspaceContext
from harnessd.loop.budget import tightest
from harnessd.loop.turn import Turns
from harnessd.models.models import Models
from harnessd.permissions.hooks import ProgramHook
from harnessd.permissions.rules import RuleSet
from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.tools.accepted import accepted_tools
from harnessd.tools.artifact import artifact_tool
from harnessd.tools.connect import Connect
from harnessd.tools.connection import Surroundings
from harnessd.tools.eras import Eras
from harnessd.tools.execute import Execute, Seconds
from harnessd.tools.files import file_tools
from harnessd.tools.jobs import Jobs
from harnessd.tools.memory import memory_tools
from harnessd.tools.scripts import Scripts
from harnessd.tools.servers import Servers, open_servers
from harnessd.tools.skill import skill_tool
from harnessd.tools.todo import todo_tool
from harnessd.tools.tool import Tool, ToolContext


@dataclass(frozen=True)
class Residents:
    """The homes that one process has at hand, by path; each is wired at first use and kept until `close`.

    `tasks` is where the servers of a home live, `wake` sets a subagent to work. `secrets` is the operator's store,
    `env` the environment; `secret_values` are never committed, and `redact` takes them out of logs and files. With
    `only_looks` reading a home writes nothing into it.
    """

    settings: Settings
    trust: TrustStore
    models: Models
    tasks: TaskGroup
    wake: Wake
    secrets: Mapping[str, str]
    env: Mapping[str, str]
    secret_values: tuple[str, ...]
    redact: Callable[[bytes], bytes]
    only_looks: bool = False
    _made: dict[Path, Resident] = field(default_factory=dict)

    def of(self, home: Home) -> Resident:
        """The parts of a home. Blocks; raises `HistoryError` if git can't read it."""
        found = self._made.get(home.path)
        if found is None:
            found = self._made.setdefault(home.path, self._wire(home))
        return found

    def forget(self, home: Home, session_id: str) -> None:
        """Drops what is kept of a session that is no more."""
        found = self._made.get(home.path)
        if found is not None:
            found.jobs.forget(session_id)

    def close_servers(self) -> None:
        """Ends the servers of every home."""
        for resident in self._made.values():
            resident.servers.close()

    def close(self) -> None:
        """Lets go of what is kept of every home, once no session uses it any more."""
        for resident in self._made.values():
            resident.pinner.close()

    def _wire(self, home: Home) -> Resident:
        """The parts of one home, put together."""
        settings, models = self.settings, self.models
        logs = settings.state_dir / "logs" / home.name
        tiers = Tiers(**settings.tiers)
        secrets = self.secret_values
        door = Door(home, check=acceptance(lambda: secrets), entries=ENTRIES, tiers=tiers)
        trusted_links = frozenset(str(path) for path in settings.trusted_links)
        pinner = Pinner(
            home,
            invalid=invalid,
            trusted_link=lambda path: str(home.path / path) in trusted_links,
            keep=not self.only_looks,
        )
        reader = DefinitionReader()
        around = self._surroundings(home)
        servers = Servers(self.tasks, around, logs, self.redact)

        def trusted(definition: Definition) -> bool:
            return self.trust.is_trusted(home, executable_hash(definition))

        def within_trust(definition: Definition) -> Definition:
            return definition if trusted(definition) else as_foreign(definition)

        async def model_for(asked: AgentSettings) -> str:
            return await models.resolve(asked.model or "auto", operator=settings.model)

        read_home = WorkspaceContext(pinner, reader, model_for, settings.ceiling, tightest, datetime.now, within_trust)
        rules = RuleSet(source="operator", **settings.rules.model_dump())
        jobs = Jobs(self.tasks)
        seconds = Seconds(settings.execute.timeout, settings.execute.background)
        execute = Execute(self._sandbox_of_call, jobs, _only_reads, seconds, self.redact)
        scripts = Scripts(lambda context: replace(self._sandbox_of_call(context), network=True))
        connect = Connect(
            servers,
            lambda: open_servers(replace(around, accepted=None), logs=logs / "tried", redact=self.redact),
            self._variable,
            trusted,
            self.redact,
        )
        builtins = (*file_tools(), execute.tool(), *memory_tools(), todo_tool(), artifact_tool(), connect.tool())
        tools = DynamicTools(servers, builtins, scripts, self._variable, trusted, rules, settings.mcp_connect_timeout)
        ended_jobs = EndedJobs(jobs)
        skills, subagents = DynamicSkills(skill_tool()), DynamicSubagents(self.wake)
        compaction = Compaction(models, settings.small_model)
        checks = Checks(self._sandbox_of_run, lambda context: trusted(context.whole_now))
        chain = Chain(
            before_run=(
                read_home.before_run,
                tools.before_run,
                skills.take_up,
                subagents.take_up,
                ended_jobs.take_up,
            ),
            before_model=(
                read_home.before_model,
                tools.before_model,
                skills.take_up,
                subagents.take_up,
                ended_jobs.take_up,
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

        async def look(context: RunContext, pinned: Pinned, read: Definition, unconnected: tuple[Tool, ...]) -> None:
            read_home.take_up(context, pinned, within_trust(read))
            tools.look(context, unconnected)
            await skills.take_up(context)
            await subagents.take_up(context)

        resident: Resident

        async def run_calls(context: RunContext) -> tuple[str, ...] | None:
            return await resident.run_calls(context)

        resident = Resident(
            home=home,
            settings=settings,
            pinner=pinner,
            reader=reader,
            door=door,
            tiers=tiers,
            servers=servers,
            jobs=jobs,
            trust=self.trust,
            chain=chain,
            turns=Turns(models, chain, run_calls, compaction.compact),
            hooks=tuple(ProgramHook(command) for command in settings.hooks.before_tool),
            classify=CallClassifier(models, settings.small_model).answer,
            look=look,
            every_tool=tools.every_tool,
            secrets=secrets,
            redact=self.redact,
        )
        return resident

    def _surroundings(self, home: Home) -> Surroundings:
        """Where this home's MCP servers live, and what is known of them."""
        settings = self.settings
        state = settings.state_dir
        sandbox = Sandbox(
            home.path,
            hidden=(settings.workspaces, state),
            network=True,
            limits=settings.sandbox.limits,
            machine="as-user",
            confined=settings.sandbox.kind == "bubblewrap",
        )
        return Surroundings(sandbox, accepted_tools(state, home), Eras(state / "cache" / "mcp-eras.json"))

    def _variable(self, name: str) -> str | None:
        """The value of a variable that tools.json may name: from the secret store, or of a granted name."""
        return self.secrets.get(name) or (self.env.get(name) if name in self.settings.allow_env else None)

    def _sandbox_of_call(self, context: ToolContext) -> Sandbox:
        return self._sandbox(context.home, context.definition.settings, context.agent_id, context.session_id)

    def _sandbox_of_run(self, context: RunContext) -> Sandbox:
        state = context.state
        return self._sandbox(context.home, context.home_now.settings, state.agent_id, state.session_id)

    def _sandbox(self, home: Home, asked: AgentSettings, agent_id: str, session_id: str) -> Sandbox:
        """What commands may reach, by the home as it is now: one place for `execute`, scripts and checks."""
        return Sandbox(
            home.path,
            workdirs=tuple(Path(folder) for folder in asked.workdirs),
            hidden=(self.settings.workspaces, self.settings.state_dir),
            visible=(home.evicted(agent_id, session_id), home.artifacts(agent_id, session_id)),
            readable=self.settings.sandbox.readable,
            network=asked.network == "full",
            limits=self.settings.sandbox.limits,
            confined=self.settings.sandbox.kind == "bubblewrap",
        )


def _only_reads(command: str) -> bool:
    from harnessd.permissions.shell import judge

    return judge(command).level == "reads"


def _remove(text: str, match: str) -> str | None:
    changed = remove_entry(text, match)
    return None if isinstance(changed, NoSuchEntry) else changed


ENTRIES = Entries(add=add_entry, remove=_remove)
