"""before_run, before_model: tools.json → MCP servers, rules, and what the model is offered."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.run import Failure
from harnessd.home.definition import Definition
from harnessd.home.executables import needs_trust
from harnessd.home.expand import MissingVariable, expand
from harnessd.home.not_yet import not_run_yet
from harnessd.home.problem import Problem
from harnessd.home.settings import AgentSettings
from harnessd.home.subagents import BUILT_IN_TOOLS, resolve_tools, tool_name
from harnessd.home.tools_file import McpServer
from harnessd.hooks.context import RunContext
from harnessd.permissions.rules import RuleSet
from harnessd.tools.offered import Offered
from harnessd.tools.scripts import Scripts, apart
from harnessd.tools.servers import Servers
from harnessd.tools.tool import Tool


@dataclass(frozen=True)
class DynamicTools:
    """Offers the built-in tools and those of the home's servers, within its rules.

    `lookup` gives the value of a variable that tools.json may name; `trusted` says whether this home may start
    processes; `operator` are the operator's own rules; `patience` is how many seconds a run waits for servers.
    """

    servers: Servers
    builtins: tuple[Tool, ...]
    scripts: Scripts
    lookup: Callable[[str], str | None]
    trusted: Callable[[Definition], bool]
    operator: RuleSet
    patience: float

    async def before_run(self, context: RunContext) -> None:
        """Connects what the home declares, waits a while for it, and offers what answered."""
        await self._take_up(context)

    async def before_model(self, context: RunContext) -> None:
        """The same again if tools.json or the header changed, or a server's tools did; else one comparison."""
        definition = context.home_now
        seen = context.tools_from
        if seen is None or seen[0] is not definition.tools or not _same(seen[1], definition):
            await self._take_up(context)
        elif seen[2] is not self.servers.tools():
            self._offer(context)

    def look(self, context: RunContext, unconnected: tuple[Tool, ...] = ()) -> None:
        """What would be on offer, and by which rules, without connecting: `unconnected` stand for servers' tools."""
        self._set_rules(context)
        self._offer(context, unconnected)

    def every_tool(self, context: RunContext) -> tuple[Tool, ...]:
        """The built-in tools and the home's scripts, also those that this agent is not offered."""
        offered, _ = apart(self.scripts.tools(context.home_now.tools.scripts), BUILT_IN_TOOLS)
        return (*self.builtins, *offered)

    def _set_rules(self, context: RunContext) -> None:
        definition = context.home_now
        headers = (_header_rules(settings) for settings in (*definition.above, definition.settings))
        context.rules = (self.operator, _rules_of(definition, self.trusted(context.whole_now)), *headers)

    async def _take_up(self, context: RunContext) -> None:
        self._set_rules(context)
        definition = context.home_now
        wanted = self._wanted(context, definition)
        self.servers.configure(wanted)
        if wanted:
            await self.servers.ready(self.patience)
        self._offer(context)
        for problem in not_run_yet(definition):
            context.problem(problem)

    def _wanted(self, context: RunContext, definition: Definition) -> dict[str, McpServer | MissingVariable]:
        """The servers to connect with their variables filled in; what must not start is told and left out."""
        wanted: dict[str, McpServer | MissingVariable] = {}
        trusted = self.trusted(context.whole_now)
        for name, server in definition.tools.mcp_servers.items():
            if not server.enabled:
                continue
            if needs_trust(server) and not trusted:
                _tell(context, McpFailed(server=name, failure=UNTRUSTED))
            else:
                wanted[name] = expand(server, self.lookup)
        return wanted

    def _offer(self, context: RunContext, unconnected: tuple[Tool, ...] | None = None) -> None:
        definition = context.home_now
        offered = self.servers.tools() if unconnected is None else unconnected
        for event in self.servers.status().values():
            _tell(context, event)
        for server, note in self.servers.notes():
            context.problem(_left_out(server, note))
        for server, shown in self.servers.unaccepted():
            for problem in _unaccepted(server, shown):
                context.problem(problem)
        if definition.tools.offer_only_allowed:
            allowed = set(definition.tools.allow)
            remaining = [tool for tool in offered if tool.name in allowed or tool.own_name in allowed]
        else:
            remaining = list(offered)
        tools = (*self.builtins, *self._scripts(context, definition), *remaining)
        settings = (*definition.above, definition.settings)
        context.permitted = _permitted(context, settings, (*(tool.name for tool in tools), *OFFERED_BY_OTHER_HOOKS))
        context.offer("tools", tuple(tool for tool in tools if tool.name in context.permitted))
        context.tools_from = (definition.tools, settings, offered)

    def _scripts(self, context: RunContext, definition: Definition) -> tuple[Tool, ...]:
        """The home's scripts that may run and can be told from the other tools."""
        declared = definition.tools.scripts
        if not declared:
            return ()
        if not self.trusted(context.whole_now):
            names = ", ".join(script.name for script in declared)
            context.problem(_script_problem("scripts-inert", f"{names}: {UNTRUSTED_SCRIPTS}", UNTRUSTED.hint))
            return ()
        offered, refused = apart(self.scripts.tools(declared), BUILT_IN_TOOLS)
        for name in refused:
            said = f"the script {name} is left out: another tool has that name"
            context.problem(_script_problem("script-name-taken", said, "give it a name of its own"))
        return offered


OFFERED_BY_OTHER_HOOKS = ("skill", "delegate")
UNTRUSTED_SCRIPTS = "this home came from elsewhere and is not trusted, so its scripts stay out"


def _permitted(context: RunContext, settings: tuple[AgentSettings, ...], names: tuple[str, ...]) -> frozenset[str]:
    """What each header, from the main agent's down to this agent's own, leaves of the one above it."""
    for one in settings:
        left = resolve_tools(one, names)
        if isinstance(left, Problem):
            context.problem(left)
            left = ()
        names = left
    return frozenset(names)


def _same(before: tuple[AgentSettings, ...], definition: Definition) -> bool:
    now = (*definition.above, definition.settings)
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


UNTRUSTED = Failure(
    kind="untrusted",
    message="this home came from elsewhere and is not trusted, so this server stays out",
    hint="look at tools.json, then run: harnessd trust AGENT",
)


def _rules_of(definition: Definition, trusted: bool) -> RuleSet:
    """The home's rules. What limits counts at once; what allows counts once the operator has looked at it."""
    tools = definition.tools
    return RuleSet(
        allow=tools.allow if trusted else (),
        ask=tools.ask,
        deny=tools.deny,
        source="home",
        only_builtin_readers=not definition.tools_valid or definition.settings.powers_withheld,
    )


def _header_rules(settings: AgentSettings) -> RuleSet:
    """What a header's tool lists say of single calls: `tools: execute(git log:*)` leaves just these."""
    return RuleSet(
        only=tuple(_our_name(entry) for entry in settings.tools or ()),
        deny=tuple(_our_name(entry) for entry in settings.disallowed_tools if "(" in entry),
        source="home",
    )


def _our_name(entry: str) -> str:
    return tool_name(entry) + entry[len(entry.partition("(")[0]) :]


def _left_out(server: str, note: str) -> Problem:
    """What of a server's tools the model does not get: nothing is left out silently."""
    return Problem(
        path="tools.json",
        code="mcp-tools-left-out",
        severity="warning",
        message=f"the server {server}: {note}",
        fix="mend the server, or name the tools that are wanted in its `tools`",
    )


def _script_problem(code: str, message: str, fix: str) -> Problem:
    return Problem(path="tools.json", code=code, severity="error", message=message, fix=fix)


def _unaccepted(server: str, shown: Offered) -> Iterator[Problem]:
    """What waits for the operator: a server may not change by itself what was looked at."""
    if shown.held:
        held = f"says something else of these tools than was accepted, so they are held back: {_few(shown.held)}"
        yield Problem(
            path="tools.json",
            code="mcp-tools-held",
            severity="warning",
            message=f"the server {server} {held}",
            fix="look at what changed and accept it: harnessd trust AGENT",
        )
    if shown.new:
        new = f"has new tools, which count as writers whatever they say of themselves: {_few(shown.new)}"
        yield Problem(
            path="tools.json",
            code="mcp-tools-new",
            severity="notice",
            message=f"the server {server} {new}",
            fix="look at them and accept them: harnessd trust AGENT",
        )


def _few(names: tuple[str, ...]) -> str:
    shown = ", ".join(name[:100] for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _tell(context: RunContext, event: McpConnected | McpFailed) -> None:
    """How a server is becomes a fact when it changes; one that failed is also a problem that screens show."""
    if context.servers_told.get(event.server) == event:
        return
    known = context.state.toolkit.servers.get(event.server)
    first_look = event.server not in context.servers_told
    context.servers_told[event.server] = event
    if isinstance(event, McpConnected):
        if known != "connected" or not first_look:
            context.record(event)
        return
    if known != "failed" or not first_look:
        context.record(event)
    context.problem(
        Problem(
            path="tools.json",
            code=f"mcp-{event.failure.kind.replace('_', '-')}",
            severity="error",
            message=f"the server {event.server} can't be used: {event.failure.message}",
            fix=event.failure.hint,
        )
    )
