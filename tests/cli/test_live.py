"""Is what a person sees whole, in order, and harmless, whatever pieces arrive?"""

import io
import re
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.cli.harmless import harmless, one_line
from harnessd.cli.live import Live
from harnessd.cli.output import Output
from harnessd.cli.render import call_text, ending
from harnessd.facts.event import (
    AssistantTextDelta,
    MessageCreated,
    RunFinished,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallDelta,
    TurnRetried,
)
from harnessd.facts.message import AssistantMessage, TextPart
from harnessd.facts.run import Failure
from harnessd.models.chunk import FailureKind, ModelFailure
from harnessd.models.failure import way_out


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def message(text: str, message_id: str = "msg_1") -> MessageCreated:
    return MessageCreated(message=AssistantMessage(id=message_id, parts=(TextPart(text=text),)))


def delta(text: str, offset: int, message_id: str = "msg_1") -> AssistantTextDelta:
    return AssistantTextDelta(message_id=message_id, offset=offset, text=text)


@given(text=st.text(min_size=1), cuts=st.lists(st.integers(0, 40)), kept=st.lists(st.booleans(), min_size=41))
def test_f6_the_text_is_whole_whichever_pieces_are_lost_or_come_twice(
    text: str, cuts: list[int], kept: list[bool]
) -> None:
    out = io.StringIO()
    live = Live(Output(out=out, err=io.StringIO()))
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for number, (start, end) in enumerate(pairwise(bounds)):
        for _ in range(2 if number % 3 == 0 else 1):
            if kept[number % len(kept)]:
                live.show(delta(text[start:end], start))
    live.show(message(text))
    live.rest()
    assert out.getvalue() == text + ("" if text.endswith("\n") else "\n")


def test_an_answer_that_broke_off_stands_apart_from_the_next() -> None:
    out, err = io.StringIO(), io.StringIO()
    live = Live(Output(out=out, err=err))
    live.show(delta("half an ans", 0, "msg_1"))
    live.show(TurnRetried(failure=Failure(kind="cut_off", message="the stream broke off"), wait_seconds=1))
    live.show(delta("whole", 0, "msg_2"))
    live.show(message("whole answer", "msg_2"))
    assert out.getvalue() == "half an ans\nwhole answer\n"
    assert "the stream broke off" in err.getvalue()


STEERING = ["\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x07", "\r", "\x08\x08", "\x9b31m", "\u202e", "\x00"]


@pytest.mark.parametrize("evil", STEERING, ids=ascii)
def test_no_text_of_a_model_or_tool_steers_the_terminal(evil: str) -> None:
    out, err = Terminal(), Terminal()
    output = Output(out=out, err=err)
    live = Live(output)
    live.show(message(f"a{evil}b"))
    live.show(ToolCallCreated(tool_call_id="call_1", tool_name=f"x{evil}", arguments={"path": f"p{evil}q"}))
    live.show(
        ToolCallCompleted(tool_call_id="call_1", tool_name=f"x{evil}", status="error", parts=(TextPart(text=evil),))
    )
    live.show(RunFinished(reason="failed", failure=Failure(kind="x", message=f"m{evil}")))
    ours = re.compile(r"\x1b\[\d*m|\r\x1b\[K")
    for stream in (out, err):
        rest = ours.sub("", stream.getvalue())
        assert re.sub(r"[\n\t]", "", rest).isprintable(), rest


def test_a_file_gets_the_text_as_it_is() -> None:
    out = io.StringIO()
    Live(Output(out=out, err=io.StringIO())).show(message("a\x1b[1mb"))
    assert out.getvalue() == "a\x1b[1mb\n"


def test_a_commands_last_line_passes_by_on_a_terminal_and_is_harmless() -> None:
    pieces = [
        ToolCallDelta(message_id="msg_1", offset=0, text="one\ntwo\n", tool_call_id="call_1", stream="output"),
        ToolCallDelta(message_id="msg_1", offset=8, text="\n", tool_call_id="call_1", stream="output"),
        ToolCallDelta(message_id="msg_1", offset=9, text="thr\x1b[2Jee\n", tool_call_id="call_1", stream="output"),
        ToolCallDelta(message_id="msg_1", offset=0, text='{"command', tool_call_id="call_1"),
    ]
    out, err = Terminal(), Terminal()
    live = Live(Output(out=out, err=err))
    for piece in pieces:
        live.show(piece)
    live.rest()
    shown = re.sub(r"\x1b\[2m|\x1b\[0m", "", err.getvalue())
    assert shown == "    two\r\x1b[K    thr[2Jee\r\x1b[K"
    assert out.getvalue() == ""
    plain = io.StringIO()
    live = Live(Output(out=io.StringIO(), err=plain))
    for piece in pieces:
        live.show(piece)
    live.rest()
    assert plain.getvalue() == ""


def test_colour_only_on_a_terminal_and_never_against_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Output(out=Terminal(), err=io.StringIO()).style.colour
    assert not Output(out=io.StringIO(), err=Terminal()).style.colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Output(out=Terminal(), err=Terminal()).style.colour


@given(st.text())
def test_harmless_keeps_lines_and_ordinary_text(text: str) -> None:
    kept = harmless(text)
    assert kept.count("\n") == text.count("\n")
    assert harmless(kept) == kept
    assert "\n" not in one_line(text)
    assert len(one_line(text)) <= 100


def test_the_argument_that_says_most_is_shown() -> None:
    assert call_text("edit", {"old": "a", "new": "b", "path": "AGENTS.md"}) == "edit(AGENTS.md)"
    assert call_text("todo", {"items": ["a", "b"]}) == 'todo(["a","b"])'
    assert call_text("x", None) == "x()"


@pytest.mark.parametrize("kind", [kind for kind in get_args(FailureKind) if kind != "cancelled"])
def test_a_failed_model_comes_with_a_way_out(kind: FailureKind) -> None:
    hint = way_out(ModelFailure(kind, "no answer"))
    finished = RunFinished(reason="failed", failure=Failure(kind=kind, message="no answer", hint=hint))
    style = Output(out=io.StringIO(), err=io.StringIO()).style
    assert len(ending(finished, style).splitlines()) == 2
