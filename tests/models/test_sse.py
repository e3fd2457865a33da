"""The reader of event streams: wherever the network cuts, the events are the same."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.models.sse import EventReader

STREAM = b': hello\r\n\r\nevent: x\r\ndata: {"a":1}\r\n\r\ndata:two\ndata: lines\n\nid: 7\ndata: [DONE]\n\ndata: last'
EVENTS = [b'{"a":1}', b"two\nlines", b"[DONE]", b"last"]


@given(cuts=st.sets(st.integers(0, len(STREAM))))
def test_l3_events_do_not_depend_on_where_the_network_cuts(cuts) -> None:
    reader, found = EventReader(), []
    for start, end in itertools.pairwise(sorted({0, len(STREAM), *cuts})):
        found += reader.feed(STREAM[start:end])
    assert found + reader.flush() == EVENTS


def test_an_event_without_end_is_bounded() -> None:
    reader = EventReader(max_event_bytes=100)
    with pytest.raises(ValueError):
        reader.feed(b"data: " + b"x" * 200)
