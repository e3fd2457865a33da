"""What the model reads and says: messages, their parts, tool calls and results.

These shapes stay on users' disks for ever. A message is one of three, told apart by `role`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from harnessd.facts.base import Record

Origin = Literal["user", "agent", "local", "remote"]
"""Where a text came from, highest first: the person, the agent, a local tool, anything remote."""

ORIGINS: tuple[Origin, ...] = ("user", "agent", "local", "remote")

CallStatus = Literal["ok", "error", "invalid", "denied", "cancelled", "timeout", "outcome_unknown"]


def lowest_origin(*origins: Origin) -> Origin:
    """The least trusted of the origins; `user` if there is none."""
    return max(origins, key=ORIGINS.index, default="user")


class TextPart(Record):
    """Plain text or markdown."""

    type: Literal["text"] = "text"
    text: str = ""


class ImagePart(Record):
    """A picture: `content_ref` is a path below the home (an artifact), or a `data:` URL."""

    type: Literal["image"] = "image"
    media_type: str = "image/png"
    content_ref: str = ""


class FilePart(Record):
    """A reference to a file: its path, media type and size in bytes."""

    type: Literal["file"] = "file"
    path: str = ""
    media_type: str = "application/octet-stream"
    size: int = 0
    content_ref: str = ""


Part = Annotated[TextPart | ImagePart | FilePart, Field(discriminator="type")]


class ToolCall(Record):
    """One request of the model for a tool; `arguments` is the text as the model wrote it, valid JSON or not."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class UserMessage(Record):
    """What enters from outside the model: a person's input, the harness's note, or a compaction's summary."""

    role: Literal["user"] = "user"
    id: str = ""
    kind: Literal["input", "note", "summary"] = "input"
    parts: tuple[Part, ...] = ()
    origin: Origin = "user"


class AssistantMessage(Record):
    """What the model said and which tools it asked for. `finish` is the provider's reason, normalised."""

    role: Literal["assistant"] = "assistant"
    id: str = ""
    parts: tuple[Part, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "tool_calls", "length", "content_filter", "cut_off"] = "stop"
    model: str = ""


class ToolMessage(Record):
    """The one result of the tool call `tool_call_id`."""

    role: Literal["tool"] = "tool"
    id: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    status: CallStatus = "ok"
    parts: tuple[Part, ...] = ()
    origin: Origin = "local"


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def text_of(message: UserMessage | AssistantMessage | ToolMessage) -> str:
    """The message's text parts, joined by blank lines."""
    return "\n\n".join(part.text for part in message.parts if isinstance(part, TextPart))


class Usage(Record):
    """What was spent. Tokens are the provider's count unless `estimated`; `cost` is in US dollars.

    `input_tokens` includes `cached_tokens` (read from the provider's cache) and `cache_write_tokens` (put into it,
    which some providers charge more for); `output_tokens` includes reasoning. `cost` is None when the
    model's price is not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    estimated: bool = False

    def __add__(self, other: "Usage") -> "Usage":
        """The sum; a known cost is not lost because another is unknown."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost=sum(costs) if costs else None,
            estimated=self.estimated or other.estimated,
        )


JsonObject = dict[str, Any]
"""A JSON object whose shape is somebody else's (tool arguments, a client's scene, a foreign schema)."""
