"""Which parts of a file are new to the session."""

from hypothesis import given
from hypothesis import strategies as st

from harnessd.tools.seen import Seen


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=12))
def test_a_part_is_new_while_a_line_of_it_was_not_shown(parts: list[tuple[int, int]]) -> None:
    seen, shown = Seen(), set[int]()
    seen.note("/a", b"text")
    for first, count in parts:
        lines = set(range(first, first + count))
        assert seen.part("/a", first, first + count - 1) == (not lines <= shown)
        shown |= lines


def test_another_version_of_the_file_is_new() -> None:
    seen = Seen()
    seen.note("/a", b"one")
    assert seen.part("/a", 1, 5)
    assert not seen.part("/a", 1, 5)
    seen.note("/a", b"two")
    assert seen.part("/a", 1, 5)
