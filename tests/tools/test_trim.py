"""What of a result the model sees."""

import json

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
