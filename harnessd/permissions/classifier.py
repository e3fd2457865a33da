"""What may the classifier of mode `auto` see, and what does it answer?"""

from collections.abc import Awaitable, Callable

import orjson

from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject
from harnessd.facts.run import LayerAnswer
from harnessd.permissions.call import Access, Effect, GateCall, ToolKind, Within

MOST_CHARACTERS = 40_000
"""A call longer than this is not shown: a classifier that sees half a call can't vouch for it."""


class SeenTarget(Record):
    """A path as the classifier sees it."""

    path: str
    access: Access
    within: Within


class ClassifierInput(Record):
    """All that a classifier sees: the user's own words and the call. No agent text, no tool output."""

    request: str
    tool: str
    kind: ToolKind
    effect: Effect
    remote: bool
    arguments: JsonObject
    targets: tuple[SeenTarget, ...] = ()


Classifier = Callable[[ClassifierInput], Awaitable[LayerAnswer]]
"""Answers allow, ask or deny with a reason. Whatever it raises, and any other answer, means ask."""


def build_classifier_input(request_text: str, call: GateCall) -> ClassifierInput | None:
    """What the classifier is shown, field by field, so that nothing else can slip in; None if it is too long."""
    seen = ClassifierInput(
        request=request_text,
        tool=call.tool,
        kind=call.kind,
        effect=call.effect,
        remote=call.remote,
        arguments=call.arguments,
        targets=tuple(SeenTarget(path=t.path, access=t.access, within=t.within) for t in call.targets),
    )
    return seen if len(orjson.dumps(seen.model_dump(mode="json"))) <= MOST_CHARACTERS else None
