"""When appended bytes are on disk: threads that write and sync for all journals of the process.

One thread does it as long as the disk keeps up; whatever came in while it was busy goes out together, one write and one
sync for each file. A slow disk syncs several files at once in the time that it takes for one, so others help then.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harnessd.errors import StorageError
from harnessd.journal.file import AppendFile

THREADS = 8
PATIENCE = 0.02
"""Seconds that an order waits before another thread helps: threads take turns in Python, which costs time as well."""

Done = Callable[[StorageError | None], None]


class Committer:
    """The first thread starts with the first submission, all end with `close`. Use one per process."""

    def __init__(self, threads: int = THREADS) -> None:
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._news = threading.Condition()
        self._waiting: dict[AppendFile, _Batch] = {}
        self._at_work: set[AppendFile] = set()
        self._resting = 0
        self._closed = False

    def submit(self, file: AppendFile, data: bytes, done: Done) -> None:
        """Has `data` appended to `file` and synced; then calls `done` in a thread, with None or what went wrong.

        `done` must be quick and must not raise. Orders for one file are done in the order of submission.
        """
        with self._news:
            if self._closed:
                raise StorageError("the writer is closed", where=str(file.path), hint="the process is ending")
            batch = self._waiting.get(file)
            if batch is None:
                batch = self._waiting[file] = _Batch()
            batch.data.append(data)
            batch.done.append(done)
            oldest = next(iter(self._waiting.values()))
            if self._resting == len(self._threads) or batch.since - oldest.since > PATIENCE:
                self._call_one()

    def close(self) -> None:
        """Returns when everything submitted is done."""
        with self._news:
            self._closed = True
            self._resting = 0
            self._news.notify_all()
        for thread in self._threads:
            thread.join()

    def _call_one(self) -> None:
        """One more thread looks at what waits, if there is one to be had."""
        if self._resting:
            self._resting -= 1  # here and not when it wakes: the next order must not call another one
            self._news.notify()
        elif len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="journal", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (batches := self._take()) is not None:
            for file, batch in batches.items():
                outcome = _commit(file, b"".join(batch.data))
                for done in batch.done:
                    done(outcome)
            with self._news:
                self._at_work.difference_update(batches)

    def _take(self) -> "dict[AppendFile, _Batch] | None":
        """All that waits, but for files that another thread has at work; waits for it; None when the work is over."""
        with self._news:
            while True:
                free = {file: batch for file, batch in self._waiting.items() if file not in self._at_work}
                if free:
                    for file in free:
                        del self._waiting[file]
                    self._at_work.update(free)
                    return free
                if self._closed:
                    return None  # what still waits is for a file that another has at work, and who takes it then
                self._resting += 1
                self._news.wait()


@dataclass(frozen=True, slots=True)
class _Batch:
    data: list[bytes] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)


def _commit(file: AppendFile, data: bytes) -> StorageError | None:
    try:
        file.commit(data)
    except StorageError as error:
        return error
    return None
