"""Which bytes does a Range header ask for? The table of RFC 9110, 14.1 and 14.2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.api.ranges import Span, Unsatisfiable, span_of

WHOLE = None
UNMET = Unsatisfiable()
TABLE: list[tuple[str, int, Span | Unsatisfiable | None]] = [
    ("bytes=0-0", 10, Span(0, 1)),
    ("bytes=0-4", 10, Span(0, 5)),
    ("bytes=5-", 10, Span(5, 10)),
    ("bytes=9-", 10, Span(9, 10)),
    ("bytes=0-", 10, Span(0, 10)),
    ("bytes=2-200", 10, Span(2, 10)),
    ("bytes=-3", 10, Span(7, 10)),
    ("bytes=-10", 10, Span(0, 10)),
    ("bytes=-11", 10, Span(0, 10)),
    ("BYTES=1-2", 10, Span(1, 3)),
    ("bytes = 1-2 ", 10, Span(1, 3)),
    ("bytes=007-08", 10, Span(7, 9)),
    ("bytes=10-", 10, UNMET),
    ("bytes=10-11", 10, UNMET),
    ("bytes=-0", 10, UNMET),
    ("bytes=0-", 0, UNMET),
    ("bytes=-1", 0, UNMET),
    ("bytes=0-0", 0, UNMET),
    ("bytes=4-3", 10, WHOLE),
    ("bytes=-", 10, WHOLE),
    ("bytes=", 10, WHOLE),
    ("bytes", 10, WHOLE),
    ("", 10, WHOLE),
    ("bytes=a-b", 10, WHOLE),
    ("bytes=1-2-3", 10, WHOLE),
    ("bytes=--1", 10, WHOLE),
    ("bytes=+1-2", 10, WHOLE),
    ("bytes=1.0-2", 10, WHOLE),
    ("bytes=٣-٤", 10, WHOLE),
    ("bytes=" + "9" * 40 + "-", 10, WHOLE),
    ("lines=0-1", 10, WHOLE),
    ("bytes=0-1,3-4", 10, WHOLE),
    ("bytes=0-0,", 10, WHOLE),
    (",bytes=0-0", 10, WHOLE),
]


@pytest.mark.parametrize(("header", "size", "span"), TABLE)
def test_p5_a_range_header_means_one_span_or_the_whole(header: str, size: int, span: object) -> None:
    assert span_of([header], size) == span


def test_no_header_and_two_of_them_mean_the_whole() -> None:
    assert span_of([], 10) is None
    assert span_of(["bytes=0-1", "bytes=0-1"], 10) is None


@given(st.text(max_size=20).map(lambda text: f"bytes={text}") | st.text(max_size=30), st.integers(0, 50))
def test_p5_any_header_gives_a_span_inside_or_none(header: str, size: int) -> None:
    span = span_of([header], size)
    if isinstance(span, Span):
        assert 0 <= span.start < span.end <= size
