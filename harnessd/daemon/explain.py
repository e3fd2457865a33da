"""What would the gate say about a call? Answered from the files alone: nothing is run, started, asked or changed.

The call and all that the gate knows are made by the code that makes them in a run. What a run would ask outside this
process, the operator's programs and the classifier, is named in place of its answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import anyio.to_thread

from harnessd.daemon.resident import Resident
from harnessd.errors import SessionNotFound, UsageError
from harnessd.facts.base import Record
from harnessd.facts.event import Delta, Event
from harnessd.facts.fold import fold
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Decision, Layer, LayerAnswer, Mode, Trigger, Verdict
from harnessd.facts.state import State
from harnessd.home.definition import Definition
from harnessd.home.executables import needs_trust
from harnessd.home.layout import Home
from harnessd.home.pin import Pinned
from harnessd.home.roles import helper, helpers
from harnessd.home.subagents import BUILT_IN_TOOLS
from harnessd.hooks.context import RunContext
from harnessd.ids import check_id, new_id
from harnessd.journal.peek import peek
from harnessd.permissions.call import GateCall
from harnessd.permissions.classifier import ClassifierInput
from harnessd.permissions.gate import settle
from harnessd.permissions.hooks import Hook, ProgramHook
from harnessd.permissions.paths import Roots
from harnessd.permissions.rules import denied_whole
from harnessd.tools.arguments import BadSchema, Invalid, check_arguments, parse_arguments, takes_no_arguments
from harnessd.tools.gate_call import gate_call
from harnessd.tools.near import near_names
from harnessd.tools.seen import Seen
from harnessd.tools.tool import Tool
from harnessd.tools.unconnected import absent_tool, unconnected_tool


class Explained(Record):
    """The decision, the layer that made it and why, and what each of the six layers answers, in their order."""

    decision: Verdict
    layer: Layer
    reason: str
    layers: tuple[LayerAnswer, ...]


@dataclass(frozen=True, slots=True)
class NoCall:
    """This can be no call; `part` says of what it is wrong: `tool` or `arguments`."""

    part: str
    message: str


@dataclass
class Explainer:
    """The gate of one agent as it stands now, in a session or a new one; made by `explainer`."""

    _resident: Resident
    _context: RunContext
    _pinned: Pinned
    _whole: Definition
    _roots: Roots
    _mode: Mode | None
    _stands_for: Tool | None = field(default=None)

    @property
    def context(self) -> RunContext:
        """What a run would begin with."""
        return self._context

    async def explain(self, name: str, arguments: JsonObject | str, mode: Mode | None = None) -> Explained | NoCall:
        """What each layer answers to a call of the tool `name`, in `mode` in place of the session's or home's own."""
        found = await self._find(name)
        if isinstance(found, NoCall):
            return found
        tool, withheld = found
        checked = _checked(tool, arguments)
        if isinstance(checked, Invalid):
            return NoCall("arguments", checked.message)
        record = self._context.ledger
        assert isinstance(record, Unrecorded)  # noqa: S101 - `explainer` has put it there
        record.state = record.state.model_copy(update={"mode": mode or self._mode})
        call = gate_call(
            tool, checked, tool.effect_of(checked), self._resident.tool_context(self._context, self._roots, "")
        )
        decision = await self._resident.judge(self._context, self._roots, call)
        if withheld:
            decision = _denied(decision, withheld)
        elif tool is self._stands_for:
            decision = _noted(decision, f"the server {tool.server} was not asked, so this counts as a writer")
        return _explained(decision)

    async def _find(self, name: str) -> tuple[Tool, str] | NoCall:
        """The tool, and why this agent is not offered it, "" if it is."""
        context, servers = self._context, self._whole.tools.mcp_servers
        stands_for = self._stands_for
        if stands_for is None or stands_for.name != name:
            stands_for = unconnected_tool(name, servers)
        if stands_for is not None and stands_for is not self._stands_for:
            self._stands_for = stands_for
            await self._resident.look(context, self._pinned, self._whole, (stands_for,))
        found = context.toolbox.find(name)
        if isinstance(found, Tool):
            return found, "" if found is not stands_for else self._kept_out(found)
        every = {tool.name: tool for tool in self._resident.every_tool(context)}
        tool = every.get(name) or stands_for
        if tool is None and name in BUILT_IN_TOOLS:
            tool = absent_tool(name)
        if tool is None:
            near = near_names(name, tuple(one.name for one in context.toolbox.tools))
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            return NoCall("tool", f"there is no tool named {name[:80]!r}{hint}")
        return tool, self._why_not(tool)

    def _why_not(self, tool: Tool) -> str:
        """Why a tool that there is is not on offer."""
        context = self._context
        if denied_whole(context.rules, tool):
            return ""  # the rules say so themselves
        if tool.kind == "script" and not self._resident.trusted(self._whole):
            return f"{tool.name} is not offered: this home is not trusted, so its scripts stay out"
        if tool.name not in context.permitted and tool.name in {one.name for one in self._resident.every_tool(context)}:
            return f"{tool.name} is not offered: the header's `tools` or `disallowedTools` leave it out"
        return f"{tool.name} is not offered to this agent as it stands"

    def _kept_out(self, tool: Tool) -> str:
        server = self._whole.tools.mcp_servers[tool.server or ""]
        if needs_trust(server) and not self._resident.trusted(self._whole):
            return f"{tool.name} is not offered: this home is not trusted, so the server {tool.server} stays out"
        return ""


async def explainer(
    resident: Resident, session_id: str | None = None, mode: Mode | None = None, subagents: Sequence[str] = ()
) -> Explainer:
    """What explains calls of the home's agent: in that session, or in a new one; `mode` as with `explain`.

    `subagents` leads from that session's agent down to the one that is meant, each a delegate of the one before. Raises
    `SessionNotFound`, `UsageError` for a subagent that the home does not have, `HistoryError`, `StorageError`.
    """
    asked = resident.hooks
    resident = replace(resident, hooks=(_named(asked),) if asked else (), classify=_would_be_asked)
    states = await anyio.to_thread.run_sync(_line_of, resident.home, session_id)
    states = (*states, *(State(session_id=new_id("ses"), agent_id=name) for name in subagents))
    pinned, whole = await anyio.to_thread.run_sync(resident.read, states[0].user_id)
    context: RunContext | None = None
    for state in states:
        above, context = context, resident.prepare(Unrecorded(state), new_id("run"), Trigger(), Seen())
        if above is not None:
            subagent = helper(whole, state.agent_id)
            if subagent is None:
                known = ", ".join(one.name for one in helpers(whole))
                said = f"the home has no subagent {state.agent_id}"
                raise UsageError(said, where=str(resident.home.path), hint=f"there are: {known}")
            context.above, context.line = above, (*above.line, subagent)
        await resident.look(context, pinned, whole, ())
    assert context is not None  # noqa: S101 - there is at least one state
    roots = await resident.roots_of(context)
    return Explainer(resident, context, pinned, whole, roots, mode or states[-1].mode)


class Unrecorded:
    """Stands for a session's record where nothing is recorded: facts are folded into `state` and forgotten."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.session_id = state.session_id

    def record(self, event: Event) -> Event:
        """Takes a fact into the state."""
        self.state = fold(self.state, event)
        return event

    def flush(self) -> int:
        """There is nothing to write."""
        return self.state.seq

    async def barrier(self, seq: int | None = None) -> int:
        """There is nothing to wait for."""
        return seq or self.state.seq

    async def checkpoint(self) -> None:
        """There is nothing to save."""

    def delta(self, delta: Delta) -> None:
        """Nobody watches."""


def _line_of(home: Home, session_id: str | None) -> tuple[State, ...]:
    """How the session stands, after those above it, the main agent's first; a new one if None is given. Blocks."""
    if session_id is None:
        return (State(session_id=new_id("ses"), agent_id="main"),)
    line: list[State] = []
    wanted: str | None = check_id(session_id, "ses")
    while wanted is not None and wanted not in {state.session_id for state in line}:
        agent_id = home.agent_of(wanted)
        if agent_id is None:
            hint = f"list them with: harnessd sessions {home.name}"
            raise SessionNotFound(f"there is no session {wanted}", where=str(home.path), hint=hint)
        state = peek(home.journal(agent_id, wanted), home.checkpoint(agent_id, wanted))
        line.insert(0, state.model_copy(update={"session_id": wanted, "agent_id": agent_id}))
        wanted = state.parent.session_id if state.parent is not None else None
    return tuple(line)


def _named(hooks: Sequence[Hook]) -> Hook:
    """In place of the operator's programs: which of them would be asked about a call."""

    async def hook(call: GateCall) -> LayerAnswer:
        programs = [one for one in hooks if isinstance(one, ProgramHook)]
        names = ", ".join(one.name for one in programs if one.concerns(call))
        reason = f"would be asked: {names}; it may deny or ask" if names else "none of the programs is for this tool"
        return LayerAnswer(layer="hooks", verdict="none", reason=reason)

    return hook


async def _would_be_asked(context: RunContext, tool_call_id: str, seen: ClassifierInput) -> LayerAnswer:
    reason = "the classifier would be asked, and decide"
    return LayerAnswer(layer="classifier", verdict="ask", reason=reason)


def _checked(tool: Tool, arguments: JsonObject | str) -> JsonObject | Invalid:
    check = tool.check
    if isinstance(check, BadSchema):
        return Invalid(f"{tool.name} cannot be called: {check.reason}", line=0)
    if isinstance(arguments, str):
        return parse_arguments(arguments, check, takes_none=takes_no_arguments(tool.input_schema))
    return check_arguments(arguments, check)


def _denied(decision: Decision, reason: str) -> Decision:
    """The decision about a tool that is not on offer: there is nothing that could be called."""
    rules = LayerAnswer(layer="rules", verdict="deny", reason=reason)
    if decision.answers[0].verdict == "deny":
        return decision
    return settle((rules, *decision.answers[1:]))


def _noted(decision: Decision, note: str) -> Decision:
    """The decision with a remark on what the mode could not know."""
    answers = tuple(
        one.model_copy(update={"reason": f"{one.reason} ({note})"}) if one.layer == "mode" else one
        for one in decision.answers
    )
    reason = f"{decision.reason} ({note})" if decision.layer == "mode" else decision.reason
    return decision.model_copy(update={"answers": answers, "reason": reason})


def _explained(decision: Decision) -> Explained:
    said = "would be asked" if decision.verdict == "ask" else "need not be asked"
    layers = tuple(
        one.model_copy(update={"reason": said}) if one.layer == "person" else one for one in decision.answers
    )
    return Explained(decision=decision.verdict, layer=decision.layer, reason=decision.reason, layers=layers)
