"""How the agent gives a task to another: `delegate` returns what that one concluded, and nothing else of its work."""

import math
from collections.abc import Awaitable, Callable, Sequence

from harnessd.facts.message import JsonObject
from harnessd.home.subagents import Subagent
from harnessd.tools.near import near_names
from harnessd.tools.tool import Outcome, StillOpen, Tool, ToolContext, failed

DELEGATE = "delegate"
NAMED_AT_MOST = 50
LONGEST_TASK = 100_000

Wake = Callable[[ToolContext, Subagent, str], Awaitable[Outcome | StillOpen]]
"""Has the subagent do the task in a session of its own, which is the same one each time the call is run."""


def delegate_tool(helpers: Sequence[Subagent], roles: Sequence[Subagent], wake: Wake) -> Tool:
    """`delegate`, to one of `helpers`; the description tells of `roles`, the prompt of the others.

    The call has no effect of its own: each call of the subagent passes the gate in the subagent's session. It can
    be run again after a crash, since that goes on with the same session. It ends with its run, not after a time.
    """

    async def delegate(context: ToolContext, arguments: JsonObject) -> Outcome | StillOpen:
        name = str(arguments["agent"])
        subagent = next((one for one in helpers if one.name == name), None)
        if subagent is None:
            return failed("not_found", f"There is no subagent named {name[:80]!r}.{_hint(helpers, name)}")
        return await wake(context, subagent, str(arguments["task"]))

    return Tool(
        name=DELEGATE,
        own_name=DELEGATE,
        kind="builtin",
        description=_description(len(helpers) > len(roles), roles),
        input_schema={
            "type": "object",
            "properties": {
                "agent": {"type": "string", "minLength": 1, "description": "the subagent's name"},
                "task": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": LONGEST_TASK,
                    "description": "all that it needs to know, as text; it sees nothing of this conversation",
                },
            },
            "required": ["agent", "task"],
            "additionalProperties": False,
        },
        run=delegate,
        effect="read",
        idempotent=True,
        concurrency_safe=True,
        timeout=math.inf,
    )


def _description(own: bool, roles: Sequence[Subagent]) -> str:
    text = (
        "Give a task to a subagent. It works in a context of its own, with no more rights than you have, and you get "
        "its answer. Use it for work that would fill your own context, or that goes on beside yours; not for what you "
        "can do in a call or two. Ask for several in one turn and they work at the same time."
    )
    if not roles:
        return text
    lead = "Beside the subagents in your prompt there are" if own else "There are"
    return f"{text} {lead}:" + "".join(f"\n- {role.name}: {role.description}" for role in roles)


def _hint(helpers: Sequence[Subagent], wanted: str) -> str:
    names = [one.name for one in helpers]
    near = near_names(wanted, names)
    if near:
        return f" Did you mean {' or '.join(near)}?"
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return f" There are: {', '.join(names[:NAMED_AT_MOST])}{more}."
