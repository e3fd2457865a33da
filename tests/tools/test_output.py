"""Text of a command's bytes: no control sequence gets through however it is cut, and what is kept is bounded."""

import time

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.tools.output import Cleaner, Kept, Teller

CLEANED = [
    (b"plain\n", "plain\n"),
    (b"\x1b[31mred\x1b[0m", "red"),
    (b"\x1b[1;38;5;200mmany\x1b[m", "many"),
    (b"\x1b]0;a title\x07after", "after"),
    (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    (b"\x1bP1$r0m\x1b\\after", "after"),
    (b"\x1b[2J\x1b[Hclear", "clear"),
    (b"\x1b(Bset", "set"),
    (b"\x1b7saved\x1b8", "saved"),
    (b"\xc2\x9b31mc1", "c1"),
    (b"bell\x07 null\x00 del\x7f", "bell null del"),
    (b"tab\tstays\n", "tab\tstays\n"),
    (b"dos\r\nlines\r\n", "dos\nlines\n"),
    (b" 10%\r 50%\r100%\n", "100%\n"),
    (b"\xff\xfe bad", "\\xff\\xfe bad"),
    (b"half \xe2\x82", "half \\xe2\\x82"),
    ("é € 😀".encode(), "é € 😀"),
    (b"ends in \x1b[3", "ends in [3"),
    (b"a lone \x1b", "a lone "),
]


@pytest.mark.parametrize(("given_bytes", "text"), CLEANED)
def test_what_is_no_text_is_taken_out_wherever_the_bytes_are_cut(given_bytes: bytes, text: str) -> None:
    for cut in range(len(given_bytes) + 1):
        kept, cleaner = Kept(0, 1000), Cleaner()
        kept.add(cleaner.feed(given_bytes[:cut]))
        kept.add(cleaner.feed(given_bytes[cut:]))
        kept.add(cleaner.feed(b"", last=True))
        assert kept.text() == text, cut


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_no_control_character_gets_through(pieces: list[bytes]) -> None:
    cleaner = Cleaner()
    text = "".join(cleaner.feed(piece) for piece in pieces) + cleaner.feed(b"", last=True)
    assert not [char for char in text if (ord(char) < 32 and char not in "\n\t\r") or 0x7F <= ord(char) < 0xA0]


LONG = [
    b"a",
    b"\r",
    b"\ra",
    b"\x1b",
    b"\x1b]",
    b"\x1bP",
    b"\x1b[1",
    b"\x1b ",
    b"\xc2\x9b",
    b"\xff",
    b"a" * 99 + b"\r",
    b"\0",
]


@pytest.mark.parametrize("piece", LONG, ids=str)
def test_a_line_of_a_megabyte_takes_no_longer_than_many_lines(piece: bytes) -> None:
    cleaner, kept, began = Cleaner(), Kept(200_000, 800_000), time.monotonic()
    data = piece * (1_000_000 // len(piece))
    for at in range(0, len(data), 65_536):
        kept.add(cleaner.feed(data[at : at + 65_536]))
    kept.text()
    assert time.monotonic() - began < 3  # tried from every character it takes hours


def test_a_sequence_that_never_ends_holds_nothing_back_for_ever() -> None:
    cleaner = Cleaner()
    text = cleaner.feed(b"\x1b]0;" + b"x" * 10_000) + cleaner.feed(b"told\n")
    assert text.endswith("told\n")


@given(st.lists(st.text("ab\n", max_size=30), max_size=30), st.integers(0, 20), st.integers(1, 40))
def test_the_beginning_and_the_end_are_kept_and_the_cut_is_told(pieces: list[str], head: int, tail: int) -> None:
    kept, whole = Kept(head, tail), "".join(pieces)
    for piece in pieces:
        kept.add(piece)
    text = kept.text()
    if len(whole) <= head + tail:
        assert text == whole
        return
    assert text.startswith(whole[:head])
    assert text.endswith(whole[-tail:])
    assert f"{len(whole) - head - tail:,} characters" in text


def test_taking_begins_anew() -> None:
    kept = Kept(2, 3)
    kept.add("abcdefgh")
    assert kept.take().startswith("ab")
    kept.add("new")
    assert kept.take() == "new"
    assert kept.take() == ""


async def test_what_comes_fast_is_told_in_few_and_bounded_pieces() -> None:
    told: list[str] = []
    teller = Teller(told.append, pause=0.01, each=100, most=250)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(teller.go_on)
        for number in range(2000):
            teller.add(f"line {number}\n")
            if number % 50 == 0:
                await anyio.sleep(0.001)
        teller.flush()
        tasks.cancel_scope.cancel()
    assert 1 < len(told) <= 10
    assert sum(map(len, told)) < 600
    assert "not shown as it comes" in told[-1]
