"""How a part of a large text file is shown: in one pass that keeps next to nothing, and later ones that skip to it."""

import bisect
import codecs
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from harnessd.tools.looks import Binary, look
from harnessd.tools.rooted import Opened

CHUNK = 1024 * 1024
"""Bytes that are read at a time."""

Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place to begin at: `lines` line ends stand before the byte `at`; `pending` is what the decoder holds."""

    lines: int
    at: int
    pending: tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a file found: its blob id, how many lines it has, and marks on the way."""

    stamp: Stamp
    blob: str
    lines: int
    marks: tuple[Mark, ...]


@dataclass(slots=True)
class Window:
    """Takes the lines from `first` on as text streams by, as long as there is room; no more than `width` of a line."""

    first: int
    limit: int
    room: int
    width: int
    lines: list[str] = field(default_factory=list)
    number: int = 1
    full: bool = False
    _line: list[str] = field(default_factory=list)
    _length: int = 0

    def take(self, text: str) -> None:
        """The next piece of the file, with plain line feeds."""
        if self.full:
            return
        if self.number + text.count("\n") < self.first:
            self.number += text.count("\n")
            return
        at = 0
        while not self.full:
            end = text.find("\n", at)
            piece = text[at : len(text) if end < 0 else end + 1]
            if self.number >= self.first:
                self._add(piece)
            if end < 0:
                return
            self.number += 1
            at = end + 1
            if self.number > self.first:
                self._close()

    def end(self) -> None:
        """There is no more text."""
        if self._length:
            self._close()

    def _add(self, piece: str) -> None:
        self._length += len(piece)
        kept = sum(map(len, self._line))
        if kept < self.width:
            self._line.append(piece[: self.width - kept])

    def _close(self) -> None:
        line, length = "".join(self._line), self._length
        if length > self.width:
            line += f"[… {length - self.width:,} characters of this line left out]\n"
        self._line, self._length = [], 0
        if len(line) > self.room or len(self.lines) >= self.limit:
            self.full = True
            return
        self.room -= len(line)
        self.lines.append(line)
        self.full = len(self.lines) == self.limit


def survey(opened: Opened, window: Window, chunk_size: int = CHUNK) -> Survey | Binary:
    """One pass over the whole file: fills `window`, or says what the file is if it is no text."""
    head = os.pread(opened.file.fileno(), 4096, 0)
    wide = _wide(head)
    known = look(head.rstrip(_NO_ASCII)) if wide is None else None  # the sample's end may be half a character
    if isinstance(known, Binary):
        return known
    decoder = codecs.getincrementaldecoder(wide or "utf-8")("replace")
    digest = hashlib.sha1(b"blob %d\0" % opened.status.st_size, usedforsecurity=False)
    marks, lines, odd, characters, at, held, last = list[Mark](), 0, 0, 0, 0, "", ""
    for chunk in _chunks(opened, 0, chunk_size):
        digest.update(chunk)
        if wide is None and b"\0" in chunk:
            return Binary("a binary file")
        if not held and (characters or not at):
            marks.append(Mark(lines, at, decoder.getstate()))
        text, held = _plain(held + decoder.decode(chunk), begins=not characters)
        odd, characters = odd + text.count("\ufffd"), characters + len(text)
        lines += text.count("\n")
        at += len(chunk)
        last = text[-1:] or last
        window.take(text)
    rest = held + decoder.decode(b"", final=True)
    window.take(rest)
    window.end()
    if odd > max(8, characters // 10):
        return Binary("a binary file, or text in another encoding than UTF-8")
    lines += (rest[-1:] or last) not in {"", "\n"}  # one more that has no line end
    return Survey(stamp_of(opened.status), digest.hexdigest(), lines, tuple(marks))


def revisit(opened: Opened, known: Survey, window: Window, chunk_size: int = CHUNK) -> None:
    """Fills `window` from a file that a survey knows, starting at the last mark before it."""
    place = max(0, bisect.bisect_left(known.marks, window.first - 1, key=lambda mark: mark.lines) - 1)
    mark = known.marks[place]
    decoder = codecs.getincrementaldecoder(_wide(os.pread(opened.file.fileno(), 2, 0)) or "utf-8")("replace")
    decoder.setstate(mark.pending)
    window.number, held, begins = mark.lines + 1, "", mark.at == 0
    for chunk in _chunks(opened, mark.at, chunk_size):
        text, held = _plain(held + decoder.decode(chunk), begins=begins)
        begins = begins and not text
        window.take(text)
        if window.full:
            return
    window.take(held + decoder.decode(b"", final=True))
    window.end()


def stamp_of(status: os.stat_result) -> Stamp:
    """What changes whenever a file does, as far as its status can tell; the blob id tells for sure."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


_NO_ASCII = bytes(range(0x80, 0x100))


def _wide(head: bytes) -> str | None:
    """The encoding of a file in UTF-16."""
    marks = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
    return next((name for mark, name in marks if head.startswith(mark)), None)


def _chunks(opened: Opened, at: int, size: int) -> Iterator[bytes]:
    """The file from the byte `at` to where it ended when it was opened."""
    while at < opened.status.st_size:
        chunk = os.pread(opened.file.fileno(), min(size, opened.status.st_size - at), at)
        if not chunk:
            return
        yield chunk
        at += len(chunk)


def _plain(text: str, *, begins: bool) -> tuple[str, str]:
    """With line feeds only and no byte order mark, and the carriage return at its end that may be half a line end."""
    held = "\r" if text.endswith("\r") else ""
    text = text[: len(text) - len(held)].replace("\r\n", "\n")
    return text.removeprefix("\ufeff") if begins else text, held
