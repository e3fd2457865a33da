"""One writer for each session, across processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from harnessd.errors import Locked
from harnessd.journal.committer import Committer
from harnessd.journal.journal import Journal
from tests.journal.desk import child

HOLDER = """
from pathlib import Path
from harnessd.journal.committer import Committer
from harnessd.journal.journal import Journal
journal = Journal.open(Path(sys.argv[1]), committer=Committer())
print('open', flush=True)
sys.stdin.read()
"""
WAITER = "import sys; print('open', flush=True); sys.stdin.read()"


def test_f3_a_second_writer_in_another_process_is_refused_by_pid(tmp_path: Path, committer: Committer) -> None:
    path = tmp_path / "s.jsonl"
    with _started(child(HOLDER, str(path))) as holder:
        with pytest.raises(Locked, match=str(holder.pid)) as refused:
            Journal.open(path, committer=committer)
        assert str(path) in str(refused.value)
        holder.kill()
    Journal.open(path, committer=committer).let_go()


def test_f3_a_second_writer_in_the_same_process_is_refused(tmp_path: Path, committer: Committer) -> None:
    path = tmp_path / "s.jsonl"
    journal = Journal.open(path, committer=committer)
    with pytest.raises(Locked):
        Journal.open(path, committer=committer)
    journal.let_go()
    Journal.open(path, committer=committer).let_go()


def test_f3_a_child_that_is_executed_inherits_neither_lock_nor_journal(tmp_path: Path, committer: Committer) -> None:
    path = tmp_path / "s.jsonl"
    journal = Journal.open(path, committer=committer)
    with _started([sys.executable, "-c", WAITER]) as started:
        held = [fd.readlink().name for fd in Path(f"/proc/{started.pid}/fd").iterdir()]
        assert not [name for name in held if name.startswith("s.jsonl")]
        journal.let_go()
        Journal.open(path, committer=committer).let_go()
        started.kill()


def _started(command: list[str]) -> subprocess.Popen[str]:
    """The process, once it has said that it is there."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, close_fds=False)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process
