"""What a lane yields: text, reasoning, tool calls, usage, the end, or a failure. One closed union."""

from dataclasses import dataclass
from typing import Literal

from harnessd.facts.message import Usage

FailureKind = Literal[
    "rate_limit",
    "overloaded",
    "server_error",
    "timeout",
    "unreachable",
    "cut_off",
    "malformed",
    "empty",
    "content_filter",
    "context_overflow",
    "auth",
    "payment",
    "unknown_model",
    "bad_request",
    "cancelled",
]

PASSING: frozenset[FailureKind] = frozenset(
    {"rate_limit", "overloaded", "server_error", "timeout", "unreachable", "cut_off", "malformed", "empty"}
)
"""Kinds that may go away by themselves: the same request can be sent again."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of what the model shows of its thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of a tool call.

    From a lane, `index` and `id` are the provider's (None and "" when missing). From the assembler, `index`
    counts the calls of this reply from 0 and `id` is ours.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The provider's count of tokens; the last report of a stream stands."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Finished:
    """The provider said that the reply is complete. `reason` is its own word for it."""

    reason: str
    model: str = ""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """Why there is no reply, as a value. `partial_text` is what had arrived; `usage` what it may have cost.

    `hint` is the way out where this failure knows one of its own (else see `failure.way_out`). `retry_after_s` is
    the provider's own wish in seconds; `status` its HTTP status, if there was one.
    """

    kind: FailureKind
    message: str
    retry_after_s: float | None = None
    status: int | None = None
    partial_text: str = ""
    usage: Usage | None = None
    hint: str = ""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in PASSING


Chunk = TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | Finished | ModelFailure

Delta = TextDelta | ReasoningDelta | ToolCallDelta
"""What the assembler gives to be published while the reply grows."""
