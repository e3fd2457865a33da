"""Drafts: the whole text so far of whatever is being written, bounded, and gone once it is a fact."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.draft import Drafts
from harnessd.facts.event import (
    AssistantReasoningDelta,
    AssistantTextDelta,
    Event,
    MessageCreated,
    RunFinished,
    ToolCallCompleted,
    ToolCallDelta,
    TurnFinished,
    TurnRetried,
)
from harnessd.facts.message import AssistantMessage


def text(piece: str, offset: int, message: str = "m") -> AssistantTextDelta:
    return AssistantTextDelta(message_id=message, offset=offset, text=piece)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=4), st.integers(0, 12)), max_size=60))
def test_f6_a_draft_is_what_a_reader_of_every_delta_would_have(pieces: list[tuple[str, str, int]]) -> None:
    """A piece goes to its offset: what stood behind is replaced; one beyond the end begins the text anew there."""
    drafts, plain = Drafts(), {"a": (0, ""), "b": (0, "")}
    begun: list[str] = []
    for message, piece, offset in pieces:
        drafts.take(text(piece, offset, message))
        start, known = plain[message]
        if message not in begun:
            begun.append(message)
            plain[message] = (offset, piece)
        elif start <= offset <= start + len(known):
            plain[message] = (start, known[: offset - start] + piece)
        else:
            plain[message] = (offset, piece)
    assert [(one.message_id, one.offset, one.text) for one in drafts.so_far()] == [
        (message, *plain[message]) for message in begun
    ]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=200), st.integers(1, 100))
def test_drafts_never_hold_more_than_their_limit_and_always_the_newest(
    pieces: list[tuple[str, int]], limit: int
) -> None:
    drafts = Drafts(limit)
    whole = {"a": "", "b": "", "c": ""}
    for message, length in pieces:
        piece = "".join(chr(97 + (len(whole[message]) + n) % 26) for n in range(length))
        drafts.take(text(piece, len(whole[message]), message))
        whole[message] += piece
        assert sum(len(one.text) for one in drafts.so_far()) <= limit
    for one in drafts.so_far():
        assert one.text == whole[one.message_id][one.offset :]


def test_drafts_of_a_long_text_are_cheap() -> None:
    """20 times the text takes about 20 times as long, and not 400."""

    def seconds(count: int) -> float:
        drafts = Drafts()
        pieces = [text("word ", 5 * number) for number in range(count)]
        began = time.perf_counter()
        for piece in pieces:
            drafts.take(piece)
        return time.perf_counter() - began

    short = min(seconds(2_000) for _ in range(5))
    assert min(seconds(40_000) for _ in range(2)) < short * 20 * 6


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (MessageCreated(message=AssistantMessage(id="m")), ["output", "other"]),
        (MessageCreated(message=AssistantMessage(id="n")), ["text", "reasoning", "arguments", "output"]),
        (ToolCallCompleted(tool_call_id="call_2"), ["text", "reasoning", "arguments", "other"]),
        (ToolCallCompleted(tool_call_id="call_9"), ["text", "reasoning", "arguments", "output", "other"]),
        (TurnRetried(), []),
        (TurnFinished(), []),
        (RunFinished(), []),
    ],
    ids=["its message", "another message", "its call", "another call", "retried", "turn over", "run over"],
)
def test_f6_a_draft_is_gone_when_what_it_becomes_is_on_record(event: Event, left: list[str]) -> None:
    drafts = Drafts()
    drafts.take(text("text", 0))
    drafts.take(AssistantReasoningDelta(message_id="m", text="reasoning"))
    drafts.take(ToolCallDelta(message_id="m", tool_call_id="call_1", text="arguments"))
    drafts.take(ToolCallDelta(message_id="before", tool_call_id="call_2", text="output", stream="output"))
    drafts.take(text("other", 0, "n"))
    drafts.settle(event)
    assert [one.text for one in drafts.so_far()] == left


def test_a_draft_says_what_it_is_of() -> None:
    drafts = Drafts()
    drafts.take(ToolCallDelta(message_id="m", tool_call_id="c", tool_name="re", offset=0, text='{"pa'))
    drafts.take(ToolCallDelta(message_id="m", tool_call_id="c", tool_name="read", offset=4, text='th"'))
    assert drafts.so_far() == (ToolCallDelta(message_id="m", tool_call_id="c", tool_name="read", text='{"path"'),)
    assert drafts.text("c", "arguments") == '{"path"'
    assert drafts.text("c", "output") == ""
