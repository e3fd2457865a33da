"""How the agent gets at tools that are not offered from the start: `find_tools` makes them callable."""

import re
from collections.abc import Sequence

from harnessd.facts.event import StateUpdated
from harnessd.facts.message import JsonObject, TextPart
from harnessd.tools.tool import Outcome, Tool, ToolContext, succeeded

FOUND_AT_MOST = 10
NAMED_AT_MOST = 300


def find_tools_tool(rest: Sequence[Tool]) -> Tool:
    """`find_tools` over the tools that are not offered; its description names them."""
    names = [tool.name for tool in rest]
    more = f" and {len(names) - NAMED_AT_MOST:,} more" if len(names) > NAMED_AT_MOST else ""

    async def find(context: ToolContext, arguments: JsonObject) -> Outcome:
        matches = _matches(rest, str(arguments["query"]))
        if not matches:
            return succeeded("No tool matches; try other words, or a name from the list.")
        found = tuple(dict.fromkeys((*context.found, *(tool.name for tool in matches))))
        text = "\n".join(f"- {tool.name}: {tool.description.strip()[:300]}" for tool in matches)
        # The fold knows `toolkit.found` as a part of the state that this event may set.
        event = StateUpdated(patch={"toolkit": {"found": list(found)}})
        return Outcome(
            "ok",
            (TextPart(text=f"From the next turn on you can call:\n{text}"),),
            changed=found != context.found,
            events=(event,) if found != context.found else (),
        )

    return Tool(
        name="find_tools",
        own_name="find_tools",
        kind="builtin",
        description=(
            "Find tools by words or by name and make them callable from the next turn. "
            f"There are: {', '.join(names[:NAMED_AT_MOST])}{more}."
        ),
        input_schema={
            "type": "object",
            "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 500}},
            "required": ["query"],
            "additionalProperties": False,
        },
        run=find,
        effect="read",
        idempotent=True,
        timeout=10,
    )


def _matches(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Those that have most of the words, in their name before their description; a full name alone is enough."""
    exact = [tool for tool in tools if query.strip() in {tool.name, tool.own_name}]
    if exact:
        return exact[:FOUND_AT_MOST]
    words = set(re.findall(r"[a-z0-9]+", query.lower()))
    scored = [(_score(tool, words), tool) for tool in tools]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [tool for _, tool in best[:FOUND_AT_MOST]]


def _score(tool: Tool, words: set[str]) -> int:
    name, description = tool.name.lower(), tool.description.lower()
    return sum(3 if word in name else 1 if word in description else 0 for word in words)
