"""Which part of a result does the model see: the selected fields, then head and tail of what is too long."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

import anyio.to_thread

from harnessd.facts.event import ToolResultEvicted
from harnessd.facts.message import Part, TextPart
from harnessd.tools.tool import Outcome

SHOWN_AT_MOST = 30_000
"""Characters of one result that enter the context unless the home's tools.json says otherwise."""

Evict = Callable[[str, str], Awaitable[ToolResultEvicted | None]]
"""Stores the whole text of the call's oversized result; None if it could not."""


class ResultRule(Protocol):
    """What tools.json says about the results of one tool (`select` is a JMESPath, `max_chars` counts characters)."""

    @property
    def select(self) -> str | None:
        """The fields that the model needs."""
        ...

    @property
    def max_chars(self) -> int | None:
        """The most characters that enter the context."""
        ...


async def trim(outcome: Outcome, rule: ResultRule | None, evict: Evict | None, call_id: str) -> Outcome:
    """The outcome as the model sees it.

    What is too long is said to be so in the text; the whole result, unselected, is stored if `evict` can.
    """
    at_most = max(200, (rule.max_chars if rule else None) or SHOWN_AT_MOST)
    whole = "\n\n".join(part.text for part in outcome.parts if isinstance(part, TextPart))
    select = rule.select if rule and outcome.status == "ok" else None
    if select:
        # A home's own expression over a foreign result; kept off the event loop.
        outcome = replace(
            outcome, parts=await anyio.to_thread.run_sync(_selected, outcome.parts, select, abandon_on_cancel=True)
        )
    texts = [part.text for part in outcome.parts if isinstance(part, TextPart)]
    size = sum(map(len, texts))
    if size <= at_most:
        return outcome
    stored = await evict(call_id, whole) if evict else None
    place = f"; the whole is in {stored.content_ref}, `read` it with offset and limit" if stored else ""
    others = tuple(part for part in outcome.parts if not isinstance(part, TextPart))
    shortened = TextPart(text=head_and_tail("\n\n".join(texts), at_most, place))
    events = (*outcome.events, stored) if stored else outcome.events
    return replace(outcome, parts=(shortened, *others), events=events)


def head_and_tail(text: str, at_most: int, place: str = "") -> str:
    """The first two thirds and the last third of what fits, cut at line ends where one is near, with a visible note."""
    head = _upto_line_end(text[: at_most * 2 // 3])
    tail = _from_line_start(text[len(text) - at_most // 3 :])
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left_out:,} of {len(text):,} characters left out here{place} …]\n{tail}"


def _upto_line_end(text: str) -> str:
    end = text.rfind("\n")
    return text[:end] if end > len(text) * 0.8 else text


def _from_line_start(text: str) -> str:
    start = text.find("\n")
    return text[start + 1 :] if 0 <= start < len(text) * 0.2 else text


def _selected(parts: tuple[Part, ...], select: str) -> tuple[Part, ...]:
    import jmespath
    from jmespath.exceptions import JMESPathError

    chosen: list[Part] = []
    for part in parts:
        if isinstance(part, TextPart):
            try:
                value = json.loads(part.text)
            except ValueError:
                pass
            else:
                try:
                    found = jmespath.search(select, value)
                except JMESPathError as error:
                    note = f"[tools.json: the `select` of this tool does not apply: {str(error).splitlines()[0]}]"
                    part = TextPart(text=f"{part.text}\n{note}")
                else:
                    part = TextPart(text=json.dumps(found, ensure_ascii=False))
        chosen.append(part)
    return tuple(chosen)
