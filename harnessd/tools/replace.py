"""What does a text become when exact passages of it are replaced, every byte outside them unchanged.

A passage is given with plain line feeds, as the model saw it; it matches a file with CRLF or mixed line ends
too, and what is put in takes the line ends of the place it goes to. Byte order mark, encoding and a missing last
line end stay as they are.
"""

import codecs
from dataclasses import dataclass

SHOWN_MATCHES = 5

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the one occurrence of `old` by `new`."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Why an edit does not apply; the message is for the model. `number` counts edits from 1."""

    number: int
    message: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """The new bytes, and each edit as the exact text that was taken out and put in, line ends included."""

    data: bytes
    exact: tuple[tuple[str, str], ...]


def replace_exactly(data: bytes, edits: tuple[Edit, ...]) -> Replacement | NoMatch:
    """`data` after the edits, one after another, each of which must match exactly once."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    # Bytes that are no text of this encoding pass through as lone surrogates and come out as they were.
    errors = "surrogateescape" if encoding == "utf-8" else "surrogatepass"
    try:
        text = data[len(mark) :].decode(encoding, errors)
    except UnicodeDecodeError as error:
        return NoMatch(1, f"the file is not valid {encoding}: {error.reason} at byte {error.start + len(mark)}")
    exact: list[tuple[str, str]] = []
    for number, edit in enumerate(edits, 1):
        found = _replace_one(text, edit, number)
        if isinstance(found, NoMatch):
            return found
        text, taken, put = found
        exact.append((taken, put))
    return Replacement(mark + text.encode(encoding, errors), tuple(exact))


def plain_lines(text: str) -> str:
    """The text with line feeds only, as a model reads it."""
    return text.replace("\r\n", "\n")


def _replace_one(text: str, edit: Edit, number: int) -> tuple[str, str, str] | NoMatch:
    shown, new = plain_lines(text), plain_lines(edit.new)
    old = edit.old if edit.old in shown else plain_lines(edit.old)
    if not old:
        return NoMatch(number, "`old` is empty; give the passage to replace")
    if old == new:
        return NoMatch(number, "`old` and `new` are the same")
    places = _occurrences(shown, old)
    if not places:
        return NoMatch(number, _not_found(shown, old))
    if len(places) > 1:
        lines = ", ".join(str(shown.count("\n", 0, place) + 1) for place in places[:SHOWN_MATCHES])
        more = " and more" if len(places) > SHOWN_MATCHES else ""
        return NoMatch(number, f"`old` matches at lines {lines}{more}; add surrounding text until it matches once")
    start = _raw_offset(text, shown, places[0])
    end = _raw_offset(text, shown, places[0] + len(old))
    put = new.replace("\n", _line_end(text, start, end))
    return text[:start] + put + text[end:], text[start:end], put


def _occurrences(text: str, passage: str) -> list[int]:
    places: list[int] = []
    at = text.find(passage)
    while at >= 0 and len(places) <= SHOWN_MATCHES:
        places.append(at)
        at = text.find(passage, at + 1)
    return places


def _raw_offset(text: str, shown: str, offset: int) -> int:
    """Where the character `offset` of the shown text stands in the real one: one further for each CRLF before it."""
    if len(text) == len(shown):
        return offset
    at = passed = 0
    while True:
        pair = text.find("\r\n", at)
        if pair < 0 or pair - passed >= offset:
            return offset + passed
        passed += 1
        at = pair + 2


def _line_end(text: str, start: int, end: int) -> str:
    """The line end in use at this place: inside it, else the next one after it, else the last one before it."""
    inside = text.find("\n", start, end)
    place = inside if inside >= 0 else text.find("\n", end)
    if place < 0:
        place = text.rfind("\n", 0, start)
    return "\r\n" if place > 0 and text[place - 1] == "\r" else "\n"


def _not_found(shown: str, old: str) -> str:
    squeezed = " ".join(old.split())
    if squeezed and squeezed in " ".join(shown.split()):
        return "`old` is not in the file; a passage that differs only in spaces or line ends is. Copy it exactly"
    return "`old` is not in the file; read the file and copy the passage exactly"
