"""What may an agent do, and what would the gate say about a call? Nothing is run or changed to tell it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import anyio
import click
import orjson

from harnessd.cli.find import find_session
from harnessd.cli.harmless import harmless
from harnessd.cli.lines import Lines
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.daemon.explain import Explained, Explainer, NoCall, explainer
from harnessd.errors import UsageError
from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Mode
from harnessd.permissions.modes import ROW_NAMES, ROWS, TABLE, Cell, Row, under_ceiling

MODES: tuple[Mode, ...] = get_args(Mode)


class _Permissions(click.Group):
    """A group whose first word may be left out: `permissions AGENT` shows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with `show` where no command of the group is named."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else ["show", *args])


@click.group("permissions", cls=_Permissions)
def permissions() -> None:
    """Tell what an agent may do: `permissions AGENT`; or explain one call: `permissions explain AGENT --tool T`.

    Nothing is run, started or changed. Both take `--json`.
    """


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whose calls are meant."""

    agent: str
    session: str | None = None
    mode: Mode | None = None
    subagents: tuple[str, ...] = ()


class Standing(Record):
    """What `permissions AGENT` tells."""

    agent: str
    mode: Mode
    ceiling: Mode
    in_force: tuple[Mode, ...]
    rules: tuple["RuleInForce", ...]
    modes: Mapping[Mode, Mapping[Row, Cell]]


class RuleInForce(Record):
    """One rule, in the order in which sources are asked."""

    source: str
    verdict: str
    rule: str


@permissions.command("show")
@click.argument("agent")
@shared
def show(agent: str, out: Output, flags: Flags) -> int:
    """Show the mode of AGENT, its ceiling, the rules in force with where they come from, and what each mode means."""
    return anyio.run(_show, load_settings(flags), agent, out)


@permissions.command("explain")
@click.argument("agent")
@click.option("--tool", metavar="T", help="The tool, by the name under which it is offered.")
@click.option("--arguments", metavar="JSON", default="{}", help="The arguments of the call, an object.")
@click.option("--mode", type=click.Choice(MODES), help="In place of the mode of the session or the home.")
@click.option("--session", metavar="ID", help='A session as it stands; "last" is the latest. Else a new one.')
@click.option("--subagent", metavar="NAME", help="Calls by that subagent, as a delegate of the agent.")
@click.option("--batch", is_flag=True, help="Read a call a line from standard input, answer a line each, as JSON.")
@shared
def explain(
    agent: str,
    tool: str | None,
    arguments: str,
    mode: Mode | None,
    session: str | None,
    subagent: str | None,
    batch: bool,
    out: Output,
    flags: Flags,
) -> int:
    """Tell what each of the six layers of the gate answers to a call by AGENT, and which of them decides.

    The operator's programs and the classifier are not asked, only named; servers are not connected to, so what their
    tools do is not known. The exit code is 0 whatever the decision. A line of --batch is
    {"tool": …, "arguments": {…}, "mode": …}.
    """
    if batch == (tool is not None):
        raise UsageError("give either --tool or --batch", hint='--tool read --arguments \'{"path": "AGENTS.md"}\'')
    asked = _Asked(agent, session, mode, (subagent,) if subagent else ())
    return anyio.run(_explain, load_settings(flags), asked, tool, arguments, out)


async def _show(settings: Settings, agent: str, out: Output) -> int:
    async with Runtime.open(settings, only_looks=True) as runtime:
        known = await _explainer(runtime, _Asked(agent))
        context, ceiling = known.context, settings.ceiling.mode
        rules = tuple(
            RuleInForce(source=one.source, verdict=verdict, rule=rule)
            for one in context.rules
            for verdict in ("deny", "ask", "allow", "only")
            for rule in getattr(one, verdict)
        )
        standing = Standing(
            agent=context.home.name,
            mode=context.asked_mode,
            ceiling=ceiling,
            in_force=under_ceiling(context.asked_mode, ceiling),
            rules=rules,
            modes=TABLE,
        )
    if out.as_json:
        out.record(standing)
    else:
        _tell_standing(standing, out)
    return 0


def _tell_standing(standing: Standing, out: Output) -> None:
    style = out.style
    under = "" if standing.in_force == (standing.mode,) else f", so {' and '.join(standing.in_force)} counts"
    out.line(f"{style.bold(harmless(standing.agent))}: mode {standing.mode}, ceiling {standing.ceiling}{under}")
    out.line()
    out.line(style.bold("rules") + ("" if standing.rules else "  none"))
    for one in standing.rules:
        out.line(f"  {one.verdict.ljust(6)}{harmless(one.rule)}  {style.dim(one.source)}")
    out.line()
    wide = max(map(len, ROW_NAMES.values())) + 2
    out.line(style.bold("modes".ljust(wide)) + "".join(mode.ljust(_width(mode)) for mode in MODES).rstrip())
    for row in ROWS:
        cells = "".join(TABLE[mode][row].replace("_", " ").ljust(_width(mode)) for mode in MODES)
        out.line(ROW_NAMES[row].ljust(wide) + cells.rstrip())


def _width(mode: Mode) -> int:
    return max(len(mode), *(len(cell) for cell in TABLE[mode].values())) + 2


async def _explain(settings: Settings, asked: _Asked, tool: str | None, arguments: str, out: Output) -> int:
    async with Runtime.open(settings, only_looks=True) as runtime:
        known = await _explainer(runtime, asked)
        if tool is None:
            await _batch(known, out)
            return 0
        answer = await known.explain(tool, arguments)
    if isinstance(answer, NoCall):
        raise UsageError(answer.message, where=f"--{answer.part}", hint=f"see: harnessd permissions {asked.agent}")
    if out.as_json:
        out.record(answer)
    else:
        _tell(answer, out)
    return 0


async def _explainer(runtime: Runtime, asked: _Asked) -> Explainer:
    home = runtime.home(asked.agent)
    session = None
    if asked.session is not None:
        session = (await anyio.to_thread.run_sync(find_session, home, asked.session)).session_id
    resident = await anyio.to_thread.run_sync(runtime.resident, home)
    return await explainer(resident, session, asked.mode, asked.subagents)


def _tell(answer: Explained, out: Output) -> None:
    style = out.style
    paint = {"allow": style.good, "deny": style.bad, "ask": style.odd}
    for one in answer.layers:
        decides = "←" if one.layer == answer.layer else " "
        verdict = paint.get(one.verdict, style.dim)(one.verdict.ljust(6))
        out.line(f"{decides} {one.layer.ljust(11)}{verdict}{harmless(one.reason)}")
    out.line(f"{paint[answer.decision](answer.decision)}, by {answer.layer}: {harmless(answer.reason)}")


async def _batch(known: Explainer, out: Output) -> None:
    lines = Lines(sys.stdin.fileno(), out)
    while (line := await lines.next()) is not None:
        out.record(await _answer(known, line))


async def _answer(known: Explainer, line: str) -> Record | JsonObject:
    """The answer to one line; a line that is no call is told by the field that is wrong."""
    try:
        given = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _wrong("line", f"this is no JSON: {error}")
    if not isinstance(given, dict):
        return _wrong("line", 'a line is an object: {"tool": …, "arguments": {…}, "mode": …}')
    tool, arguments, mode = given.get("tool"), given.get("arguments", {}), given.get("mode")
    if not isinstance(tool, str):
        return _wrong("tool", "name the tool")
    if not isinstance(arguments, dict):
        return _wrong("arguments", "the arguments are an object")
    if mode is not None and mode not in MODES:
        return _wrong("mode", f"a mode is one of {', '.join(MODES)}")
    unknown = given.keys() - {"tool", "arguments", "mode"}
    if unknown:
        return _wrong(min(unknown), "there is no such field: a line has tool, arguments, mode")
    answer = await known.explain(tool, arguments, mode)
    return answer if isinstance(answer, Explained) else _wrong(answer.part, answer.message)


def _wrong(field: str, message: str) -> JsonObject:
    return {"error": {"field": field, "message": message}}
