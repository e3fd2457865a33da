"""The assembler: any split of a stream gives one reply; bad numbering of calls has one outcome each."""

import itertools
import json
from collections.abc import Iterable

import pytest
from asking import make_request
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.message import ToolCall, Usage
from harnessd.models.assembler import Assembler, Reply
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


def fresh() -> Assembler:
    numbers = itertools.count()
    return Assembler(make_request(), new_call_id=lambda: f"call_{next(numbers)}")


def assemble(chunks: Iterable[Chunk]) -> Reply | ModelFailure:
    assembler = fresh()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler.finish()


def calls_of(chunks: Iterable[Chunk]) -> list[tuple[str, str]]:
    reply = assemble([*chunks, Finished("tool_calls")])
    assert isinstance(reply, Reply)
    assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)
    return [(call.name, call.arguments) for call in reply.tool_calls]


def split(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(edges)]


objects = st.dictionaries(st.text(max_size=5), st.text(max_size=12) | st.integers() | st.none(), max_size=4)
cuts = st.lists(st.integers(0, 200), max_size=8)


@given(
    text=st.text(max_size=60),
    reasoning=st.text(max_size=30),
    calls=st.lists(st.tuples(st.sampled_from(["read", "write", "x"]), objects), max_size=4),
    cuts=cuts,
    numbered=st.booleans(),
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(1, 9), output_tokens=st.integers(0, 9)),
)
def test_l3_any_split_gives_the_same_reply(text, reasoning, calls, cuts, numbered, usage) -> None:
    whole: list[Chunk] = [ReasoningDelta(reasoning), TextDelta(text)]
    pieces: list[Chunk] = [*map(ReasoningDelta, split(reasoning, cuts)), *map(TextDelta, split(text, cuts))]
    for number, (name, value) in enumerate(calls):
        arguments = json.dumps(value)
        index = number if numbered else 0
        whole.append(ToolCallDelta(index, f"id{number}", name, arguments))
        pieces.append(ToolCallDelta(index, f"id{number}", name, ""))
        pieces += [ToolCallDelta(index, "", "", piece) for piece in split(arguments, cuts)]
    end: list[Chunk] = [Finished("stop", "m")] + ([UsageReport(usage)] if usage else [])
    assert assemble([*whole, *end]) == assemble([*pieces, *end])


@given(calls=st.lists(objects, min_size=1, max_size=4), cuts=cuts)
def test_f4_what_is_published_adds_up_to_the_reply(calls, cuts) -> None:
    assembler, published = fresh(), list[Delta]()
    for number, value in enumerate(calls):
        published += assembler.feed(ToolCallDelta(number, f"p{number}", "read", ""))
        for piece in split(json.dumps(value), cuts):
            published += assembler.feed(ToolCallDelta(number, "", "", piece))
    assembler.feed(Finished("tool_calls"))
    reply = assembler.finish()
    assert isinstance(reply, Reply)
    for call in reply.tool_calls:
        own = [delta for delta in published if isinstance(delta, ToolCallDelta) and delta.id == call.id]
        assert "".join(delta.arguments for delta in own) == call.arguments
        assert "".join(delta.name for delta in own) == call.name


TWO = [("a", '{"x":1}'), ("b", '{"y":2}')]
NUMBERING = {
    "proper": [ToolCallDelta(0, "i", "a", '{"x":1}'), ToolCallDelta(1, "j", "b", '{"y":2}')],
    "index 0 reused": [ToolCallDelta(0, "i", "a", '{"x":1}'), ToolCallDelta(0, "j", "b", '{"y":2}')],
    "index 0 reused, begun first": [
        ToolCallDelta(0, "i", "a"),
        ToolCallDelta(0, "", "", '{"x":1}'),
        ToolCallDelta(0, "j", "b"),
        ToolCallDelta(0, "", "", '{"y":2}'),
    ],
    "interleaved": [
        ToolCallDelta(0, "i", "a", '{"x"'),
        ToolCallDelta(1, "j", "b", '{"y"'),
        ToolCallDelta(0, "", "", ":1}"),
        ToolCallDelta(1, "", "", ":2}"),
    ],
    "interleaved on one index": [
        ToolCallDelta(0, "i", "a", '{"x"'),
        ToolCallDelta(0, "j", "b", '{"y"'),
        ToolCallDelta(0, "i", "", ":1}"),
        ToolCallDelta(0, "j", "", ":2}"),
    ],
    "duplicate ids": [ToolCallDelta(0, "i", "a", '{"x":1}'), ToolCallDelta(1, "i", "b", '{"y":2}')],
    "missing ids": [ToolCallDelta(0, "", "a", '{"x":1}'), ToolCallDelta(1, "", "b", '{"y":2}')],
    "missing ids on one index": [ToolCallDelta(0, "", "a", '{"x":1}'), ToolCallDelta(0, "", "b", '{"y":2}')],
    "missing index": [ToolCallDelta(None, "i", "a", '{"x":1}'), ToolCallDelta(None, "j", "b", '{"y":2}')],
    "missing index and ids": [
        ToolCallDelta(None, "", "a", '{"x":1}'),
        ToolCallDelta(None, "", "b", '{"y":2}'),
    ],
    "id and name repeated": [
        ToolCallDelta(0, "i", "a", '{"x":1'),
        ToolCallDelta(0, "i", "a", "}"),
        ToolCallDelta(1, "j", "b", '{"y":2}'),
        ToolCallDelta(1, "j", "b", ""),
    ],
    "sparse indexes": [ToolCallDelta(3, "i", "a", '{"x":1}'), ToolCallDelta(7, "j", "b", '{"y":2}')],
    "empty deltas": [
        ToolCallDelta(0, "", "", ""),
        ToolCallDelta(0, "i", "a", '{"x":1}'),
        ToolCallDelta(1, "j", "b", '{"y":2}'),
        ToolCallDelta(2),
    ],
}


@pytest.mark.parametrize("chunks", NUMBERING.values(), ids=NUMBERING.keys())
def test_l3_badly_numbered_calls_stay_two(chunks) -> None:
    assert calls_of(chunks) == TWO


def test_l1_arguments_are_kept_as_written() -> None:
    assert calls_of([ToolCallDelta(0, "i", "a", '{"x": ')]) == [("a", '{"x": ')]


ENDS = {
    "cut": ([TextDelta("half")], "cut_off", "half"),
    "nothing": ([], "cut_off", ""),
    "empty": ([Finished("stop")], "empty", ""),
    "blank": ([TextDelta(" \n"), Finished("stop")], "empty", " \n"),
    "only reasoning": ([ReasoningDelta("hm"), Finished("length")], "empty", ""),
    "filtered": ([TextDelta("I "), Finished("content_filter")], "content_filter", "I "),
    "refused": ([Finished("refusal")], "content_filter", ""),
    "failed": ([TextDelta("a"), ModelFailure("overloaded", "busy"), Finished("stop")], "overloaded", "a"),
    "promised calls": ([Finished("tool_calls")], "empty", ""),
}


@pytest.mark.parametrize(("chunks", "kind", "partial"), ENDS.values(), ids=ENDS.keys())
def test_l3_what_is_no_reply_is_a_named_failure(chunks, kind, partial) -> None:
    failure = assemble(chunks)
    assert isinstance(failure, ModelFailure)
    assert (failure.kind, failure.partial_text) == (kind, partial)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("weird", "stop"),
    ],
)
def test_finish_is_normalised(reason, finish) -> None:
    reply = assemble([TextDelta("x"), Finished(reason)])
    assert isinstance(reply, Reply)
    assert reply.finish == finish


def test_a_stop_with_calls_is_tool_calls() -> None:
    reply = assemble([ToolCallDelta(0, "i", "a", "{}"), Finished("stop")])
    assert isinstance(reply, Reply)
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == (ToolCall(id="call_0", name="a", arguments="{}"),)


def test_l5_usage_is_the_providers_or_marked_as_estimated() -> None:
    told = assemble([TextDelta("x"), Finished("stop"), UsageReport(Usage(input_tokens=5, output_tokens=2))])
    silent = assemble([TextDelta("x" * 41), Finished("stop")])
    assert isinstance(told, Reply)
    assert isinstance(silent, Reply)
    assert (told.usage.input_tokens, told.usage.output_tokens, told.usage.estimated) == (5, 2, False)
    assert silent.usage.estimated
    assert silent.usage.output_tokens == 11
    assert silent.usage.input_tokens > 0


def test_l5_a_failed_request_still_says_what_it_cost() -> None:
    failure = assemble([TextDelta("half"), UsageReport(Usage(input_tokens=5, output_tokens=2))])
    assert isinstance(failure, ModelFailure)
    assert failure.usage is not None
    assert failure.usage.input_tokens == 5
