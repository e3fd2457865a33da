"""The permanent record of one session: it only grows, it has one writer, and it opens whatever happened to it."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harnessd.errors import StorageError
from harnessd.facts.event import Event
from harnessd.journal.committer import Committer
from harnessd.journal.file import AppendFile, Disk, FileLock, lock_of, make_directory, storage_error, sync_directory
from harnessd.journal.line import decode, encode
from harnessd.journal.records import Damage, Record, read_events, read_page, scan

FLUSH_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Mark:
    """The record `seq` begins at byte `start`: where a checkpoint says that the journal stood."""

    seq: int
    start: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening found. `lost_tail_bytes` were never acknowledged; `aside` are the files that hold the bytes.

    Damage inside the journal stays where it is, since nothing rewrites a journal, and is stepped over for ever.
    `checked_from` is the byte from which on the journal was looked at; before it a checkpoint spoke for it.
    """

    lost_tail_bytes: int = 0
    damaged: tuple[str, ...] = ()
    aside: tuple[Path, ...] = ()
    checked_from: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not self.lost_tail_bytes and not self.damaged


class Journal:
    """An append-only file with one writer; belongs to one event loop. `last` is the last record, durable or not.

    `durable` is the seq up to which everything is on disk; `on_durable` is called, on the loop, when it rose.
    """

    def __init__(self, file: AppendFile, lock: FileLock, committer: Committer, last: Mark, recovery: Recovery) -> None:
        self.path = file.path
        self.last = last
        self.durable = last.seq
        self.recovery = recovery
        self.broken: StorageError | None = None
        self.on_durable: Callable[[], None] = lambda: None
        self._file = file
        self._lock = lock
        self._committer = committer
        self._end = file.size
        self._buffer: list[bytes] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._committing = False
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        committer: Committer,
        since: Mark | None = None,
        seen: Callable[[Event], None] = lambda event: None,
        disk: Disk | None = None,
    ) -> "Journal":
        """Opens `path`, creating it and its folders, and calls `seen` with each event after `since`. Blocks.

        A torn tail is moved to a file beside the journal; damaged records are copied there; no good record is
        dropped. Raises `Locked` with the pid of the other writer, `StorageError`.
        """
        make_directory(path.parent)
        lock = FileLock(lock_of(path))
        try:
            file = AppendFile(path, disk or Disk())
            try:
                last, recovery = _recover(file, since, seen)
            except BaseException:
                file.close()
                raise
        except BaseException:
            lock.close()
            raise
        return cls(file, lock, committer, last, recovery)

    def append(self, event: Event, line: bytes | None = None) -> None:
        """Takes the event in; it is on disk after the next `barrier`, or about 20 ms later. Never blocks.

        `event.seq` must be above `last.seq`. Raises `StorageError` while the journal is broken.
        """
        self.check()
        data = line if line is not None else encode(event)
        self._buffer.append(data)
        self.last = Mark(event.seq, self._end)
        self._end += len(data)
        if self._timer is None and not self._committing:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._commit)

    def check(self) -> None:
        """Raises `StorageError` while the journal cannot be written; a `barrier` that succeeds mends that."""
        if self.broken is not None:
            raise StorageError(self.broken.message, where=self.broken.where, hint=self.broken.hint)

    @property
    def pending(self) -> int:
        """How many events are not on disk yet."""
        return len(self._buffer)

    def flush(self) -> int:
        """Begins to put everything taken in on disk and returns its last seq; `barrier(seq)` waits for that."""
        self._commit()
        return self.last.seq

    async def barrier(self, seq: int | None = None) -> int:
        """Returns once everything up to `seq` (None: all that was taken in) is on disk; at once if it is.

        Raises `StorageError` if that failed: then nothing is forgotten, `append` refuses, and the next `barrier`
        tries again.
        """
        seq = self.last.seq if seq is None else seq
        if self.durable < seq:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((seq, future))
            self._commit()
            await future
        return seq

    def read(self, after: int = 0) -> Iterator[Event]:
        """Every event on disk with a seq above `after`. Blocks."""
        return read_events(self.path, after)

    def read_tail(self, before: int | None, count: int) -> list[Event]:
        """The last `count` events on disk below `before`, in order, without reading the whole file. Blocks."""
        return read_page(self.path, before, count)

    async def close(self) -> None:
        """Puts everything on disk and lets the file go, whatever happens. Raises `StorageError`; once is enough."""
        if self._closing:
            return
        try:
            await self.barrier()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._closing = True
            if not self._committing:
                self.let_go()

    def let_go(self) -> None:
        """Frees the file and the lock as they are; what was not yet put on disk is lost."""
        self._file.close()
        self._lock.close()

    def _commit(self) -> None:
        """Sends the buffer to the disk, unless that is under way; then the rest follows when it is done."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._committing or not self._buffer:
            return
        loop = asyncio.get_running_loop()
        upto, count = self.last.seq, len(self._buffer)

        def done(error: StorageError | None) -> None:
            try:
                loop.call_soon_threadsafe(self._committed, upto, count, error)
            except RuntimeError:
                return  # The loop is closed: nobody is left to be told.

        self._committing = True
        try:
            self._committer.submit(self._file, b"".join(self._buffer), done)
        except StorageError as error:
            self._committed(upto, count, error)

    def _committed(self, upto: int, count: int, error: StorageError | None) -> None:
        self._committing = False
        self.broken = error
        if error is None:
            self.durable = upto
            del self._buffer[:count]
            self.on_durable()
        waiting, self._waiting = self._waiting, []
        for seq, future in waiting:
            if future.done():
                continue
            if error is not None:
                future.set_exception(StorageError(error.message, where=error.where, hint=error.hint))
            elif seq <= upto:
                future.set_result(None)
            else:
                self._waiting.append((seq, future))
        if self._closing:
            self.let_go()
        elif self._waiting:
            self._commit()
        elif self._buffer and error is None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._commit)


def _recover(file: AppendFile, since: Mark | None, seen: Callable[[Event], None]) -> tuple[Mark, Recovery]:
    """Looks at the journal from `since` on, sets aside what is damaged, and leaves it ready to be appended to."""
    last, start = (since, since.start) if since else (Mark(0, 0), 0)
    aside: list[Path] = []
    damaged: list[str] = []
    torn: Damage | None = None
    lost_after_last = 0
    whole_until = start
    try:
        with file.path.open("rb") as reader:
            for piece in scan(reader, start):
                if isinstance(piece, Record):
                    event = decode(piece.data)
                    if isinstance(event, Event) and event.seq > last.seq:
                        last = Mark(event.seq, piece.start)
                        lost_after_last = 0
                        seen(event)
                    whole_until = piece.start + len(piece.data)
                elif piece.torn:
                    torn = piece
                else:
                    damaged.append(f"byte {piece.start}: {len(piece.data)} bytes: {piece.reason}")
                    lost_after_last += 1
                    whole_until = piece.end
                if isinstance(piece, Damage):
                    aside.append(_set_aside(file.path, piece))
    except OSError as error:
        raise storage_error(error, file.path) from error
    if torn is not None:
        whole_until = torn.start
    if whole_until < file.size:
        file.cut(whole_until)
    if whole_until and os.pread(file.fd, 1, whole_until - 1) != b"\n":
        file.commit(b"\n")
    # A record that was lost at the end had a number that others may have seen: it is not given twice.
    last = Mark(last.seq + lost_after_last, last.start)
    recovery = Recovery(len(torn.data) if torn else 0, tuple(damaged), tuple(aside), start)
    return last, recovery


def _set_aside(path: Path, damage: Damage) -> Path:
    """Copies the damaged bytes to `<journal>.damaged-<byte>` beside it, once, and returns that path."""
    for number in range(1, 1000):
        suffix = f".damaged-{damage.start}" + (f".{number}" if number > 1 else "")
        copy = path.with_name(path.name + suffix)
        try:
            fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if copy.read_bytes() == damage.data:
                return copy
            continue
        with os.fdopen(fd, "wb") as out:
            out.write(damage.data)
            out.flush()
            os.fsync(fd)
        sync_directory(path.parent)
        return copy
    raise StorageError("too many damaged copies at one place", where=str(path), hint="move the copies elsewhere")
