"""Which bytes does a `Range` header ask for? One span, as RFC 9110 (14.1) has it; what is odd counts as not asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SPAN = re.compile(r"bytes\s*=\s*(?P<first>\d{0,18})-(?P<last>\d{0,18})\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `start` up to `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """A valid range that begins behind the end."""


def span_of(headers: Sequence[str], size: int) -> Span | Unsatisfiable | None:
    """The span asked for of `size` bytes; None for the whole: no range, several, another unit, or no valid one."""
    found = _SPAN.fullmatch(headers[0]) if len(headers) == 1 else None
    if found is None or not (found["first"] or found["last"]):
        return None
    if not found["first"]:
        suffix = int(found["last"])
        return Span(max(0, size - suffix), size) if suffix and size else Unsatisfiable()
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else size - 1
    if found["last"] and last < first:
        return None
    return Span(first, min(last + 1, size)) if first < size else Unsatisfiable()
