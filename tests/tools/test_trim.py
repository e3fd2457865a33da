"""What of a result the model sees."""

import json
import re

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.event import ToolResultEvicted
from harnessd.facts.message import ImagePart, TextPart
from harnessd.home.tools_file import ResultRule
from harnessd.tools.tool import Outcome, succeeded
from harnessd.tools.trim import SHOWN_AT_MOST, head_and_tail, trim
from tests.tools.a_session import text


async def test_a_short_result_stays_the_same_object() -> None:
    outcome = succeeded("short")
    assert await trim(outcome, None, None, "call_1") is outcome


async def test_h4_a_long_one_shows_head_and_tail_and_says_what_is_missing() -> None:
    whole = "".join(f"line {n}\n" for n in range(20_000))
    stored: list[str] = []

    async def evict(call_id: str, text: str) -> ToolResultEvicted:
        stored.append(text)
        return ToolResultEvicted(tool_call_id=call_id, content_ref="agents/main/evicted/ses_1/call_1.txt")

    image = ImagePart(content_ref="data:image/png;base64,")
    outcome = await trim(Outcome("ok", (TextPart(text=whole), image)), None, evict, "call_1")
    shown = text(outcome)
    assert len(shown) < SHOWN_AT_MOST + 300
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 19999\n")
    assert "agents/main/evicted/ses_1/call_1.txt" in shown
    assert stored == [whole]
    assert outcome.events[0].type == "tool.result.evicted"
    assert outcome.parts[1] is image


async def test_only_the_selected_fields_are_shown() -> None:
    data = json.dumps({"items": [{"id": 1, "body": "x" * 1000}, {"id": 2, "body": "y"}]})
    outcome = await trim(succeeded(data), ResultRule(select="items[].id"), None, "call_1")
    assert text(outcome) == "[1, 2]"
    broken = await trim(succeeded("{}"), ResultRule(select="items["), None, "call_1")
    assert "does not apply" in text(broken)
    plain = await trim(succeeded("no json"), ResultRule(select="items"), None, "call_1")
    assert text(plain) == "no json"


async def test_the_homes_own_limit_counts() -> None:
    outcome = await trim(succeeded("x" * 5000), ResultRule(max_chars=1000), None, "call_1")
    assert len(text(outcome)) < 1200


@given(st.text("ab\n", min_size=300, max_size=2000), st.integers(200, 290))
def test_h4_what_is_shown_is_the_beginning_and_the_end(whole: str, at_most: int) -> None:
    head, _, tail = head_and_tail(whole, at_most).partition("\n[… ")
    note, _, tail = tail.partition(" …]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) + int(note.split()[0].replace(",", "")) == len(whole)


# --- every character is accounted for

pieces = st.lists(st.text("ab\n é", max_size=400), max_size=5)


@given(pieces, st.integers(200, 400), st.booleans())
def test_h4_what_is_shown_and_what_the_note_counts_make_the_whole(texts: list[str], at_most: int, keeps: bool) -> None:
    image = ImagePart(content_ref="data:image/png;base64,AA")
    parts = (*(TextPart(text=text) for text in texts), image)
    stored: list[str] = []

    async def evict(call_id: str, text: str) -> ToolResultEvicted | None:
        stored.append(text)
        return ToolResultEvicted(tool_call_id=call_id, content_ref="place") if keeps else None

    async def go() -> Outcome:
        return await trim(Outcome("ok", parts), ResultRule(max_chars=at_most), evict, "call_1")

    outcome = anyio.run(go)
    whole = "\n\n".join(texts)
    assert [part for part in outcome.parts if isinstance(part, ImagePart)] == [image]
    if sum(map(len, texts)) <= at_most:
        assert outcome.parts == parts
        assert stored == []
        return
    shown = text(outcome)
    head, _, rest = shown.partition("\n[… ")
    note, _, tail = rest.partition(" …]\n")
    left_out, of = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", note)[:2])
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + left_out + len(tail) == of == len(whole)
    assert len(head) + len(tail) <= at_most
    assert stored == [whole]  # what was left out is what can be read later
    assert ("place" in note) == keeps
    assert len(outcome.events) == keeps


@pytest.mark.parametrize("status", ["error", "denied", "timeout"])
async def test_a_select_is_for_results_not_for_failures(status: str) -> None:
    whole = Outcome(status, (TextPart(text='{"error": "no", "id": 1}'),))  # type: ignore[arg-type]
    assert await trim(whole, ResultRule(select="id"), None, "call_1") is whole


async def test_what_is_selected_is_trimmed_and_the_whole_is_stored() -> None:
    data = json.dumps({"items": [{"id": n, "body": "x" * 50} for n in range(500)]})
    stored: list[str] = []

    async def evict(call_id: str, text: str) -> ToolResultEvicted:
        stored.append(text)
        return ToolResultEvicted(tool_call_id=call_id, content_ref="place")

    outcome = await trim(succeeded(data), ResultRule(select="items[].id", max_chars=300), evict, "call_1")
    assert text(outcome).startswith("[0, 1, 2")
    assert text(outcome).endswith("498, 499]")
    assert "the whole is in place" in text(outcome)
    assert stored == [data]
    few = await trim(succeeded(data), ResultRule(select="items[0].id"), None, "call_1")
    assert text(few) == "0"
