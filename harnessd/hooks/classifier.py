"""before_tool, in mode `auto`: the small model is asked whether a call is what the user wants.

It is shown `ClassifierInput` as JSON in one message, and nothing else: no word of the agent, no result of a tool. Only
one exact form of answer counts; whatever else comes means that a person is asked.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import anyio
import orjson
from pydantic import ConfigDict

from harnessd.facts.base import Record
from harnessd.facts.event import ToolCallClassified
from harnessd.facts.message import TextPart, Usage, UserMessage
from harnessd.facts.run import LayerAnswer
from harnessd.hooks.context import RunContext
from harnessd.ids import new_id
from harnessd.models.assembler import Reply
from harnessd.models.chunk import ModelFailure
from harnessd.models.models import Models
from harnessd.models.prefixes import is_offline
from harnessd.models.request import ModelRequest
from harnessd.permissions.classifier import ClassifierInput

SECONDS = 30.0
LONGEST_REASON = 500
LONGEST_ANSWER = 4000
"""Tokens that the model may answer with: a verdict and a sentence, and what it thinks before."""


@dataclass(frozen=True)
class CallClassifier:
    """Asks the home's `smallModel`, else the operator's, else the run's own model; `seconds` is its time."""

    models: Models
    small_model: str | None = None
    seconds: float = SECONDS

    async def answer(self, context: RunContext, tool_call_id: str, seen: ClassifierInput) -> LayerAnswer:
        """The model's answer, on record with what it cost; the run's former one if it was shown the very same."""
        text = orjson.dumps(seen.model_dump(mode="json", by_alias=True), option=orjson.OPT_SORT_KEYS)
        key = hashlib.sha256(text).hexdigest()[:32]
        known = next((one.answer for one in context.run.classified if one.key == key), None)
        if known is not None:
            return known
        model = context.home_now.settings.small_model or self.small_model or context.model
        if is_offline(model):
            return _answer("ask", "the offline model can't judge a call, so a person is asked")
        reply: Reply | ModelFailure | None = None
        with anyio.move_on_after(self.seconds):
            reply = await self.models.answer(_request(model, text.decode(), context.address_of(model)))
        answer = self._read(reply)
        usage = reply.usage if reply is not None else None
        model = reply.model if isinstance(reply, Reply) else model
        fact = ToolCallClassified(
            tool_call_id=tool_call_id, key=key, answer=answer, model=model, usage=usage or Usage()
        )
        context.record(fact)
        return answer

    def _read(self, reply: Reply | ModelFailure | None) -> LayerAnswer:
        if reply is None:
            return _failed(f"the classifier gave no answer within {self.seconds:g} s")
        if isinstance(reply, ModelFailure):
            return _failed(f"the classifier failed: {reply.message}")
        verdict = _verdict(reply)
        if verdict is None:
            return _failed("the classifier answered with something else than a verdict and a reason")
        return _answer(verdict.verdict, f"the classifier says: {verdict.reason.strip()[:LONGEST_REASON]}")


class _Verdict(Record):
    model_config = ConfigDict(strict=True, extra="forbid")

    verdict: Literal["allow", "ask", "deny"]
    reason: str


def _request(model: str, shown: str, api_base: str | None) -> ModelRequest:
    return ModelRequest(
        model=model,
        system=files("harnessd.hooks").joinpath("prompts/classifier.md").read_text("utf-8"),
        messages=(UserMessage(id=new_id("msg"), parts=(TextPart(text=shown),)),),
        purpose="classifier",
        api_base=api_base,
        max_output_tokens=LONGEST_ANSWER,
    )


def _verdict(reply: Reply) -> _Verdict | None:
    """The one object that the reply must be, alone or in one code fence; None if it is anything else."""
    if reply.tool_calls or reply.finish != "stop":
        return None
    text = reply.text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.removesuffix("```").partition("\n")[2]
    try:
        return _Verdict.model_validate(json.loads(text, object_pairs_hook=_once_each))
    except (ValueError, RecursionError):  # what does not fit is a ValueError as well
        return None


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def _failed(reason: str) -> LayerAnswer:
    return LayerAnswer(layer="classifier", verdict="ask", reason=f"{reason}, so a person is asked", safety=True)


def _answer(verdict: Literal["allow", "ask", "deny"], reason: str) -> LayerAnswer:
    return LayerAnswer(layer="classifier", verdict=verdict, reason=reason)
