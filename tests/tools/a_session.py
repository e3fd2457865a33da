"""What the tests of tools stand on: a session's record in memory, a home with its door, a context."""

import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harnessd.facts.event import Delta, Event, MessageCreated, RunStarted, TurnStarted
from harnessd.facts.fold import fold
from harnessd.facts.message import AssistantMessage, JsonObject, ToolCall
from harnessd.facts.run import Decision, LayerAnswer
from harnessd.facts.state import OpenCall, State
from harnessd.home.change import Entries
from harnessd.home.definition import Definition
from harnessd.home.document import read_document
from harnessd.home.door import Author, Cause, Door
from harnessd.home.layout import Home
from harnessd.home.memory import NoSuchEntry, add_entry, remove_entry
from harnessd.home.skills import Skill
from harnessd.home.tiers import tier_of
from harnessd.home.validity import invalid
from harnessd.permissions.call import GateCall
from harnessd.permissions.paths import find_roots
from harnessd.tools.pipeline import Done, TurnScope, Waiting, run_calls
from harnessd.tools.seen import Seen
from harnessd.tools.tool import Outcome, Preview, Tool, ToolContext, succeeded
from harnessd.tools.toolbox import Toolbox

TURN = TurnScope(run_id="run_1", turn_id="turn_1", message_id="msg_1")


@dataclass
class Memory:
    """A record in memory that says in `order` when something was made durable."""

    state: State = field(default_factory=State)
    events: list[Event] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)

    def record(self, event: Event) -> Event:
        stamped = event.model_copy(update={"seq": self.state.seq + 1, "session_id": "ses_1", "agent_id": "main"})
        self.state = fold(self.state, stamped)
        self.events.append(stamped)
        self.order.append(stamped.type)
        return stamped

    async def barrier(self) -> int:
        self.order.append("barrier")
        return self.state.seq

    def delta(self, delta: Delta) -> None:
        self.deltas.append(delta)

    @property
    def calls(self) -> tuple[OpenCall, ...]:
        assert self.state.active_run is not None
        return self.state.active_run.calls

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.type == kind]

    def statuses(self) -> list[str]:
        return [event.status for event in self.of("tool.call.completed")]  # type: ignore[attr-defined]


def a_turn(*calls: ToolCall) -> Memory:
    """A session whose model has just asked for these calls."""
    memory = Memory()
    memory.record(RunStarted(run_id="run_1"))
    memory.record(TurnStarted(run_id="run_1", turn_id="turn_1", number=1))
    memory.record(MessageCreated(message=AssistantMessage(id="msg_1", tool_calls=calls)))
    return memory


def a_call(name: str, arguments: str = "{}", id: str = "") -> ToolCall:  # noqa: A002
    return ToolCall(id=id or f"call_{name}", name=name, arguments=arguments)


def a_tool(
    name: str, run: Callable[[ToolContext, JsonObject], Awaitable[Outcome]] | None = None, **marks: object
) -> Tool:
    async def echo(context: ToolContext, arguments: JsonObject) -> Outcome:
        return succeeded(f"{name} ran", changed=True)

    schema = marks.pop("input_schema", {"type": "object", "properties": {"x": {"type": "integer"}}})
    return Tool(name, name, "builtin", f"does {name}", schema, run or echo, **marks)  # type: ignore[arg-type]


async def allow(call: GateCall) -> Decision:
    return Decision(verdict="allow", layer="mode", reason="readers run")


async def deny(call: GateCall) -> Decision:
    return Decision(verdict="deny", layer="rules", reason="the home says no", rule=call.tool)


async def ask(call: GateCall) -> Decision:
    answer = LayerAnswer(layer="mode", verdict="ask", reason="writers ask")
    return Decision(verdict="ask", layer="mode", reason="writers ask", answers=(answer,))


def a_home(path: Path, files: dict[str, str | bytes] | None = None) -> Home:
    """A home under git with these files committed."""
    home = Home(path / "ada")
    (home.path / "work").mkdir(parents=True)
    (home.path / "agents").mkdir()
    for name, content in ({"AGENTS.md": "# Ada\n", ".gitignore": "/agents/\n/work/\n"} | (files or {})).items():
        place = home.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    git = partial(subprocess.run, cwd=home.path, check=True, capture_output=True)
    git(["git", "init", "-q", "-b", "main"])
    git(["git", "-c", "user.name=t", "-c", "user.email=t@t", "add", "-A"])
    git(["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "begin"])
    return home


def a_door(home: Home) -> Door:
    def remove(text: str, match: str) -> str | None:
        done = remove_entry(text, match)
        return None if isinstance(done, NoSuchEntry) else done

    def check(path: str, new: bytes, committed: bytes | None) -> list[object]:
        problem = invalid(path, new, committed)
        return [problem] if problem else []

    return Door(home, check=check, entries=Entries(add=add_entry, remove=remove))  # type: ignore[arg-type]


def a_context(home: Home, *, skills: tuple[Skill, ...] = (), workdirs: tuple[str, ...] = ()) -> ToolContext:
    def tier(path: str) -> str | None:
        return tier_of(path, None)

    return ToolContext(
        home=home,
        session_id="ses_1",
        agent_id="main",
        run_id="run_1",
        turn_id="turn_1",
        call_id="",
        author=Author(kind="agent", name="ada", email="ada@agents"),
        cause=Cause(agent="main", session="ses_1", run="run_1"),
        door=a_door(home),
        roots=find_roots(home.path, tier, workdirs=workdirs),  # type: ignore[arg-type]
        definition=Definition(agents=read_document(b"", "AGENTS.md"), skills=skills),
        seen=Seen(),
        origin="agent",
    )


def no_context(call: OpenCall) -> ToolContext:
    """For tools that look at nothing of it."""
    home = Home(Path("/nowhere"))
    return ToolContext(
        home=home,
        session_id="ses_1",
        agent_id="main",
        run_id="run_1",
        turn_id="turn_1",
        call_id=call.call.id,
        author=Author(),
        cause=Cause(),
        door=a_door(home),
        roots=find_roots(home.path, lambda _: None),
        definition=Definition(agents=read_document(b"", "AGENTS.md")),
        seen=Seen(),
    )


async def run(memory: Memory, *tools: Tool, **options: object) -> Done | Waiting:
    """Takes the turn's calls through the pipeline as they stand."""
    settings: dict[str, object] = {"decide": allow, "context_for": no_context} | options
    return await run_calls(memory, TURN, memory.calls, toolbox=Toolbox(tools), **settings)  # type: ignore[arg-type]


async def use(tool: Tool, context: ToolContext, **arguments: object) -> Outcome:
    """Runs a tool on the targets that it names itself, as the pipeline does once the gate agreed."""
    decided = context.decided(tool.targets(context, arguments), approved=False, base=None)
    if context.approved:
        shown = tool.preview(decided, arguments)
        base = shown.base if isinstance(shown, Preview) else None
        decided = decided.decided(decided.targets, approved=True, base=base)
    return await tool.run(decided, arguments)


def text(outcome: Outcome) -> str:
    return "".join(getattr(part, "text", "") for part in outcome.parts)
