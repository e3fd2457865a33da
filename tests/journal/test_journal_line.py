"""The line: its checksum notices every changed bit, and whatever JSON can hold survives it."""

import json
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.event import Event, ToolCallCreated
from harnessd.journal.line import Damaged, body_of, check, decode, encode, frame
from tests.facts.samples import one_of_each
from tests.journal.desk import said

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event.type)
def test_f3_a_line_has_the_documented_shape(event: Event) -> None:
    line = encode(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    data = json.loads(line)
    assert list(data)[:5] == ["crc", "seq", "v", "at", "type"]
    prefix = f'{{"crc":"{data["crc"]}",'.encode()
    assert line.startswith(prefix)
    assert int(data["crc"], 16) == crc32(line[len(prefix) : -1])


@given(arguments=st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_f3_whatever_json_holds_comes_back(arguments: dict[str, object]) -> None:
    event = ToolCallCreated(seq=1, arguments=arguments)
    stored, body = body_of(event)
    assert decode(frame(body)) == stored
    assert stored == event


@given(st.text(st.characters(), max_size=20))
def test_f3_text_with_lone_surrogates_is_stored_as_it_will_be_read(text: str) -> None:
    event = said("x" + text + "\ud83d")
    stored, body = body_of(event)
    assert decode(frame(body)) == stored
    stored.model_dump_json()
    assert "\ufffd" in stored.model_dump_json()


def test_f3_any_flipped_bit_of_a_line_is_noticed() -> None:
    line = encode(said("tea 🍵").model_copy(update={"seq": 7}))
    for position in range(len(line) - 1):
        for bit in range(8):
            changed = bytearray(line)
            changed[position] ^= 1 << bit
            assert check(bytes(changed)) is not None, (position, bit)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}\n", b"[]", b'{"crc":"', b'{"crc":"00000000",', b"\0" * 40, b"\xff\xfe\n"]
)
def test_f3_what_is_no_line_is_damaged_with_a_reason(data: bytes) -> None:
    found = decode(data)
    assert isinstance(found, Damaged)
    assert found.reason
    assert found.data == data


def test_f3_a_right_checksum_over_no_json_is_damaged() -> None:
    assert isinstance(decode(frame(b"{not json}")), Damaged)
