"""Who syncs, in which order, and when do others help?"""

import os
import threading
from pathlib import Path

import pytest

from harnessd.errors import StorageError
from harnessd.journal.committer import PATIENCE, Committer
from harnessd.journal.file import AppendFile, Disk

FILES, ORDERS = 6, 40


class _Gate(Disk):
    """A disk whose syncs wait until it is opened; `inside` counts those that wait at once."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.inside = threading.Semaphore(0)

    def sync(self, fd: int) -> None:
        self.inside.release()
        assert self.opened.wait(20)
        super().sync(fd)


def _arrived(gate: _Gate) -> bool:
    return gate.inside.acquire(timeout=20)


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_f3_orders_for_one_file_are_done_in_order_and_none_is_lost(tmp_path: Path, threads: int) -> None:
    committer = Committer(threads)
    files = [AppendFile(tmp_path / str(number), Disk()) for number in range(FILES)]
    failures: list[StorageError | None] = []
    for order in range(ORDERS):
        for file in files:
            committer.submit(file, b"%d\n" % order, failures.append)
    committer.close()
    assert failures == [None] * (FILES * ORDERS)
    for file in files:
        assert file.path.read_bytes() == b"".join(b"%d\n" % order for order in range(ORDERS))
        file.close()


def test_f3_a_disk_that_does_not_keep_up_gets_more_threads_but_one_file_only_one(tmp_path: Path) -> None:
    gate, committer, done = _Gate(), Committer(2), threading.Semaphore(0)
    first, second = (AppendFile(tmp_path / name, gate) for name in ("first", "second"))
    committer.submit(first, b"1", lambda _: done.release())
    assert _arrived(gate)
    committer.submit(first, b"2", lambda _: done.release())
    threading.Event().wait(PATIENCE * 2)  # what is measured: an order that has waited
    committer.submit(second, b"1", lambda _: done.release())
    assert _arrived(gate), "nobody helped"
    assert os.pread(first.fd, 9, 0) == b"1", "two threads had one file at work"
    gate.opened.set()
    committer.close()
    assert [done.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]
    assert (first.path.read_bytes(), second.path.read_bytes()) == (b"12", b"1")
    for file in (first, second):
        file.close()


def test_o1_one_thread_does_it_while_the_disk_keeps_up(tmp_path: Path) -> None:
    committer, file = Committer(), AppendFile(tmp_path / "one", Disk())
    before = threading.active_count()
    for _ in range(20):
        done = threading.Event()
        committer.submit(file, b"x", lambda _, done=done: done.set())  # type: ignore[misc]
        assert done.wait(20)
    assert threading.active_count() <= before + 2
    committer.close()
    assert threading.active_count() == before
    file.close()


def test_a_closed_committer_takes_nothing(tmp_path: Path) -> None:
    committer, file = Committer(), AppendFile(tmp_path / "one", Disk())
    committer.close()
    with pytest.raises(StorageError, match="closed"):
        committer.submit(file, b"x", lambda _: None)
    file.close()
