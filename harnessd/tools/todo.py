"""How the agent keeps its list of things to do: `todo` replaces it."""

from harnessd.facts.event import TodoUpdated
from harnessd.facts.message import JsonObject, TextPart
from harnessd.facts.run import Todo
from harnessd.tools.tool import Outcome, Tool, ToolContext

TODOS_AT_MOST = 100
_SIGNS = {"open": "[ ]", "active": "[>]", "done": "[x]", "dropped": "[-]"}


def todo_tool() -> Tool:
    """`todo`."""
    item = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 500, "description": "e.g. Run the tests"},
            "status": {"enum": list(_SIGNS)},
        },
        "required": ["text", "status"],
        "additionalProperties": False,
    }
    return Tool(
        name="todo",
        own_name="todo",
        kind="builtin",
        description=(
            "Set the list of things to do, whole and in order. Use it for work of several steps, and again whenever "
            "one is done; not for what is one step."
        ),
        input_schema={
            "type": "object",
            "properties": {"todos": {"type": "array", "items": item, "maxItems": TODOS_AT_MOST}},
            "required": ["todos"],
            "additionalProperties": False,
        },
        run=_set,
        effect="read",  # it touches nothing but the session's own record
        idempotent=True,
        timeout=10,
    )


async def _set(context: ToolContext, arguments: JsonObject) -> Outcome:
    todos = tuple(
        Todo(id=f"todo_{number}", text=str(one["text"]), status=one["status"])
        for number, one in enumerate(arguments["todos"], 1)
    )
    text = "\n".join(f"{_SIGNS[todo.status]} {todo.text}" for todo in todos) or "The list is empty."
    return Outcome("ok", (TextPart(text=text),), changed=True, events=(TodoUpdated(todos=todos),))
