"""How pieces become a reply: one pure assembler for every lane.

Providers number tool calls badly, so: the key of a call is its index; a new non-empty id on a used index
starts a new call; so does a second name once the arguments so far are complete. Ids are always ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import orjson

from harnessd.facts.message import ToolCall, Usage
from harnessd.ids import new_id
from harnessd.models.chunk import (
    Chunk,
    Delta,
    Finished,
    ModelFailure,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from harnessd.models.estimate import estimate_request, estimate_text
from harnessd.models.request import ModelRequest

Finish = Literal["stop", "tool_calls", "length", "content_filter"]

_FINISH: dict[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "safety": "content_filter",
    "refusal": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
}


@dataclass(frozen=True)
class Reply:
    """What the model answered. With `finish` "length" the last call's arguments may be incomplete."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish: Finish
    usage: Usage
    model: str


def no_price(usage: Usage, model: str) -> float | None:
    """For models whose price nobody knows."""
    del usage, model
    return None


class Assembler:
    """Collects the chunks of one stream: `feed` each, then `finish` once."""

    def __init__(
        self,
        request: ModelRequest,
        *,
        price: Callable[[Usage, str], float | None] = no_price,
        new_call_id: Callable[[], str] = lambda: new_id("call"),
    ) -> None:
        self._request = request
        self._price = price
        self._new_call_id = new_call_id
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._current: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._finished: Finished | None = None
        self._failure: ModelFailure | None = None

    def feed(self, chunk: Chunk) -> tuple[Delta, ...]:
        """Take one chunk; returns what there is to publish, tool calls under our own index and id."""
        match chunk:
            case TextDelta(text):
                self._text.append(text)
                return (chunk,) if text else ()
            case ReasoningDelta(text):
                self._reasoning.append(text)
                return (chunk,) if text else ()
            case ToolCallDelta():
                return self._feed_call(chunk)
            case UsageReport(usage):
                self._usage = usage
            case Finished():
                self._finished = chunk
            case ModelFailure():
                self._failure = self._failure or chunk
        return ()

    @property
    def started(self) -> bool:
        """Whether anything of the reply has arrived."""
        return bool(self._text or self._reasoning or self._calls)

    def finish(self) -> Reply | ModelFailure:
        """The reply, or why there is none: the lane's failure, `cut_off`, `content_filter` or `empty`."""
        text = "".join(self._text)
        calls = tuple(ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in self._calls)
        if self._failure is not None:
            return self._fail(self._failure, text)
        if self._finished is None:
            return self._fail(ModelFailure("cut_off", "the stream ended before the reply was complete"), text)
        finish = _FINISH.get(self._finished.reason.lower(), "stop")
        if finish == "content_filter":
            return self._fail(ModelFailure("content_filter", "the provider withheld the answer"), text)
        if not text.strip() and not calls:
            said = "used all its output tokens before it answered" if finish == "length" else "gave an empty answer"
            return self._fail(ModelFailure("empty", f"the model {said}"), text)
        if calls and finish == "stop":
            finish = "tool_calls"
        return Reply(
            text=text,
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish=finish,
            usage=self._spent(),
            model=self._finished.model or self._request.model,
        )

    def _feed_call(self, delta: ToolCallDelta) -> tuple[Delta, ...]:
        if not (delta.id or delta.name or delta.arguments):
            return ()
        call = self._call_for(delta)
        if delta.id and not call.provider_id:
            call.provider_id = delta.id
        name = ""
        if delta.name and delta.name != call.name and not call.pieces:
            name = delta.name
            call.name += name
        if delta.arguments:
            call.pieces.append(delta.arguments)
        return (ToolCallDelta(index=call.index, id=call.id, name=name, arguments=delta.arguments),)

    def _call_for(self, delta: ToolCallDelta) -> "_Call":
        key = delta.index
        if key is None:
            key = next(reversed(self._current), 0)
        current = self._current.get(key)
        if current is None:
            return self._start(key)
        if delta.id and current.provider_id and delta.id != current.provider_id:
            for call in self._calls:
                if call.key == key and call.provider_id == delta.id:
                    self._current[key] = call
                    return call
            return self._start(key)
        same_id = bool(delta.id) and delta.id == current.provider_id
        if delta.name and not same_id and current.complete():
            return self._start(key)
        return current

    def _start(self, key: int) -> "_Call":
        call = _Call(index=len(self._calls), key=key, id=self._new_call_id())
        self._calls.append(call)
        self._current.pop(key, None)
        self._current[key] = call
        return call

    def _spent(self) -> Usage:
        usage = self._usage
        if usage is None or not (usage.input_tokens or usage.output_tokens):
            said = sum(map(len, self._text)) + sum(map(len, self._reasoning))
            said += sum(len(call.name) + len(call.arguments) for call in self._calls)
            usage = Usage(
                input_tokens=estimate_request(self._request),
                output_tokens=estimate_text(said),
                estimated=True,
            )
        if usage.cost is None:
            cost = self._price(usage, self._request.model)
            usage = usage.model_copy(update={"cost": cost})
        return usage

    def _fail(self, failure: ModelFailure, text: str) -> ModelFailure:
        spent = self._spent() if self._usage is not None or self.started or self._finished else None
        return replace(failure, partial_text=text or failure.partial_text, usage=spent)


@dataclass(slots=True)
class _Call:
    index: int
    key: int
    id: str
    provider_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object."""
        if not self.pieces:
            return False
        try:
            return isinstance(orjson.loads(self.arguments), dict)
        except orjson.JSONDecodeError:
            return False
