"""The fold: it is the state, it keeps calls and results together, and its cost does not grow."""

import random
import tracemalloc
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.facts.event import (
    ContextCompacted,
    ContextTruncated,
    Event,
    MessageCreated,
    MessageQueued,
    RunFinished,
    RunStarted,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
    read_event,
)
from harnessd.facts.fold import fold, merge_patch
from harnessd.facts.message import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from harnessd.facts.run import Approval
from harnessd.facts.state import State
from harnessd.journal.line import decode, encode
from tests.facts.samples import fault_of, folded, numbered, one_of_each, session

SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_f3_the_fold_of_a_journal_equals_the_live_state(seed: int) -> None:
    live = State()
    lines = []
    for event in numbered(session(random.Random(seed))):
        live = fold(live, event)
        lines.append(encode(event))
    read = [event for event in map(decode, lines) if isinstance(event, Event)]
    assert len(read) == len(lines)
    assert folded(read) == live
    assert folded(read).model_dump_json() == live.model_dump_json()


@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_f3_a_saved_state_folds_on_as_the_live_one(seed: int) -> None:
    rng = random.Random(seed)
    events = numbered(session(rng))
    at = rng.randint(0, len(events))
    saved = State.model_validate_json(folded(events[:at]).model_dump_json(exclude_none=True))
    assert saved == folded(events[:at])
    assert folded(events[at:], saved) == folded(events)


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_f4_every_prefix_of_a_session_pairs_calls_with_results(seed: int) -> None:
    state = State()
    for event in numbered(session(random.Random(seed))):
        state = fold(state, event)
        assert fault_of(state) is None


@given(seed=SEEDS, data=st.data())
@settings(max_examples=300, deadline=None)
def test_f4_dropped_and_reordered_records_never_part_a_call_from_its_result(seed: int, data: st.DataObject) -> None:
    events = session(random.Random(seed))
    dropped = data.draw(st.sets(st.integers(0, len(events) - 1), max_size=len(events) // 2))
    events = [event for at, event in enumerate(events) if at not in dropped]
    for _ in range(data.draw(st.integers(0, 6))):
        if events:
            moved = events.pop(data.draw(st.integers(0, len(events) - 1)))
            events.insert(data.draw(st.integers(0, len(events))), moved)
    state = State()
    for event in numbered(events):
        state = fold(state, event)
        assert fault_of(state) is None


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_f4_events_in_any_order_at_all_never_part_a_call_from_its_result(seed: int) -> None:
    rng = random.Random(seed)
    events = session(rng)
    rng.shuffle(events)
    state = State()
    for event in numbered(events):
        state = fold(state, event)
        assert fault_of(state) is None


def test_f4_a_cut_into_open_calls_closes_them_first() -> None:
    for cut in (ContextTruncated(keep_from="lost"), ContextCompacted(keep_from="lost"), ContextTruncated(keep_from="")):
        state = folded([*_open_calls(2), cut, ToolCallCompleted(tool_call_id="call_1"), RunFinished()])
        assert fault_of(state) is None


def test_f4_a_cut_from_a_message_that_was_lost_keeps_everything() -> None:
    state = folded([*_open_calls(0), ContextTruncated(keep_from="lost")])
    assert [message.id for message in state.messages] == ["msg_u", "msg_a"]


def test_f4_the_result_of_a_call_that_was_closed_is_not_added_again() -> None:
    state = folded([*_open_calls(2), TurnStarted(turn_id="t2"), ToolCallCompleted(tool_call_id="call_0", status="ok")])
    results = [message for message in state.messages if isinstance(message, ToolMessage)]
    assert [result.status for result in results] == ["outcome_unknown", "outcome_unknown"]


def test_f1_an_approval_whose_call_or_run_is_over_does_not_stay_pending() -> None:
    approval = Approval(id="apr_1", tool_call_id="call_0", run_id="r")
    waiting = folded([*_open_calls(1), ToolApprovalRequired(approval=approval)])
    assert waiting.active_run is not None
    assert waiting.active_run.status == "waiting_approval"
    for lost_its_end in (TurnStarted(turn_id="t2"), RunStarted(run_id="r2"), RunFinished()):
        after = fold(waiting, lost_its_end)
        assert after.pending_approvals == ()
        assert after.active_run is None or after.active_run.status == "running"


def test_f1_the_answer_to_an_approval_survives_a_crash_before_the_call_goes_on() -> None:
    approval = Approval(id="apr_1", tool_call_id="call_0", run_id="r", base="blob")
    for outcome in ("allowed", "denied", "expired", "cancelled"):
        resolved = ToolApprovalResolved.model_validate(
            {"approvalId": "apr_1", "toolCallId": "call_0", "outcome": outcome, "by": "ann", "note": "n"}
        )
        state = folded([*_open_calls(1), ToolApprovalRequired(approval=approval), resolved])
        state = State.model_validate_json(state.model_dump_json())
        assert state.active_run is not None
        (call,) = state.active_run.calls
        assert call.answer is not None
        assert (call.status, call.answer.outcome, call.answer.base) == ("pending", outcome, "blob")


def test_f4_results_that_come_out_of_order_stand_in_the_order_of_the_calls() -> None:
    state = folded(_open_calls(3))
    seen = []
    for call in ("call_2", "call_0", "call_1"):
        state = fold(state, ToolCallCompleted(tool_call_id=call))
        seen.append([m.tool_call_id for m in state.messages if isinstance(m, ToolMessage)])
    assert seen == [[], ["call_0"], ["call_0", "call_1", "call_2"]]


def test_l5_usage_of_turns_and_runs_adds_up() -> None:
    for seed in range(20):
        events = session(random.Random(seed))
        state = folded(numbered(events))
        turns = [event for event in events if isinstance(event, TurnFinished)]
        assert state.usage.turns == len(turns)
        assert state.usage.total.input_tokens == sum(turn.usage.input_tokens for turn in turns)
        assert state.usage.total.cost == sum(turn.usage.cost or 0 for turn in turns)


def test_fold_is_pure() -> None:
    for seed in range(10):
        state = State()
        for event in numbered(session(random.Random(seed))):
            before = state.model_dump_json()
            first, second = fold(state, event), fold(state, event)
            assert first == second
            assert state.model_dump_json() == before
            state = first


def test_f8_every_event_folds_and_an_unknown_one_only_counts() -> None:
    state = State()
    for event in one_of_each():
        state = fold(state, event)
        assert state.seq == event.seq
    unknown = read_event({"type": "future.thing", "seq": 99, "raw": 1})
    assert isinstance(unknown, UnknownEvent)
    assert fold(state, unknown) == state.model_copy(update={"seq": 99})


def test_an_event_with_a_foreign_field_named_raw_folds_as_what_it_is() -> None:
    event = read_event({"type": "run.started", "seq": 1, "runId": "r", "raw": {"x": 1}})
    state = fold(State(), event)
    assert state.active_run is not None


def test_the_cost_of_a_fold_does_not_grow_with_the_session() -> None:
    short, long = _of_length(10), _of_length(10_000)
    for events in (_turn("x"), [MessageQueued(message=UserMessage(id="q"))], [ToolCallRunning(tool_call_id="nope")]):
        assert _allocated(long, events) < _allocated(short, events) + 4_000


def test_merge_patch_is_rfc_7396() -> None:
    table = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    assert [merge_patch(target, patch) for target, patch, _ in table] == [wanted for _, _, wanted in table]


def test_the_sample_sessions_hold_what_they_promise() -> None:
    kinds = Counter(event.type for seed in range(30) for event in session(random.Random(seed)))
    assert {"context.compacted", "context.truncated", "tool.approval_resolved", "run.resumed"} <= set(kinds)


def _open_calls(count: int) -> list[Event]:
    calls = tuple(ToolCall(id=f"call_{number}", name="read") for number in range(count))
    return [
        RunStarted(run_id="r"),
        MessageCreated(message=UserMessage(id="msg_u")),
        TurnStarted(turn_id="t"),
        MessageCreated(message=AssistantMessage(id="msg_a", tool_calls=calls)),
    ]


def _turn(name: str) -> list[Event]:
    call = ToolCall(id=f"call_{name}", name="read")
    return [
        TurnStarted(turn_id=name),
        MessageCreated(message=AssistantMessage(id=f"msg_{name}", tool_calls=(call,))),
        ToolCallCreated(tool_call_id=call.id, arguments={}, action_hash="h"),
        ToolCallRunning(tool_call_id=call.id),
        ToolCallCompleted(tool_call_id=call.id, parts=(TextPart(text="x"),)),
        TurnFinished(),
    ]


def _of_length(count: int) -> State:
    state = folded([RunStarted(run_id="r")])
    for number in range(count):
        state = fold(state, MessageCreated(message=UserMessage(id=f"m{number}")))
    return folded([event for number in range(20) for event in _turn(str(number))], state)


def _allocated(state: State, events: list[Event]) -> int:
    """Bytes that folding `events` allocates at its peak, beside a list's own growth by doubling."""
    state = folded(events, state)  # whatever is built once is built, and the buffer has room again
    again = [event.model_copy() for event in events]
    tracemalloc.start()
    folded(again, state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
