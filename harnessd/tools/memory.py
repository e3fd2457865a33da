"""How the agent keeps a fact beyond the session, and drops one: `remember` and `forget`."""

from harnessd.facts.message import JsonObject
from harnessd.home.change import ANY, AppendEntry, Change, RemoveEntry
from harnessd.home.layout import MEMORY
from harnessd.permissions.call import Target
from harnessd.permissions.paths import resolve_target
from harnessd.tools.doorway import commit_change, preview_change
from harnessd.tools.tool import Outcome, Preview, Tool, ToolContext

_TEXT = {"type": "string", "minLength": 1, "maxLength": 2000}


def memory_tools() -> tuple[Tool, ...]:
    """`remember` and `forget`; in a user's session both mean what is known of that user."""
    remember = Tool(
        name="remember",
        own_name="remember",
        kind="builtin",
        description=(
            "Keep one fact for later sessions: short, true without this conversation, and not to be found in the "
            "files. Use it when the user tells something that will matter again, or asks for it; not for the state of "
            "the present task. `heading` is the section of the memory it belongs to."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "text": {**_TEXT, "description": "one sentence, e.g. Bo's tea is green, without sugar"},
                "heading": {"type": "string", "minLength": 1, "maxLength": 200, "description": "e.g. Preferences"},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        run=_remember,
        targets=_memory,
        preview=_preview_remember,
    )
    forget = Tool(
        name="forget",
        own_name="forget",
        kind="builtin",
        description=(
            "Remove one fact from memory: give its text, or a part of it that no other fact has. Use it when a fact is "
            "wrong or outdated, or the user asks for it; not to make room."
        ),
        input_schema={
            "type": "object",
            "properties": {"text": {**_TEXT, "description": "of the fact, e.g. tea is green"}},
            "required": ["text"],
            "additionalProperties": False,
        },
        run=_forget,
        targets=_memory,
        preview=_preview_forget,
    )
    return remember, forget


async def _remember(context: ToolContext, arguments: JsonObject) -> Outcome:
    return await commit_change(context, _append(context, arguments))


async def _forget(context: ToolContext, arguments: JsonObject) -> Outcome:
    return await commit_change(context, _remove(context, arguments))


def _preview_remember(context: ToolContext, arguments: JsonObject) -> Preview | Outcome:
    return preview_change(context, _append(context, arguments))


def _preview_forget(context: ToolContext, arguments: JsonObject) -> Preview | Outcome:
    return preview_change(context, _remove(context, arguments))


def _memory(context: ToolContext, arguments: JsonObject) -> tuple[Target, ...]:
    return (resolve_target(context.roots, _path(context), "write"),)


def _path(context: ToolContext) -> str:
    return MEMORY if context.user_id is None else f"users/{context.user_id}/{MEMORY}"


def _append(context: ToolContext, arguments: JsonObject) -> Change:
    # One fact is one list item, so it is one line.
    text = " ".join(str(arguments["text"]).split())
    heading = arguments.get("heading")
    return Change(_path(context), AppendEntry(" ".join(str(heading).split()) if heading else None, text), ANY)


def _remove(context: ToolContext, arguments: JsonObject) -> Change:
    return Change(_path(context), RemoveEntry(" ".join(str(arguments["text"]).split())), ANY)
