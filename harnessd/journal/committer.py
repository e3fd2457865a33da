"""When appended bytes are on disk: one thread that writes and syncs for all journals of the process.

Whatever came in while it was busy goes out together, one write and one sync for each file.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from harnessd.errors import StorageError
from harnessd.journal.file import AppendFile

Done = Callable[[StorageError | None], None]


class Committer:
    """The thread starts with the first submission and ends with `close`. Use one per process."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = False

    def submit(self, file: AppendFile, data: bytes, done: Done) -> None:
        """Has `data` appended to `file` and synced; then calls `done` in the thread, with None or what went wrong.

        `done` must be quick and must not raise. Orders for one file are done in the order of submission.
        """
        with self._starting:
            if self._closed:
                raise StorageError("the writer is closed", where=str(file.path), hint="the process is ending")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
                self._thread.start()
            self._queue.put(_Order(file, data, done))

    def close(self) -> None:
        """Returns when everything submitted is done."""
        with self._starting:
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        open_for_orders = True
        while open_for_orders:
            batch: dict[AppendFile, _Batch] = {}
            order = self._queue.get()
            while True:
                if order is None:
                    open_for_orders = False
                    break
                parts = batch.setdefault(order.file, _Batch())
                parts.data.append(order.data)
                parts.done.append(order.done)
                try:
                    order = self._queue.get_nowait()
                except queue.Empty:
                    break
            for file, parts in batch.items():
                outcome = _commit(file, b"".join(parts.data))
                for done in parts.done:
                    done(outcome)


@dataclass(frozen=True, slots=True)
class _Order:
    file: AppendFile
    data: bytes
    done: Done


@dataclass(frozen=True, slots=True)
class _Batch:
    data: list[bytes] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)


def _commit(file: AppendFile, data: bytes) -> StorageError | None:
    try:
        file.commit(data)
    except StorageError as error:
        return error
    return None
