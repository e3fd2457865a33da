"""How a session stands is read from its journal's end, and is what its whole state would say."""

import random
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.errors import SessionNotFound
from harnessd.facts.event import (
    CheckpointWritten,
    Event,
    MessageCreated,
    MessageQueued,
    RunFinished,
    RunParked,
    RunResumed,
    RunStarted,
    RunStopRequested,
    SessionCreated,
    SubagentWaiting,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    TurnFinished,
    TurnStarted,
    read_event,
)
from harnessd.facts.fold import fold
from harnessd.facts.message import AssistantMessage, TextPart, ToolCall, UserMessage
from harnessd.facts.run import Approval, SubagentRef, Trigger
from harnessd.facts.state import State
from harnessd.journal.line import encode
from harnessd.journal.standing import Standing, standing, standing_of
from tests.facts.samples import session
from tests.journal.desk import said

Prefix = tuple[list[bytes], State]


def prefixes(events: list[Event], *, told: bool = True) -> list[Prefix]:
    """The journal after each event, with its state; a run's end tells how many messages wait, if it is `told`."""
    found: list[Prefix] = []
    state, lines = State(), []
    for seq, event in enumerate(events, 1):
        if isinstance(event, RunFinished) and told:
            event = event.model_copy(update={"queued": len(state.queue)})
        event = event.model_copy(update={"seq": seq, "at": "2026-11-30T12:00:00.000Z", "session_id": "ses_1"})
        state = fold(state, event)
        lines = [*lines, encode(event)]
        found.append((lines, state))
    return found


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=max(25, settings().max_examples // 4))
def test_f1_the_end_of_any_prefix_of_any_session_says_what_its_whole_state_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, told: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    rng = random.Random(seed)
    events = session(rng)
    for _ in range(rng.randint(0, 6)):
        events.insert(rng.randint(1, len(events)), _odd(rng))
    events.append(_stop(rng))
    for lines, state in prefixes(events, told=told):
        path.write_bytes(b"".join(lines))
        assert standing(path) == standing_of(state)


def _odd(rng: random.Random) -> Event:
    """What may come at any time."""
    message = UserMessage(id=f"msg_odd_{rng.random()}", parts=(TextPart(text="more"),))
    return rng.choice([MessageQueued(message=message), CheckpointWritten()])


def _stop(rng: random.Random) -> Event:
    return RunStopRequested(run_id="run_1", scope=rng.choice(["run", "session"]))


ASKED = UserMessage(id="msg_1")
OF_RUN = {"run_id": "run_1"}
OF_TURN = {"run_id": "run_1", "turn_id": "turn_1"}
CALLS = tuple(ToolCall(id=f"call_{number}", name="write") for number in (1, 2))
APPROVAL = Approval(id="apr_1", run_id="run_1", turn_id="turn_1", tool_call_id="call_1")
BEGUN: list[Event] = [
    SessionCreated(),
    MessageQueued(run_id="run_1", message=ASKED, trigger=Trigger(message_id="msg_1")),
    RunStarted(**OF_RUN, trigger=Trigger(message_id="msg_1")),
    MessageCreated(**OF_RUN, message=ASKED),
    TurnStarted(**OF_TURN, number=1),
]
ASKING: list[Event] = [
    *BEGUN,
    MessageCreated(**OF_TURN, message=AssistantMessage(id="msg_2", tool_calls=CALLS)),
    *(ToolCallCreated(**OF_TURN, tool_call_id=call.id) for call in CALLS),
    ToolApprovalRequired(**OF_TURN, approval=APPROVAL),
]
SECOND_DONE = [
    ToolCallRunning(**OF_TURN, tool_call_id="call_2"),
    ToolCallCompleted(**OF_TURN, tool_call_id="call_2"),
]
DELEGATE = SubagentRef(id="sub_1", parent_tool_call_id="call_2", status="waiting")
ENDED: list[Event] = [TurnFinished(**OF_TURN), RunFinished(**OF_RUN, reason="max_turns")]
FUTURE = read_event({"type": "run.finished", "runId": "run_1", "reason": "a reason of the future"})
LATER = MessageQueued(message=UserMessage(id="msg_9"))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], Standing("quiet")),
        (BEGUN[:1], Standing("quiet")),
        (BEGUN[:2], Standing("queued")),
        ([*BEGUN[:2], RunParked(**OF_RUN)], Standing("parked")),
        ([*BEGUN[:2], RunParked(**OF_RUN), RunResumed(**OF_RUN)], Standing("queued")),
        (BEGUN[:3], Standing("unfinished")),
        (BEGUN, Standing("unfinished")),
        (ASKING, Standing("unfinished", (APPROVAL,))),
        ([*ASKING, *SECOND_DONE[:1]], Standing("unfinished", (APPROVAL,))),
        ([*ASKING, *SECOND_DONE], Standing("waiting", (APPROVAL,))),
        ([*ASKING, *SECOND_DONE, LATER], Standing("waiting", (APPROVAL,))),
        ([*ASKING, SECOND_DONE[0], SubagentWaiting(**OF_TURN, subagent=DELEGATE)], Standing("waiting", (APPROVAL,))),
        ([*ASKING, *SECOND_DONE, _stop(random.Random(0))], Standing("unfinished", (APPROVAL,))),
        ([*ASKING, *SECOND_DONE, RunParked(**OF_RUN)], Standing("parked", (APPROVAL,))),
        (
            [*ASKING, *SECOND_DONE, ToolApprovalResolved(**OF_TURN, approval_id="apr_1", tool_call_id="call_1")],
            Standing("unfinished"),
        ),
        ([*ASKING, *ENDED], Standing("quiet", ended="max_turns")),
        ([*ASKING, *ENDED, CheckpointWritten()], Standing("quiet", ended="max_turns")),
        ([*ASKING, *SECOND_DONE, FUTURE], Standing("waiting", (APPROVAL,))),
        ([*ASKING, LATER, *ENDED], Standing("queued", ended="max_turns")),
        ([*ASKING, LATER, *ENDED, CheckpointWritten()], Standing("queued", ended="max_turns")),
        ([*ASKING, *ENDED, CheckpointWritten(), LATER], Standing("queued", ended="max_turns")),
    ],
)
def test_f1_a_session_stands_as_its_last_facts_say(tmp_path: Path, events: list[Event], expected: Standing) -> None:
    path = tmp_path / "s.jsonl"
    for told in (True, False):
        lines, state = prefixes(events, told=told)[-1] if events else ([], State())
        path.write_bytes(b"".join(lines))
        assert standing(path) == standing_of(state) == expected
        path.write_bytes(b"".join(lines) + b'{"crc":"0000')
        assert standing(path) == expected, "a record that is just being written is not there yet"


def test_f9_the_end_of_a_long_journal_is_told_without_reading_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    long: list[Event] = [*BEGUN[:4], *(said(str(number) + "x" * 3000) for number in range(2000)), *ASKING[4:]]
    for end in ([*SECOND_DONE], [*SECOND_DONE, *ENDED, CheckpointWritten()]):
        lines, state = prefixes([*long, *end])[-1]
        data = b"".join(lines)
        path.write_bytes(b"\n" * (len(data) - 20_000) + data[-20_000:])
        assert standing(path) == standing_of(state)


def test_f3_records_that_are_there_twice_do_not_hide_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines, state = prefixes([*ASKING, *ENDED, CheckpointWritten()])[-1]
    path.write_bytes(b"".join(lines) + lines[2] + lines[4])
    assert standing(path) == standing_of(state)


def test_f9_a_session_that_is_not_there_has_no_standing(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        standing(tmp_path / "s.jsonl")


@pytest.mark.matrix
def test_f9_five_thousand_small_journals_are_told_in_a_second_and_a_half(tmp_path: Path) -> None:
    endings = (prefixes([*ASKING, *ENDED, CheckpointWritten()])[-1], prefixes([*ASKING, *SECOND_DONE])[-1])
    paths = [tmp_path / f"{number}.jsonl" for number in range(5000)]
    for number, path in enumerate(paths):
        path.write_bytes(b"".join(endings[number % 20 == 0][0]))
    began = perf_counter()
    words = [standing(path).word for path in paths]
    took = perf_counter() - began
    assert words.count("waiting") == 250
    assert took < 1.5
