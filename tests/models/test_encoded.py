"""Encoded histories: the kept bytes always equal a fresh encoding."""

import json
import tracemalloc

from asking import READ, make_request, user
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.message import (
    AssistantMessage,
    FilePart,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from harnessd.models.encoded import EncodedHistories

texts = st.text(max_size=20)
parts = st.lists(
    st.builds(TextPart, text=texts)
    | st.builds(ImagePart, content_ref=st.sampled_from(["data:image/png;base64,AA==", "a/b.png"]))
    | st.builds(FilePart, path=texts),
    max_size=3,
).map(tuple)
calls = st.lists(
    st.builds(
        ToolCall,
        id=st.just("call_1"),
        name=texts,
        arguments=st.sampled_from(["{}", '{"a":1}', '{"a', "[]", ""]),
    ),
    max_size=2,
).map(tuple)
messages = (
    st.builds(UserMessage, parts=parts)
    | st.builds(AssistantMessage, parts=parts, tool_calls=calls)
    | st.builds(ToolMessage, tool_call_id=st.just("call_1"), parts=parts)
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "cut", "replace", "compact"]),
        st.integers(0, 5),
        st.lists(messages, max_size=3),
    ),
    max_size=8,
)


@given(steps=steps, note=st.none() | texts)
def test_h2_encoded_history_equals_a_fresh_encoding(steps, note) -> None:
    kept = EncodedHistories()
    history: list = []
    for what, where, new in steps:
        match what:
            case "append":
                history = [*history, *new]
            case "cut":
                history = history[:where]
            case "replace":
                history = [*history[:where], *new[:1], *history[where + 1 :]]
            case "compact":
                history = [*new, *history[where:]]
        request = make_request(messages=tuple(history), session_id="ses_1", context_note=note)
        body = kept.body(request, b'"model":"m"')
        assert body == EncodedHistories().body(request, b'"model":"m"')
        read = json.loads(body)
        for message in read["messages"]:
            assert message["content"] or message.get("tool_calls")
            for call in message.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_h2_the_prefix_of_a_growing_history_is_byte_identical() -> None:
    kept = EncodedHistories()
    history = [user("one")]
    before = kept.body(make_request(messages=history, session_id="s"), b'"m":1')
    after = kept.body(make_request(messages=[*history, user("two")], session_id="s"), b'"m":1')
    shared = before.index(b"]", before.index(b"one"))
    assert before[:shared] == after[:shared]


def test_a_message_is_encoded_once() -> None:
    first = user("one")
    kept = EncodedHistories()
    kept.body(make_request(messages=[first], session_id="s"), b'"m":1')
    # The kept bytes are used, not the message: a broken message of the same identity would not be read again.
    object.__setattr__(first, "parts", None)
    assert b"one" in kept.body(make_request(messages=[first, user("two")], session_id="s"), b'"m":1')


def test_o1_what_is_kept_is_bounded() -> None:
    kept = EncodedHistories(max_sessions=3, max_bytes=2_000)
    for number in range(50):
        kept.body(make_request(messages=[user("x" * 300)], session_id=f"s{number}"), b'"m":1')
    assert len(kept._sessions) <= 3
    assert kept._size == sum(history.size for history in kept._sessions.values()) <= 2_000
    kept.forget("s49")
    assert "s49" not in kept._sessions
    longer = make_request(messages=[user("one")], session_id="t", system="x" * 1000, tools=(READ,))
    kept.body(longer, b'"m":1')
    assert kept._sessions["t"].size > 1000 + len(json.dumps(READ.input_schema)) // 2
    kept.body(make_request(messages=longer.messages, session_id="t", system="x"), b'"m":1')
    assert kept._size == sum(history.size for history in kept._sessions.values()) < 1000


def test_o1_what_is_kept_takes_no_more_memory_than_is_counted() -> None:
    """The encoder gives bytes in a buffer that is far larger; a thousand short messages must not keep a thousand."""
    kept = EncodedHistories()
    messages = [user(f"{number} {'x' * 300}") for number in range(1000)]
    kept.body(make_request(messages=messages[:1], session_id="s"), b'"m":1')
    tracemalloc.start()
    try:
        kept.body(make_request(messages=messages, session_id="s"), b'"m":1')
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1.5 * kept._size


def test_tools_and_system_are_taken_up_when_they_change() -> None:
    kept = EncodedHistories()
    kept.body(make_request(session_id="s"), b'"m":1')
    changed = json.loads(kept.body(make_request(session_id="s", system="New.", tools=(READ, READ)), b'"m":1'))
    assert changed["messages"][0]["content"] == "New."
    assert len(changed["tools"]) == 2
    assert "tools" not in json.loads(kept.body(make_request(session_id="s", tools=()), b'"m":1'))


def test_a_summary_leaves_the_kept_history_alone() -> None:
    kept = EncodedHistories()
    kept.body(make_request(messages=[user("one")], session_id="s"), b'"m":1')
    before = kept._sessions["s"]
    summary = make_request(messages=[user("sum up")], session_id="s", purpose="summary")
    assert b"sum up" in kept.body(summary, b'"m":1')
    assert kept._sessions["s"] is before
    assert b"one" in kept.body(make_request(messages=[user("one")], session_id="s"), b'"m":1')
