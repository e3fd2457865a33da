"""On disk before anyone is told: barriers, group commit, full disks, killed processes, system calls in order."""

import asyncio
import errno
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from harnessd.errors import StorageError
from harnessd.facts.event import Event
from harnessd.journal.committer import Committer
from harnessd.journal.journal import Journal
from harnessd.journal.records import read_events
from tests.facts.samples import folded
from tests.journal.desk import SESSION, CountingDisk, Desk, FailingDisk, child, said, seqs

WRITER = """
import asyncio, os, signal
from pathlib import Path
from harnessd.journal.committer import Committer
from harnessd.journal.file import Disk
from harnessd.journal.ledger import Ledger
from harnessd.errors import StorageError
from tests.journal.desk import said

point, number, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

class Fatal(Disk):
    '''Kills its process at one point of its n-th commit.'''
    commits = 0
    def die(self, here):
        if here == point and self.commits == number:
            os.kill(os.getpid(), signal.SIGKILL)
    def write(self, fd, data, offset):
        self.commits += 1
        self.die('before write')
        if point == 'half write' and self.commits == number:
            super().write(fd, data[: len(data) // 2], offset)
        self.die('half write')
        done = super().write(fd, data, offset)
        self.die('before sync')
        return done
    def sync(self, fd):
        super().sync(fd)
        self.die('after sync')

async def main():
    committer = Committer()
    ledger = await Ledger.open(folder / 'sessions' / 's.jsonl', folder / 'state.json', session_id='s',
                               agent_id='main', committer=committer, disk=Fatal())
    for turn in range(6):
        for part in 'abc':
            ledger.record(said(f'{turn}{part}'))
        try:
            seq = await ledger.barrier()
        except StorageError as error:
            print('failed', error.message, flush=True)
            return os._exit(0)
        os.write(1, b'%d\\n' % seq)
    await ledger.checkpoint()
    await ledger.close()
    committer.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["before write", "half write", "before sync", "after sync"])
def test_f3_a_writer_killed_at_any_append_has_lost_nothing_acknowledged(
    point: str, tmp_path: Path, committer: Committer
) -> None:
    for number in (1, 2, 4, 6):
        folder = tmp_path / str(number)
        killed = subprocess.run(child(WRITER, point, str(number), str(folder)), capture_output=True, check=False)
        assert killed.returncode == -9, killed.stderr.decode()
        acknowledged = [int(line) for line in killed.stdout.split()]
        assert acknowledged == [3 * turn for turn in range(1, number)]
        found: list[Event] = []
        journal = Journal.open(folder / "sessions" / "s.jsonl", committer=committer, seen=found.append)
        journal.let_go()
        assert seqs(found) == list(range(1, len(found) + 1))
        assert len(found) >= max(acknowledged, default=0)
        assert journal.recovery.damaged == ()


def test_f3_nothing_is_acknowledged_before_its_write_and_its_sync_are_done(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed; with it the order of the system calls is checked")
    trace = tmp_path / "trace"
    command = [strace, "-f", "-y", "-s", "0", "-e", "trace=pwrite64,fdatasync,fsync,write,rename", "-o", str(trace)]
    ran = subprocess.run([*command, *child(WRITER, "never", "0", str(tmp_path))], capture_output=True, check=False)
    if "ptrace" in ran.stderr.decode() and ran.returncode:
        pytest.skip(f"strace may not trace here: {ran.stderr.decode().strip()}")
    assert ran.returncode == 0, ran.stderr.decode()
    calls = list(_done_calls(trace.read_text()))
    unsynced = acknowledged = 0
    for name, target in calls:
        if target.endswith("s.jsonl"):
            unsynced += name == "pwrite64"
            if name == "fdatasync":
                unsynced = 0
        elif name == "write" and target.startswith("pipe:"):
            assert unsynced == 0, "acknowledged before it was synced"
            acknowledged += 1
    assert acknowledged == 6
    names = [(name, Path(target).name) for name, target in calls]
    folder_synced = names.index(("fsync", "sessions"))
    assert folder_synced < names.index(("pwrite64", "s.jsonl")), "the directory is synced when the file is made"
    assert ("fsync", tmp_path.name) in names, "a new folder is synced into its parent"
    assert names.index(("fsync", ".state.json.new")) < len(names) - 1 - names[::-1].index(("fsync", tmp_path.name))


async def test_f3_a_barrier_is_one_write_and_one_sync_and_free_if_nothing_is_new(desk: Desk) -> None:
    disk = CountingDisk()
    async with desk.ledger(disk=disk) as ledger:
        for number in range(50):
            ledger.record(said(str(number)))
        assert await ledger.barrier() == 50
        assert disk.calls == ["write", "sync"]
        assert await ledger.barrier() == 50
        assert disk.calls == ["write", "sync"]


async def test_f3_two_hundred_barriers_at_once_share_their_syncs(desk: Desk) -> None:
    disk = CountingDisk()
    async with desk.ledger(disk=disk) as ledger:

        async def one(number: int) -> None:
            seq = ledger.record(said(str(number))).seq
            assert await ledger.barrier() >= seq
            assert ledger.journal.durable >= seq

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(one, number)
        assert disk.calls.count("sync") <= 5


async def test_f3_many_journals_share_one_thread(tmp_path: Path, committer: Committer) -> None:
    desks = [Desk(tmp_path / str(number), committer) for number in range(20)]
    ledgers = [await desk.open() for desk in desks]
    for ledger in ledgers:
        ledger.record(said("hi"))
    await asyncio.gather(*(ledger.barrier() for ledger in ledgers))
    for ledger, desk in zip(ledgers, desks, strict=True):
        await ledger.close()
        assert seqs(list(read_events(desk.journal))) == [1]


async def test_f3_what_is_recorded_without_a_barrier_reaches_the_disk_by_itself(desk: Desk) -> None:
    async with desk.ledger() as ledger, ledger.subscribe() as told:
        ledger.record(said("hi"))
        event = await anext(told)
        assert isinstance(event, Event)
        assert seqs(list(read_events(desk.journal))) == [event.seq]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "the disk reports an error"),
        (errno.EDQUOT, "quota"),
    ],
)
@pytest.mark.parametrize("fails", [{"write"}, {"sync"}, {"write", "truncate"}, {"sync", "truncate"}])
@pytest.mark.parametrize("takes", [0, 30])
async def test_f9_a_disk_that_refuses_loses_nothing_and_heals(
    desk: Desk, error: int, says: str, fails: set[str], takes: int
) -> None:
    disk = FailingDisk(error, takes)
    async with desk.ledger(disk=disk) as ledger, ledger.subscribe() as told:
        ledger.record(said("one"))
        await ledger.barrier()
        disk.fails = fails
        before = ledger.record(said("two"))
        for _ in range(2):
            with pytest.raises(StorageError, match=says) as refused:
                await ledger.barrier()
            assert str(desk.journal) in str(refused.value)
        with pytest.raises(StorageError, match=says):
            ledger.record(said("refused"))
        assert ledger.state.seq == before.seq
        if "truncate" not in fails:
            assert seqs(list(read_events(desk.journal))) == [1]
            assert desk.journal.read_bytes().endswith(b"\n")
        disk.fails = set()
        await ledger.barrier()
        ledger.record(said("three"))
        await ledger.barrier()
        assert [event.seq for event in [await anext(told) for _ in range(3)] if isinstance(event, Event)] == [1, 2, 3]
        state = ledger.state
    events = list(read_events(desk.journal))
    assert seqs(events) == [1, 2, 3]
    assert folded(events) == state
    async with desk.ledger() as ledger:
        assert ledger.opening.recovery.clean


def test_f9_a_file_that_may_not_grow_is_a_clear_error_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n" + WRITER
    ran = subprocess.run(child(limited, "never", "0", str(tmp_path)), capture_output=True, check=False, text=True)
    assert ran.returncode == 0, ran.stderr
    *acknowledged, failed = ran.stdout.splitlines()
    assert "larger" in failed
    assert acknowledged
    assert seqs(list(read_events(tmp_path / "sessions" / "s.jsonl"))) == list(range(1, int(acknowledged[-1]) + 1))


def test_f9_a_really_full_disk_is_a_clear_error_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here (not root)")
    try:
        (disk / "sessions").mkdir()
        (disk / "sessions" / "s.jsonl").touch()
        (disk / "filler").write_bytes(b"x" * 8192)  # two pages stay: the lock's and the journal's first
        ran = subprocess.run(child(WRITER, "never", "0", str(disk)), capture_output=True, check=False, text=True)
        *acknowledged, failed = ran.stdout.splitlines()
        assert failed == "failed the disk is full", ran.stderr
        assert acknowledged
        assert seqs(list(read_events(disk / "sessions" / "s.jsonl"))) == list(range(1, int(acknowledged[-1]) + 1))
    finally:
        subprocess.run(["umount", disk], check=True)


async def test_f9_a_place_that_cannot_be_written_is_a_clear_error(desk: Desk) -> None:
    (desk.folder / "sessions").write_text("a file where the folder should be")
    with pytest.raises(StorageError) as refused:
        await desk.open()
    assert str(desk.folder) in str(refused.value)
    assert "\n" in str(refused.value)


async def test_f3_a_closed_committer_refuses_and_forgets_nothing(tmp_path: Path) -> None:
    committer = Committer()
    desk = Desk(tmp_path, committer)
    ledger = await desk.open()
    ledger.record(said("hi"))
    committer.close()
    with pytest.raises(StorageError):
        await ledger.barrier()
    with pytest.raises(StorageError):
        await ledger.close()
    assert SESSION in desk.journal.name


async def test_f3_the_disk_holds_little_more_than_the_payload(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        payload = 0
        for _ in range(200):
            event = ledger.record(said("x" * 400))
            payload += len(json.dumps(event.model_dump(mode="json", exclude_none=True)))
        await ledger.checkpoint()
        await ledger.checkpoint()
    used = sum(path.stat().st_size for path in desk.folder.rglob("*") if path.is_file())
    assert used < 3 * payload


def _done_calls(trace: str) -> list[tuple[str, str]]:
    """Each system call and its target, in the order in which they returned."""
    started: dict[str, tuple[str, str]] = {}
    done: list[tuple[str, str]] = []
    for line in trace.splitlines():
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        if match := re.match(r"(\w+)\((?:\d+<([^>]*)>)?", rest):
            call = (match[1], match[2] or "")
            if rest.endswith("<unfinished ...>"):
                started[pid] = call
            else:
                done.append(call)
        elif rest.startswith("<... ") and pid in started:
            done.append(started.pop(pid))
    return done


def test_the_trace_is_read_in_the_order_of_return() -> None:
    trace = "7 fdatasync(5</a>) <unfinished ...>\n8 write(1<pipe:[1]>, ...) = 1\n7 <... fdatasync resumed>) = 0\n"
    assert _done_calls(trace) == [("write", "pipe:[1]"), ("fdatasync", "/a")]
    assert os.sep == "/"
