"""The transcript: pages put together are the whole, each thing once, and no call is parted from its result."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.api.transcript import CHUNK, TranscriptFact, TranscriptMessage, TranscriptPage, read_transcript, told
from harnessd.facts.event import Event, MessageCreated, MessageQueued, ToolCallCompleted, ToolCallCreated
from harnessd.facts.message import AssistantMessage, TextPart, ToolCall, UserMessage
from harnessd.models.script import Answer
from tests.api.served import Served, a_write, served
from tests.facts.samples import numbered, one_of_each, session


async def pages(events: list[Event], limit: int) -> list[TranscriptPage]:
    """The newest first, each asked for as the one before says."""

    async def read(before: int | None, count: int) -> list[Event]:
        return [event for event in events if before is None or event.seq < before][-count:]

    found = [await read_transcript(read, None, limit)]
    while found[-1].before is not None:
        found.append(await read_transcript(read, found[-1].before, limit))
        assert len(found) <= len(events) + 1
    return found


def whole(found: list[TranscriptPage]) -> list[TranscriptMessage | TranscriptFact]:
    return [item for page in reversed(found) for item in page.messages]


@given(st.integers(0, 2**32), st.integers(1, 40))
async def test_pages_put_together_are_the_whole(seed: int, limit: int) -> None:
    events = numbered(session(random.Random(seed), 3))
    assert whole(await pages(events, limit)) == list(told(events))


@given(st.integers(0, 2**32), st.integers(1, 10), st.data())
async def test_a_damaged_journal_loses_no_more_than_its_records(seed: int, limit: int, data: st.DataObject) -> None:
    """What is missing on disk must not make a page endless, or hide what is there."""
    events = numbered(session(random.Random(seed), 2))
    lost = data.draw(st.sets(st.sampled_from(range(len(events))), max_size=5))
    left = [event for at, event in enumerate(events) if at not in lost]
    found = whole(await pages(left, limit))
    assert [item.seq for item in found] == sorted({item.seq for item in found})
    assert {item.seq for item in found} >= {event.seq for event in left if isinstance(event, MessageCreated)}


@given(st.integers(0, 2**32))
async def test_each_message_and_each_result_is_told_once(seed: int) -> None:
    events = numbered(session(random.Random(seed), 3))
    items = told(events)
    messages = [item.id for item in items if isinstance(item, TranscriptMessage)]
    assert messages == [event.message.id for event in events if isinstance(event, MessageCreated)]
    results = {
        call.id: call.status
        for item in items
        if isinstance(item, TranscriptMessage)
        for call in item.calls
        if call.finished_at is not None
    }
    assert results == {event.tool_call_id: event.status for event in events if isinstance(event, ToolCallCompleted)}


def test_every_kind_of_event_is_told_or_is_silent_on_purpose() -> None:
    events = one_of_each()
    told_of = {item.event["type"] for item in told(events) if isinstance(item, TranscriptFact)}
    silent = {"checkpoint.written", "message.queued", "turn.started", "turn.finished", "message.created"}
    assert told_of == {event.type for event in events} - silent


async def test_a_page_is_bounded_by_its_limit_however_long_the_session_is() -> None:
    said = [MessageCreated(message=UserMessage(id=f"msg_{n}", parts=(TextPart(text="x"),))) for n in range(2000)]
    events = numbered(said)
    reads: list[int] = []

    async def read(before: int | None, count: int) -> list[Event]:
        reads.append(count)
        return [event for event in events if before is None or event.seq < before][-count:]

    page = await read_transcript(read, None, 50)
    assert len(page.messages) == 50
    assert sum(reads) == CHUNK


async def test_a_call_whose_answer_is_far_away_is_not_parted_from_it() -> None:
    calls = tuple(ToolCall(id=f"call_{n}", name="read", arguments="{}") for n in range(600))
    answer = MessageCreated(message=AssistantMessage(id="msg_a", tool_calls=calls))
    created: list[Event] = [ToolCallCreated(tool_call_id=call.id) for call in calls]
    done: list[Event] = [ToolCallCompleted(tool_call_id=call.id, status="ok") for call in calls]
    found = await pages(numbered([MessageQueued(), answer, *created, *done]), 1)
    (message,) = found[0].messages
    assert isinstance(message, TranscriptMessage)
    assert {call.status for call in message.calls} == {"ok"}


@pytest.fixture
def script() -> list[Answer]:
    return [a_write(), Answer("It is written.")]


async def test_a_run_over_http_reads_as_it_happened(tmp_path: Path, script: list[Answer]) -> None:
    async with served(tmp_path, script) as door:
        session_id = await door.session(title="Tea")
        await door.say(session_id, "Write about tea.")
        waiting = await transcript(door, session_id)
        (call,) = calls_in(waiting)
        assert call["status"] == "waiting_approval"
        assert "outcome" not in call["approvals"][0]
        approval = call["approvals"][0]["approval"]["id"]
        answer = await door.control(
            session_id, control="resume", approvalId=approval, decision="allow", note="go on", arguments=None
        )
        assert answer.status == 202
        async with door.living.runtime.visit(door.living.home, session_id) as session:
            await session.idle()
        told_all = await transcript(door, session_id)
        (call,) = calls_in(told_all)
        assert call["status"] == "ok"
        assert call["arguments"]["path"] == "KNOWLEDGE.md"
        assert call["decision"]["layer"] == "person"
        assert call["commit"]
        (asked,) = call["approvals"]
        assert (asked["outcome"], asked["note"], asked["by"]) == ("allowed", "go on", "user")
        kinds = [item["event"]["type"] if item["kind"] == "fact" else item["said"] for item in told_all["messages"]]
        assert kinds == [
            *("session.created", "run.started", "note", "input", "answer", "run.resumed", "home.changed"),
            *("answer", "run.finished"),
        ]
        last = told_all["messages"][-2]
        assert last["parts"][0]["text"] == "It is written."
        assert last["usage"]["outputTokens"] > 0
        assert "before" not in told_all
        assert await by_twos(door, session_id) == told_all["messages"]


async def transcript(door: Served, session_id: str, query: str = "") -> dict[str, list[dict[str, object]]]:
    reply = await door.ask("GET", f"/api/agents/ada/sessions/{session_id}/transcript{query}")
    assert reply.status == 200, reply
    return reply.json


async def by_twos(door: Served, session_id: str) -> list[object]:
    page = await transcript(door, session_id, "?limit=2")
    found: list[object] = list(page["messages"])
    while "before" in page:
        page = await transcript(door, session_id, f"?limit=2&before={page['before']}")
        found = [*page["messages"], *found]
    return found


def calls_in(page: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    return [call for item in page["messages"] for call in item.get("calls", ())]
