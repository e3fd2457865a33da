"""What is asked of a model: one request, the same for every lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject, Message

Purpose = Literal["chat", "summary", "classifier", "maintenance"]


class ToolSpec(Record):
    """A tool as it is offered: its name, what it does, and the JSON Schema of its arguments."""

    name: str = ""
    description: str = ""
    input_schema: JsonObject = Field(default_factory=dict)


@dataclass(frozen=True)
class ModelRequest:
    """One request. `messages` is valid for any provider: each tool call has its one result next to it.

    `session_id` names the history whose encoded bytes may be reused; `context_note` is volatile text (date,
    workspace facts) that is shown to the model after the last message and is not part of the history.
    `api_base` overrides the address of the provider.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    session_id: str = ""
    purpose: Purpose = "chat"
    api_base: str | None = None
    max_output_tokens: int | None = None
    context_note: str | None = None
