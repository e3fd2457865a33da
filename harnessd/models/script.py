"""What a scripted model is told to say: answers, refusals, silence, and every way of failing in between."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harnessd.facts.message import JsonObject


@dataclass(frozen=True)
class Call:
    """A tool call of an answer. `index` None counts on; give it, and any `id`, to number calls badly."""

    name: str
    arguments: str | JsonObject = "{}"
    id: str | None = None
    index: int | None = None


@dataclass(frozen=True)
class Answer:
    """A reply. `piece` is the number of characters in each delta (0: all in one).

    `ends`: `whole`, `cut` (the connection breaks after `after` deltas), `short` (the stream ends cleanly, but
    without a finish), `hang` (nothing more comes until the client leaves or `release` is set), `garbage`
    (what comes next is no JSON), `error` (an error event comes next). `usage` is (input, output, cached)
    tokens, or None to report none. `release` is waited for before anything but the headers is sent;
    `latency_s` too (benchmarks). `raw` replaces the deltas by events of one's own.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str | None = None
    usage: tuple[int, int, int] | None = (11, 7, 3)
    piece: int = 0
    ends: Literal["whole", "cut", "short", "hang", "garbage", "error"] = "whole"
    after: int = 1
    error: str = "the server had an error"
    release: asyncio.Event | None = None
    latency_s: float = 0.0
    raw: tuple[bytes, ...] | None = None
    done: bool = True


@dataclass(frozen=True)
class Refusal:
    """An error instead of a reply: a status, a body and headers."""

    status: int
    body: str | JsonObject = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Silence:
    """Not even headers come, until the client leaves or the server ends."""


@dataclass(frozen=True)
class Page:
    """A whole answer with status 200 that is no stream."""

    body: str | JsonObject
    content_type: str = "application/json"


ScriptedReply = Answer | Refusal | Silence | Page


@dataclass(frozen=True)
class Request:
    """What the server was sent: the wire it came by, the body as JSON, its bytes, the headers."""

    wire: Literal["openai", "anthropic"]
    body: JsonObject
    raw: bytes
    headers: dict[str, str]


Script = Sequence[ScriptedReply] | Callable[[Request], ScriptedReply]
