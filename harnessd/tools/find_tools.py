"""How the agent gets at tools that are not offered from the start: `find_tools` makes them callable."""

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

import anyio.to_thread

from harnessd.facts.event import StateUpdated
from harnessd.facts.message import JsonObject, TextPart
from harnessd.tools.ranking import Ranking
from harnessd.tools.tool import Outcome, Tool, ToolContext, succeeded

FOUND_AT_MOST = 10
NAMES_ROOM = 6000
"""Characters of all the names in the description, which every request of the session carries."""

SERVERS_COUNTED = 20


def find_tools_tool(rest: Sequence[Tool]) -> Tool:
    """`find_tools` over the tools that are not offered; its description names them, as many as there is room for."""
    ranking = Ranking(rest)

    async def find(context: ToolContext, arguments: JsonObject) -> Outcome:
        matches = await anyio.to_thread.run_sync(ranking.best, str(arguments["query"]), FOUND_AT_MOST)
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
            "Find tools by words or by name and make them callable from the next turn, for the rest of this session. "
            "Use it when what you were given does not fit the task, before you say that something can't be done; not "
            f"for tools that you have already. There are: {_named(rest)}."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 500,
                    "description": "what the tool should do, e.g. create an issue; or names from the list",
                }
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        run=find,
        effect="read",
        idempotent=True,
        timeout=10,
    )


def _named(tools: Sequence[Tool]) -> str:
    """The names, of each server about as many, and how many more there are of which server."""
    shown, room = set[str](), NAMES_ROOM
    for name in _in_turns(tools):
        room -= len(name) + 2
        if room < 0:
            break
        shown.add(name)
    left = Counter(tool.server or "scripts" for tool in tools if tool.name not in shown)
    text = ", ".join(tool.name for tool in tools if tool.name in shown)
    if not left:
        return text
    counted = [f"{count:,} of {server[:40]}" for server, count in left.most_common(SERVERS_COUNTED)]
    others = sum(left.values()) - sum(count for _, count in left.most_common(SERVERS_COUNTED))
    counted += [f"{others:,} of others"] if others else []
    return f"{text} and {sum(left.values()):,} more ({', '.join(counted)})"


def _in_turns(tools: Sequence[Tool]) -> list[str]:
    """One name of each server, then the next of each; so that a server with thousands does not hide the others."""
    by_server: dict[str, list[str]] = {}
    for tool in tools:
        by_server.setdefault(tool.server or "", []).append(tool.name)
    return [name for row in zip_longest(*by_server.values()) for name in row if name is not None]
