"""Which of a server's tools are offered, and what is said of the others?"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from harnessd.facts.message import JsonObject, Origin
from harnessd.home.hidden import strip_hidden
from harnessd.home.mcp_names import mcp_tool_name
from harnessd.tools.accepted import Judged
from harnessd.tools.arguments import BadSchema, compile_schema
from harnessd.tools.listed import ListedTool
from harnessd.tools.mcp import Listing, Server
from harnessd.tools.tool import Asks, Outcome, Tool, ToolContext

DESCRIPTION_AT_MOST = 4000
CALL_SECONDS = 60.0
REVIEW_SECONDS = 5.0
NAMED_AT_MOST = 5
"""Faults of a list that are told one by one; of the rest only how many."""

Call = Callable[[str, ToolContext, JsonObject, float], Awaitable[Outcome | Asks]]


@dataclass(frozen=True)
class Reviewed:
    """A list that was looked at: which schemas can't be used and why, and how it stands to what was accepted."""

    listing: Listing
    bad: Mapping[str, str]
    judged: Judged


@dataclass(frozen=True)
class Offered:
    """What the home gets of a server: its tools by name, and sentences on what it does not get.

    `held` are tools that say something else than the operator accepted, and are not offered; `new` ones are offered,
    but not believed when they say that they only read.
    """

    tools: tuple[Tool, ...]
    notes: tuple[str, ...]
    held: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def bad_schemas(listing: Listing) -> dict[str, str]:
    """The tools whose schema can't be used, with the reason. Takes a while: call it in a thread."""
    bad: dict[str, str] = {}
    until = time.monotonic() + REVIEW_SECONDS
    for tool in listing.tools:
        if time.monotonic() > until:
            bad[tool.name] = f"checking the schemas of the others took more than {REVIEW_SECONDS:g} s"
        elif isinstance(result := compile_schema(tool.input_schema), BadSchema):
            bad[tool.name] = result.reason
    return bad


def offered(name: str, server: Server, reviewed: Reviewed, call: Call) -> Offered:
    """The tools of the server `name`, each of which runs `call`. One that can't be used is left out and named."""
    listing, judged = reviewed.listing, reviewed.judged
    wanted = None if server.tools is None else set(server.tools)
    faults, tools, seen = list(listing.faults), dict[str, Tool](), set[str]()
    held, new = list[str](), list[str]()
    for tool in listing.tools:
        if wanted is not None and tool.name not in wanted:
            continue
        if tool.name in seen:
            faults.append(f"two tools are named {tool.name[:100]!r}; the first one stands")
            continue
        seen.add(tool.name)
        if tool.name in reviewed.bad:
            faults.append(f"the tool {tool.name[:100]!r} is left out: {reviewed.bad[tool.name]}")
        elif tool.name in judged.changed:
            held.append(tool.name)
        else:
            believed = tool.name not in judged.new
            new += [] if believed else [tool.name]
            one = _tool(name, server, tool, call, believed=believed)
            tools[one.name] = one
    notes = _few(faults)
    if listing.cut:
        notes.append(f"it offers more than {len(listing.tools)} tools; the rest is left out")
    if wanted is not None and wanted - seen:
        notes.append(f"it does not offer {', '.join(sorted(wanted - seen))}")
    shown = tuple(sorted(tools.values(), key=lambda one: one.name))
    return Offered(shown, tuple(notes), held=tuple(held), new=tuple(new))


def _tool(name: str, server: Server, listed: ListedTool, call: Call, *, believed: bool) -> Tool:
    seconds = server.timeout or CALL_SECONDS

    async def run(context: ToolContext, arguments: JsonObject) -> Outcome | Asks:
        return await call(listed.name, context, arguments, seconds)

    return Tool(
        name=mcp_tool_name(name, listed.name),
        own_name=listed.name,
        kind="mcp",
        description=_short(listed.description),
        input_schema=listed.input_schema,
        run=run,
        effect="read" if listed.read_only and believed else "write",
        idempotent=listed.idempotent and believed,
        origin=origin_of(server),
        # The call's own timeout comes first, so that its message says more.
        timeout=seconds + 0.5,
        server=name,
    )


def origin_of(server: Server) -> Origin:
    """Local only if tools.json says so."""
    return "local" if server.trust == "local" else "remote"


def _short(description: str) -> str:
    """A description without characters that only a model sees, and of bounded length."""
    description = strip_hidden(description)
    if len(description) <= DESCRIPTION_AT_MOST:
        return description
    return f"{description[:DESCRIPTION_AT_MOST]} [… {len(description) - DESCRIPTION_AT_MOST:,} characters left out]"


def _few(faults: list[str]) -> list[str]:
    more = len(faults) - NAMED_AT_MOST
    return [*faults[:NAMED_AT_MOST], f"{more} more of its tools are left out"] if more > 1 else faults
