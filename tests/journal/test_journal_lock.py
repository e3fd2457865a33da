"""One writer for each session, across processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from harnessd.errors import Locked
from harnessd.facts.event import MessageCreated
from harnessd.journal.committer import Committer
from harnessd.journal.journal import Journal
from harnessd.journal.records import read_events
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


FORKER = """
import os
from pathlib import Path
from harnessd.errors import Locked
from harnessd.journal.committer import Committer
from harnessd.journal.journal import Journal
journal = Journal.open(Path(sys.argv[1]), committer=Committer())
read, write = os.pipe()
if (pid := os.fork()) == 0:
    os.close(write)
    try:
        Journal.open(Path(sys.argv[1]), committer=Committer())
    except Locked:
        os.write(1, b'refused\\n')
    os.read(read, 1)
    os._exit(0)
os.write(1, b'open\\n')
sys.stdin.readline()
journal.let_go()
os.write(1, b'let go\\n')
sys.stdin.readline()
os.close(write)
os.waitpid(pid, 0)
"""


def test_f3_a_forked_child_is_refused_and_does_not_keep_the_lock(tmp_path: Path, committer: Committer) -> None:
    path = tmp_path / "s.jsonl"
    process = subprocess.Popen(child(FORKER, str(path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert {process.stdout.readline(), process.stdout.readline()} == {"open\n", "refused\n"}
        with pytest.raises(Locked, match=str(process.pid)):
            Journal.open(path, committer=committer)
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "let go\n"
        Journal.open(path, committer=committer).let_go()
        print(file=process.stdin, flush=True)


RACER = """
import asyncio, os, time
from pathlib import Path
from harnessd.errors import Locked
from harnessd.journal.committer import Committer
from harnessd.journal.file import FileLock
from harnessd.journal.ledger import Ledger
from tests.journal.desk import said
folder, workers, rounds = Path(sys.argv[1]), 4, 5

async def append(name):
    committer = Committer()
    done = 0
    while done < rounds:
        try:
            ledger = await Ledger.open(folder / 's.jsonl', folder / 'state.json', session_id='s', agent_id='main',
                                       committer=committer)
        except Locked:
            time.sleep(0.0005)
            continue
        ledger.record(said(f'{name}-{done}'))
        await ledger.close()
        done += 1
    committer.close()

def count():
    # Adds to a number under a lock whose file is taken away now and then.
    done, path = 0, folder / 'number'
    while done < rounds * 10:
        try:
            lock = FileLock(folder / 'number.lock')
        except Locked:
            time.sleep(0.0005)
            continue
        number = int(path.read_text()) if path.exists() else 0
        os.sched_yield()
        path.write_text(str(number + 1))
        lock.remove() if done % 2 else lock.close()
        done += 1

for name in range(workers):
    if os.fork() == 0:
        count()
        asyncio.run(append(name))
        os._exit(0)
for _ in range(workers):
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""


def test_f3_of_many_processes_that_want_to_write_one_does_at_a_time(tmp_path: Path) -> None:
    subprocess.run(child(RACER, str(tmp_path)), check=True, timeout=60)
    assert int((tmp_path / "number").read_text()) == 4 * 5 * 10
    events = list(read_events(tmp_path / "s.jsonl"))
    assert [event.seq for event in events] == list(range(1, 21))
    assert len({event.message.id for event in events if isinstance(event, MessageCreated)}) == 20
    assert (tmp_path / "s.jsonl").read_bytes().count(b"\n") == 20


def _started(command: list[str]) -> subprocess.Popen[str]:
    """The process, once it has said that it is there."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, close_fds=False)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process
