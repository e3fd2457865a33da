"""What does a tool call cost: gate and pipeline, the sandbox, readers side by side, an MCP server?

`python -m benchmarks.tools [--json] [--quick]`. Times are medians over rounds; each is set beside the same work done
bare in the same process and run: the function called, the command spawned, the server asked through its client.
"""

import argparse
import asyncio
import gc
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time

import anyio

from benchmarks.homes import make_home
from benchmarks.turns import Row, table
from harnessd.cli.main import LOOKS_FOR_GARBAGE
from harnessd.facts.event import MessageCreated, RunStarted, TurnStarted
from harnessd.facts.message import AssistantMessage, JsonObject, ToolCall
from harnessd.facts.run import Decision
from harnessd.facts.state import OpenCall
from harnessd.home.change import Entries
from harnessd.home.definition import Definition
from harnessd.home.document import read_document
from harnessd.home.door import Author, Cause, Door
from harnessd.home.layout import Home
from harnessd.home.tiers import tier_of
from harnessd.home.tools_file import StdioServer
from harnessd.ids import new_id
from harnessd.journal.committer import Committer
from harnessd.journal.ledger import Ledger
from harnessd.permissions.call import Effect, GateCall
from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.paths import find_roots
from harnessd.permissions.rules import RuleSet
from harnessd.sandbox.bubblewrap import Ran, Sandbox
from harnessd.tools.connection import Surroundings
from harnessd.tools.eras import Eras
from harnessd.tools.files import file_tools
from harnessd.tools.pipeline import TurnScope, run_calls
from harnessd.tools.schedule import TOGETHER_AT_MOST
from harnessd.tools.seen import Seen
from harnessd.tools.servers import open_servers
from harnessd.tools.tool import Outcome, Tool, ToolContext, succeeded
from harnessd.tools.toolbox import Toolbox

SERVER = Path(__file__).with_name("echo_server.py")
A_TURN = 10
"""Calls that one turn of a model asks for."""

WAITS = 0.01
"""Seconds for which a reader of the fifty waits, as for an answer from elsewhere."""


def main() -> int:
    """Prints the table; exit code 1 if a value is worse than wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tools", description="What a tool call costs.")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--quick", action="store_true", help="fewer rounds of fewer calls")
    options = parser.parse_args()
    size = Size(rounds=3, calls=50, spawns=5) if options.quick else Size()
    gc.freeze()  # as the command line does once its modules are loaded
    gc.set_threshold(*LOOKS_FOR_GARBAGE)
    with tempfile.TemporaryDirectory(prefix="harnessd-bench-") as folder:
        rows = asyncio.run(measure(Path(folder).resolve(), size))
    print(json.dumps([asdict(row) for row in rows], indent=2) if options.json else table(rows))
    return int(any(row.missed for row in rows))


@dataclass(frozen=True)
class Size:
    """How often everything is done: rounds of so many calls, and so many commands."""

    rounds: int = 9
    calls: int = 200
    spawns: int = 20


async def measure(folder: Path, size: Size) -> list[Row]:
    """All rows, in a home below `folder`."""
    home = Home(make_home(folder / "home", notes=3))
    async with open_desk(home) as desk:
        return [
            *await gate_and_pipeline(desk, size),
            *await command_lines(desk, size),
            *await fifty_readers(desk, size),
            *await mcp_calls(desk, folder, size),
            *await sandbox_start(home, size),
        ]


async def gate_and_pipeline(desk: "Desk", size: Size) -> list[Row]:
    """A reader that does nothing, and one that reads a small file."""
    nothing, (read, _, _) = _nothing("look"), file_tools()
    arguments: list[JsonObject] = [{"path": f"work/note-{number % 3}.txt"} for number in range(size.calls)]
    empty: list[JsonObject] = [{"n": number} for number in range(size.calls)]
    busy = await median(lambda: desk.through(nothing, empty), size, process_time)
    idle = await median(lambda: desk.through(nothing, empty), size)
    bare = await median(lambda: desk.bare(read, arguments), size)
    full = await median(lambda: desk.through(read, arguments), size)
    return [
        Row("gate and pipeline, per call of a reader: processor time", busy * 1e6, "us", 300.0),
        Row("gate and pipeline, per call of a reader", idle * 1e6, "us"),
        Row("read a small file: the function alone", bare * 1e6, "us"),
        Row("read a small file: through gate and pipeline", full * 1e6, "us"),
        Row("read through gate and pipeline / alone", full / bare, "x"),
    ]


async def command_lines(desk: "Desk", size: Size) -> list[Row]:
    """A command line that nobody has judged before, up to where it would run."""
    if importlib.util.find_spec("harnessd.permissions.shell") is None:
        return []
    effect = _effect_of_line()
    execute = _nothing("execute", {"type": "object", "properties": {"command": {"type": "string"}}}, effect)

    def lines() -> list[JsonObject]:
        return [{"command": f"grep -rn '{new_id('x')}' src | sort | head -20"} for _ in range(size.calls)]

    judged = await median(lambda: desk.through(execute, lines()), size)
    again = lines()
    known = await median(lambda: desk.through(execute, again), size)
    return [
        Row("gate and pipeline, per new command line", judged * 1e6, "us", 1500.0),
        Row("gate and pipeline, per known command line", known * 1e6, "us"),
    ]


async def fifty_readers(desk: "Desk", size: Size) -> list[Row]:
    """Readers that wait for an answer from elsewhere: one after the other, and as many together as may."""

    async def wait(context: ToolContext, arguments: JsonObject) -> Outcome:
        await anyio.sleep(WAITS)
        return succeeded("read")

    reader = _nothing("look", run=wait)
    fifty: list[JsonObject] = [{"n": number} for number in range(50)]
    rounds = Size(min(3, size.rounds), 50)
    serial = await median(lambda: desk.through(reader, fifty, together=1, a_turn=50), rounds)
    together = await median(lambda: desk.through(reader, fifty, a_turn=50), rounds)
    return [
        Row("50 readers that wait 10 ms, one by one", serial * 50_000, "ms"),
        Row(f"50 readers that wait 10 ms, {TOGETHER_AT_MOST} together", together * 50_000, "ms"),
        Row("50 readers: one by one / together", serial / together, "x", 5.0, at_least=True),
    ]


async def mcp_calls(desk: "Desk", folder: Path, size: Size) -> list[Row]:
    """One tool of a server over stdio, through everything and through the library's client alone."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    arguments: list[JsonObject] = [{"n": number} for number in range(size.calls)]
    command = StdioServer(command=sys.executable, args=(str(SERVER),))
    around = Surroundings(Sandbox(desk.context.home.path, machine="as-user"), None, Eras(None))
    async with open_servers(around, logs=folder / "logs") as servers:
        servers.configure({"echo": command})
        await servers.ready(30)
        (echo,) = servers.tools()
        full = await median(lambda: desk.through(echo, arguments), size)
    async with Client(StdioServerParameters(command=sys.executable, args=[str(SERVER)]), mode="legacy") as client:

        async def ask() -> None:
            for one in arguments:
                await client.call_tool("echo", one)

        bare = await median(ask, size)
    return [
        Row("call of an MCP tool: the client alone", bare * 1e6, "us"),
        Row(f"call of an MCP tool: through all, {TOGETHER_AT_MOST} together", full * 1e6, "us"),
        Row("MCP call through all / through the client", full / bare, "x", 3.0),
    ]


async def sandbox_start(home: Home, size: Size) -> list[Row]:
    """`true` as `execute` would run it, beside `true` spawned as it is."""
    sandbox = Sandbox(home.path)
    first = await sandbox.run(["true"], seconds=30)
    if not isinstance(first, Ran):
        print(f"no sandbox to measure: {first}", file=sys.stderr)
        return []
    spawns = Size(1, 1)
    bare, full = [], []
    for _ in range(size.spawns):  # by turns, so that what else the machine does falls on both
        bare.append(await median(lambda: anyio.run_process(["true"]), spawns))
        full.append(await median(lambda: sandbox.run(["true"], seconds=30), spawns))
    plain, boxed = statistics.median(bare), statistics.median(full)
    return [
        Row("start and end a command: plain", plain * 1000, "ms"),
        Row("start and end a command: in the sandbox", boxed * 1000, "ms", 100.0),
        Row("command in the sandbox / plain", boxed / plain, "x"),
    ]


async def median(work: Callable[[], Awaitable[object]], size: Size, clock: Callable[[], float] = perf_counter) -> float:
    """Seconds per call of `work`, which makes `size.calls` of them; one more before, to warm up."""
    if size.rounds > 1:
        await work()
    seconds = []
    for _ in range(size.rounds):
        begun = clock()
        await work()
        seconds.append(clock() - begun)
    return statistics.median(seconds) / size.calls


@dataclass(frozen=True)
class Desk:
    """A session with its record on disk, as a turn finds it."""

    ledger: Ledger
    context: ToolContext
    gate: GateContext

    async def through(
        self, tool: Tool, arguments: Sequence[JsonObject], together: int = TOGETHER_AT_MOST, a_turn: int = A_TURN
    ) -> None:
        """Runs of one turn, which asks for `a_turn` of these calls."""
        for first in range(0, len(arguments), a_turn):
            await self._turn(tool, arguments[first : first + a_turn], together)

    async def _turn(self, tool: Tool, arguments: Sequence[JsonObject], together: int) -> None:
        turn = TurnScope(new_id("run"), new_id("turn"), new_id("msg"))
        calls = tuple(ToolCall(id=new_id("call"), name=tool.name, arguments=json.dumps(one)) for one in arguments)
        self.ledger.record(RunStarted(run_id=turn.run_id))
        self.ledger.record(TurnStarted(run_id=turn.run_id, turn_id=turn.turn_id, number=1))
        self.ledger.record(MessageCreated(message=AssistantMessage(id=turn.message_id, tool_calls=calls)))
        run = self.ledger.state.active_run
        if run is None:
            raise RuntimeError("the run was not folded")
        box = Toolbox((tool,))
        await run_calls(
            self.ledger,
            turn,
            run.calls,
            toolbox=box,
            decide=self.decide,
            context_for=self.context_for,
            together=together,
        )
        statuses = {entry.status for entry in self.ledger.state.active_run.calls}  # type: ignore[union-attr]
        if statuses != {"finished"}:
            raise RuntimeError(f"calls of {tool.name} were left {statuses}")

    async def bare(self, tool: Tool, arguments: Sequence[JsonObject]) -> None:
        """The tool's function alone, on the targets that it names."""
        for one in arguments:
            await tool.run(self.context.decided(tool.targets(self.context, one), approved=False, base=None), one)

    async def decide(self, call: GateCall) -> Decision:
        """The whole gate, in the mode that most runs have."""
        return await decide(call, self.gate)

    def context_for(self, call: OpenCall) -> ToolContext:
        """The same for all: nothing of it hangs on the call."""
        return self.context


@asynccontextmanager
async def open_desk(home: Home) -> AsyncIterator[Desk]:
    """A session in `home`, opened for as long as the block runs."""
    committer, place = Committer(), home.path / "agents/main"
    ledger = await Ledger.open(
        place / "sessions/ses_1.jsonl",
        place / "context/ses_1/state.json",
        session_id="ses_1",
        agent_id="main",
        committer=committer,
    )
    entries = Entries(add=lambda text, entry, heading: text, remove=lambda text, match: None)
    context = ToolContext(
        home=home,
        session_id="ses_1",
        agent_id="main",
        run_id="run_1",
        turn_id="turn_1",
        call_id="",
        author=Author(),
        cause=Cause(),
        door=Door(home, check=lambda path, new, committed: [], entries=entries),
        roots=find_roots(home.path, lambda path: tier_of(path, None)),
        definition=Definition(agents=read_document(b"", "AGENTS.md")),
        seen=Seen(),
        origin="agent",
    )
    rules = RuleSet(source="home", allow=("mcp__*", "execute(git status:*)"), deny=("write(secrets/**)",))
    try:
        yield Desk(ledger, context, GateContext(rules=(rules,)))
    finally:
        await ledger.close()
        committer.close()


def _nothing(
    name: str,
    schema: JsonObject | None = None,
    effect_for: Callable[[JsonObject], Effect] | None = None,
    run: Callable[[ToolContext, JsonObject], Awaitable[Outcome]] | None = None,
) -> Tool:
    async def done(context: ToolContext, arguments: JsonObject) -> Outcome:
        return succeeded("done")

    schema = schema or {"type": "object", "properties": {"n": {"type": "integer"}}}
    return Tool(name, name, "builtin", name, schema, run or done, effect="read", effect_for=effect_for)


def _effect_of_line() -> Callable[[JsonObject], Effect]:
    """The mark of a command line, by the judge of shell lines."""
    shell = importlib.import_module("harnessd.permissions.shell")
    return lambda arguments: "read" if shell.judge(arguments["command"]).level == "reads" else "write"


if __name__ == "__main__":
    sys.exit(main())
