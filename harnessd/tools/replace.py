"""What does a text become when exact passages of it are replaced, every byte outside them unchanged.

A passage is given with plain line feeds, as the model saw it; it matches a file with CRLF or mixed line ends
too, and what is put in takes the line ends of the place it goes to. Byte order mark, encoding and a missing last
line end stay as they are. All of it works on bytes: a file of 100 MB costs one more of its kind, not a multiple.
"""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

SHOWN_MATCHES = 5
PLACES_AT_MOST = 100_000
"""Places that one edit changes."""

SOUGHT_LOOSELY = 2000
"""Characters of a passage that was not found up to which its like with other spaces is looked for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the one occurrence of `old` by `new`; with `everywhere`, each of them."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Why an edit does not apply; the message is for the model. `number` counts edits from 1."""

    number: int
    message: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """The bytes from `start` to `end` of the old text are now `length` bytes of the new one."""

    start: int
    end: int
    length: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """The new bytes, and what happened to the old ones.

    `exact` is each edit as the text that was taken out and the one put in, line ends included; None if that does not
    say it all (an edit of several places, a file in UTF-16). `hunks` are places in the UTF-8 texts `old` and `new`,
    which are the bytes themselves unless the file is in UTF-16.
    """

    data: bytes
    exact: tuple[tuple[str, str], ...] | None
    hunks: tuple[Hunk, ...]
    old: bytes
    new: bytes


def replace_exactly(data: bytes, edits: tuple[Edit, ...]) -> Replacement | NoMatch:
    """`data` after the edits, one after another, each of which must match exactly once unless it says `everywhere`."""
    encoding = next((name for mark, name in _WIDE if data.startswith(mark)), None)
    old = data
    if encoding is not None:
        try:
            old = data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            return NoMatch(1, f"the file is not valid {encoding}: {error.reason} at byte {error.start}")
    first = len(codecs.BOM_UTF8) if old.startswith(codecs.BOM_UTF8) else 0
    new, exact, hunks = old, list[tuple[str, str]](), tuple[Hunk, ...]()
    for number, edit in enumerate(edits, 1):
        found = _find(new, edit, first)
        if isinstance(found, str):
            return NoMatch(number, found + (_undone(old, new, edit, first) if number > 1 else ""))
        if len(found) == 1:
            exact.append((new[found[0].start : found[0].end].decode(), found[0].put.decode()))
        hunks = _joined(hunks, found)
        new = _put(new, found)
    whole = encoding is not None or len(exact) != len(edits)
    after = new if encoding is None else new.decode("utf-8", "surrogatepass").encode(encoding, "surrogatepass")
    return Replacement(after, None if whole else tuple(exact), hunks, old, new)


def plain_lines(text: str) -> str:
    """The text with line feeds only, as a model reads it."""
    return text.replace("\r\n", "\n")


_WIDE = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class _Place:
    """What is put in place of the bytes from `start` to `end`."""

    start: int
    end: int
    put: bytes


def _find(text: bytes, edit: Edit, first: int) -> tuple[_Place, ...] | str:
    """Where the edit applies, from the byte `first` on; or why it does not."""
    if not edit.old:
        return "`old` is empty; give the passage to replace"
    new = plain_lines(edit.new)
    spans, passage = _occurrences(text, edit.old, first, edit.everywhere), edit.old
    if not spans and "\r\n" in edit.old:
        passage = plain_lines(edit.old)
        spans = _occurrences(text, passage, first, edit.everywhere)
    if passage == new:
        return "`old` and `new` are the same"
    if not spans:
        return _not_found(text, passage)
    if len(spans) > 1 and not edit.everywhere:
        lines = ", ".join(str(_line(text, start)) for start, _ in spans[:SHOWN_MATCHES])
        more = " and more" if len(spans) > SHOWN_MATCHES else ""
        return (
            f"`old` matches at lines {lines}{more}; add surrounding text until it matches once, "
            'or say "all": true to replace it everywhere'
        )
    if len(spans) > PLACES_AT_MOST:
        return f"`old` occurs more than {PLACES_AT_MOST:,} times; use a program for that"
    put = new.encode()
    if "\n" not in new:
        return tuple(_Place(start, end, put) for start, end in spans)
    return tuple(_Place(start, end, put.replace(b"\n", _line_end(text, start, end))) for start, end in spans)


def _occurrences(text: bytes, passage: str, first: int, everywhere: bool) -> list[tuple[int, int]]:
    """The spans of the passage: all that do not overlap, or the first few, overlapping or not, to tell of them."""
    sought = passage.encode()
    hides_line_ends = ("\n" in passage or passage.endswith("\r")) and b"\r\n" in text
    shown = text.replace(b"\r\n", b"\n") if hides_line_ends else text
    place = _Cursor(text) if hides_line_ends else None
    spans: list[tuple[int, int]] = []
    at = shown.find(sought, first)
    while at >= 0 and len(spans) <= (PLACES_AT_MOST if everywhere else SHOWN_MATCHES):
        end = at + len(sought)
        spans.append((at, end) if place is None else (place.to(at), place.to(end, keep=False)))
        at = shown.find(sought, end if everywhere else at + 1)
    return spans


class _Cursor:
    """Goes from offsets in the shown text, in rising order, to those in the real one: one further for each CRLF."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.counted = self.pairs = 0

    def to(self, offset: int, *, keep: bool = True) -> int:
        """Where the shown byte `offset` really stands; a later question may lie before it unless `keep`."""
        counted, pairs, real = self.counted, self.pairs, offset + self.pairs
        while True:
            # A pair that begins before the place ends before it too: nothing stands between its two bytes.
            pairs += self.text.count(b"\r\n", max(0, counted - 1), real + 1)
            counted = max(counted, real + 1)
            if offset + pairs == real:
                break
            real = offset + pairs
        if keep:
            self.counted, self.pairs = counted, pairs
        return real


def _line(text: bytes, place: int) -> int:
    return text.count(b"\n", 0, place) + 1


def _line_end(text: bytes, start: int, end: int) -> bytes:
    """The line end in use at this place: inside it, else the next one after it, else the last one before it."""
    place = text.find(b"\n", start, end)
    if place < 0:
        place = text.find(b"\n", end)
    if place < 0:
        place = text.rfind(b"\n", 0, start)
    return b"\r\n" if place > 0 and text[place - 1 : place] == b"\r" else b"\n"


def _not_found(text: bytes, passage: str) -> str:
    words = passage.encode().split()
    if words and len(passage) <= SOUGHT_LOOSELY:
        loose = re.compile(rb"\s+".join(map(re.escape, words)))
        if like := loose.search(text):
            line = _line(text, like.start())
            return (
                f"`old` is not in the file; a passage that differs only in spaces or line ends is at line {line}. "
                "Copy it exactly"
            )
    head = next((line.strip() for line in passage.encode().splitlines() if line.strip()), b"")
    at = text.find(head) if b"\n" in passage.strip().encode() and head else -1
    place = f"; its first line is at line {_line(text, at)}, what follows differs" if at >= 0 else ""
    return f"`old` is not in the file{place}; read the file and copy the passage exactly"


def _undone(old: bytes, new: bytes, edit: Edit, first: int) -> str:
    """A word on an edit that would have applied had there been none before it in the call."""
    if isinstance(_find(old, edit, first), str) or old is new:
        return ""
    return ". It would have matched before the edits that come first in this call; they are made one after another"


def _put(text: bytes, places: Iterable[_Place]) -> bytes:
    view, pieces, at = memoryview(text), list[bytes | memoryview](), 0
    for place in places:
        pieces += (view[at : place.start], place.put)
        at = place.end
    return b"".join((*pieces, view[at:]))


def _joined(hunks: tuple[Hunk, ...], places: tuple[_Place, ...]) -> tuple[Hunk, ...]:
    """The hunks of earlier edits and these places of the text they led to, as hunks of the first text."""
    grown = 0
    # Each piece in the text between: begin, end, by how much an earlier edit had changed its length, and this one does.
    pieces: list[tuple[int, int, int, int]] = []
    for hunk in hunks:
        change = hunk.length - (hunk.end - hunk.start)
        pieces.append((hunk.start + grown, hunk.start + grown + hunk.length, change, 0))
        grown += change
    pieces += ((place.start, place.end, 0, len(place.put) - (place.end - place.start)) for place in places)
    pieces.sort()
    joined, before = list[Hunk](), 0
    number = 0
    while number < len(pieces):
        begin, end, was, now = pieces[number]
        number += 1
        while number < len(pieces) and pieces[number][0] <= end:
            end, was, now = max(end, pieces[number][1]), was + pieces[number][2], now + pieces[number][3]
            number += 1
        joined.append(Hunk(begin - before, end - before - was, end - begin + now))
        before += was
    return tuple(joined)
