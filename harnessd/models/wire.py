"""How a message looks on the OpenAI chat wire, which both lanes start from.

What the wire cannot carry is said in words, so that any provider accepts the history: arguments that are no
JSON object, names outside `[A-Za-z0-9_-]`, empty texts, files and pictures that are only referred to.
"""

import re
from typing import Any

import orjson

from harnessd.facts.message import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from harnessd.models.request import ToolSpec

WireObject = dict[str, Any]

_BAD_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def wire_message(message: Message) -> WireObject:
    """One message of the history as a chat-completions message."""
    match message:
        case UserMessage():
            return {"role": "user", "content": _user_content(message.parts)}
        case AssistantMessage():
            return _assistant(message)
        case ToolMessage():
            text = _as_text(message.parts) or f"(no output; status: {message.status})"
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}


def wire_user(text: str) -> WireObject:
    """A user message that is not part of the history."""
    return {"role": "user", "content": text}


def wire_system(text: str) -> WireObject:
    """The one system message."""
    return {"role": "system", "content": text}


def wire_tool(tool: ToolSpec) -> WireObject:
    """A tool as a function; the schema is passed on as it is, an empty one as an object without fields."""
    schema = tool.input_schema or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": schema},
    }


def _assistant(message: AssistantMessage) -> WireObject:
    text = _as_text(message.parts)
    if not message.tool_calls:
        return {"role": "assistant", "content": text or "(no answer)"}
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [_call(call) for call in message.tool_calls],
    }


def _call(call: ToolCall) -> WireObject:
    name = _BAD_IN_NAME.sub("_", call.name)[:64] or "unnamed"
    function = {"name": name, "arguments": _object_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _object_text(arguments: str) -> str:
    """The arguments if they are a JSON object, else an object that quotes them (servers parse it)."""
    try:
        if isinstance(orjson.loads(arguments), dict):
            return arguments
    except orjson.JSONDecodeError:
        pass
    return orjson.dumps({"invalid_arguments": arguments}).decode() if arguments.strip() else "{}"


def _user_content(parts: tuple[TextPart | ImagePart | FilePart, ...]) -> str | list[WireObject]:
    if not any(isinstance(part, ImagePart) and part.content_ref.startswith("data:") for part in parts):
        return _as_text(parts) or "(empty message)"
    return [
        {"type": "image_url", "image_url": {"url": part.content_ref}}
        if isinstance(part, ImagePart) and part.content_ref.startswith("data:")
        else {"type": "text", "text": _part_text(part) or " "}
        for part in parts
    ]


def _as_text(parts: tuple[TextPart | ImagePart | FilePart, ...]) -> str:
    return "\n\n".join(text for text in map(_part_text, parts) if text)


def _part_text(part: TextPart | ImagePart | FilePart) -> str:
    match part:
        case TextPart():
            # A lone surrogate cannot be sent as UTF-8.
            return part.text.encode("utf-8", "replace").decode() if not part.text.isascii() else part.text
        case ImagePart():
            where = "inline" if part.content_ref.startswith("data:") else part.content_ref
            return f"[picture, {part.media_type}: {where}]"
        case FilePart():
            return f"[file {part.path}, {part.media_type}, {part.size} bytes]"
