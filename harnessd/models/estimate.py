"""How many tokens a text has, roughly, when nobody counted: four characters each."""

import orjson

from harnessd.facts.message import AssistantMessage, Message, TextPart
from harnessd.models.request import ModelRequest

_CHARS_PER_TOKEN = 4
_IMAGE_TOKENS = 1_000
_REFERENCE_CHARS = 150


def estimate_text(chars: int) -> int:
    """Tokens of a text of that many characters, rounded up."""
    return -(-chars // _CHARS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Tokens of one message; a picture counts as a thousand, what is only referred to as the words that say so."""
    chars, pictures = 0, 0
    for part in message.parts:
        if isinstance(part, TextPart):
            chars += len(part.text)
        elif part.content_ref.startswith("data:"):
            pictures += 1
        else:
            chars += _REFERENCE_CHARS
    if isinstance(message, AssistantMessage):
        chars += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return estimate_text(chars) + pictures * _IMAGE_TOKENS


def estimate_request(request: ModelRequest) -> int:
    """Tokens of the whole request: system text, tools, messages, note."""
    tools = sum(len(tool.name) + len(tool.description) + len(orjson.dumps(tool.input_schema)) for tool in request.tools)
    fixed = len(request.system) + tools + len(request.context_note or "")
    return estimate_text(fixed) + sum(map(estimate_message, request.messages))
