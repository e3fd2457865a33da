"""Which records a journal file holds: forwards from a seq or a byte, backwards in pages, from its last byte.

Nothing here writes or takes a lock; a journal may be read while another process appends to it. Damage is stepped
over and told: a record is lost only if its own bytes are. The cost of finding a seq or the end does not grow with
the file (a binary search over byte positions).
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harnessd.errors import SessionNotFound, StorageError
from harnessd.facts.event import Event
from harnessd.journal.line import PREFIX, Damaged, check, decode, unframe

CHUNK = 256 * 1024
PROBE = 4 * 1024


@dataclass(frozen=True, slots=True)
class Record:
    """A good record: its bytes lie at `start` up to `end`, where its line feed is included."""

    start: int
    end: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from `start` up to `end` that are no record. `torn`: the file ends in them, without a line feed."""

    start: int
    end: int
    reason: str
    data: bytes
    torn: bool = False


def read_events(path: Path, after: int = 0) -> Iterator[Event]:
    """Every event with a seq above `after`, in order; damage and repetitions are left out.

    Raises `SessionNotFound` if there is no such journal, `StorageError` if it cannot be read.
    """
    with open_to_read(path) as file:
        start = position_after(file, after) if after > 0 else 0
        for event, _ in events_from(file, start, after):
            yield event


def read_page(path: Path, before: int | None, count: int) -> list[Event]:
    """The last `count` events with a seq below `before` (None: of all), in order, reading little more than them.

    Raises as `read_events` does.
    """
    with open_to_read(path) as file:
        end = _size(file) if before is None else position_after(file, before - 1)
        found: list[Event] = []
        lowest = before
        for piece in scan_backwards(file, end):
            event = decode(piece.data) if isinstance(piece, Record) else None
            if isinstance(event, Event) and (lowest is None or event.seq < lowest):
                found.append(event)
                lowest = event.seq
                if len(found) >= count:
                    return found[::-1]
        return found[::-1]


def open_to_read(path: Path) -> BinaryIO:
    """The journal, open for reading. Raises `SessionNotFound` or `StorageError`; a pipe in its place does not block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return os.fdopen(fd, "rb")
        os.close(fd)
        raise StorageError("this is no file", where=str(path), hint="look at what stands in its place")
    except FileNotFoundError as error:
        raise SessionNotFound("there is no such session", where=str(path), hint="list them first") from error
    except OSError as error:
        raise StorageError(f"the journal cannot be read: {error.strerror}", where=str(path)) from error


def scan(file: BinaryIO, start: int = 0, chunk_size: int = CHUNK) -> Iterator[Record | Damage]:
    """Everything in the file from byte `start` on, which is the beginning of a line."""
    file.seek(start)
    rest = b""
    while chunk := file.read(chunk_size):
        head, feed, tail = chunk.rpartition(b"\n")
        if not feed:
            rest += chunk
            continue
        for line in (rest + head).split(b"\n"):
            yield from _pieces(line + b"\n", start)
            start += len(line) + 1
        rest = tail
    if rest:
        yield from _pieces(rest, start)


def scan_backwards(file: BinaryIO, end: int | None = None, chunk_size: int = CHUNK) -> Iterator[Record | Damage]:
    """Everything in the file before byte `end` (None: its size), the last piece first; little more is read."""
    end = _size(file) if end is None else end
    for line in _lines_backwards(file, end, chunk_size):
        end -= len(line)
        yield from reversed(_pieces(line, end))


def events_from(file: BinaryIO, start: int, after: int) -> Iterator[tuple[Event, int]]:
    """The events from byte `start` on whose seq goes on rising from `after`, each with the end of its bytes."""
    for piece in scan(file, start):
        if isinstance(piece, Record):
            event = decode(piece.data)
            if isinstance(event, Event) and event.seq > after:
                after = event.seq
                yield event, piece.end


def position_after(file: BinaryIO, seq: int) -> int:
    """The byte at which the first record with a seq above `seq` begins; the file's size if there is none."""
    low, high = 0, _size(file)
    while high - low > PROBE:
        middle = (low + high) // 2
        found = _first_seq(file, middle, high)
        if found is not None and found[0] <= seq:
            low = found[1]
        else:
            high = middle
    for piece in scan(file, low, PROBE):
        if isinstance(piece, Record) and seq_of(piece.data) > seq:
            return piece.start
    return _size(file)


def seq_of(data: bytes) -> int:
    """The seq that a good record bears; 0 if it bears none."""
    fields = unframe(data)
    seq = 0 if isinstance(fields, Damaged) else fields.get("seq", 0)
    return seq if isinstance(seq, int) else 0


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _first_seq(file: BinaryIO, start: int, high: int) -> tuple[int, int] | None:
    """The seq of the first good record whose line begins between `start` and `high`, and where that begins."""
    file.seek(start)
    skipped = file.readline()
    for piece in scan(file, start + len(skipped), PROBE):
        if piece.start >= high:
            return None
        if isinstance(piece, Record):
            return seq_of(piece.data), piece.start
    return None


def _lines_backwards(file: BinaryIO, end: int, chunk_size: int) -> Iterator[bytes]:
    """The lines before byte `end`, the last one first."""
    rest = b""
    while end > 0:
        start = max(0, end - chunk_size)
        file.seek(start)
        data = file.read(end - start) + rest
        # What comes first may have begun before this chunk; it waits for the next one.
        first, feed, others = data.partition(b"\n") if start else (b"", b"", data)
        yield from reversed(_split(others))
        end, rest, chunk_size = start, first + feed, min(2 * chunk_size, max(CHUNK, chunk_size))


def _split(data: bytes) -> list[bytes]:
    *lines, tail = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([tail] if tail else [])


def _pieces(line: bytes, start: int) -> list[Record | Damage]:
    """The line as one record, or, if it is damaged, the records that can still be made out in it.

    A flipped line feed joins two records into one line; each of them begins with `PREFIX`, which no string holds.
    """
    fault = check(line)
    if fault is None:
        return [Record(start, start + len(line), line)]
    pieces: list[Record | Damage] = []
    bounds = _beginnings(line)
    for begin, end in zip(bounds, [*bounds[1:], len(line)], strict=True):
        data = line[begin:end]
        kept = next((part for part in (data, data[:-1]) if check(part) is None), None)
        if kept is not None:
            pieces.append(Record(start + begin, start + end, kept))
        else:
            torn = end == len(line) and not line.endswith(b"\n")
            pieces.append(Damage(start + begin, start + end, fault, data, torn))
    return pieces


def _beginnings(line: bytes) -> list[int]:
    found = [0]
    while (at := line.find(PREFIX, found[-1] + 1)) >= 0:
        found.append(at)
    return found
