"""Disks that are full or read-only, clocks that jump: clear errors, and nothing that was confirmed is lost."""

import contextlib
import errno
import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessd.errors import StorageError
from harnessd.ids import IdSource
from harnessd.journal.checkpoint import Checkpoint, load
from harnessd.journal.committer import Committer
from harnessd.journal.erase import SessionFiles, erase_session
from harnessd.journal.fsck import fsck
from harnessd.journal.ledger import Ledger
from harnessd.journal.peek import peek
from harnessd.journal.records import read_events
from harnessd.journal.sessions import SessionSummary, list_sessions
from harnessd.journal.standing import standing
from tests.facts.samples import folded
from tests.journal.desk import Desk, FailingDisk, said, seqs
from tests.journal.full_home import full_home

TEXT = "x" * 400


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["write", "sync"])
async def test_f9_a_disk_that_refuses_once_at_any_call_loses_nothing(
    tmp_path: Path, committer: Committer, call: str, error: int
) -> None:
    """The n-th call fails, for every n there is; whoever is told so tries again."""
    for number in itertools.count(1):
        desk, disk = Desk(tmp_path / str(number), committer), _FailsOnce(call, number, error)
        await _written(desk, disk)
        assert seqs(list(read_events(desk.journal))) == list(range(1, 9))
        if disk.left > 0:
            break
    assert number > 4


class _FailsOnce(FailingDisk):
    def __init__(self, call: str, number: int, error: int) -> None:
        super().__init__(error, takes=7)
        self.left = number
        self._call = call

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        self._count("write")
        return super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._count("sync")
        super().sync(fd)

    def _count(self, call: str) -> None:
        if call == self._call and (self.left > 0 or not self.fails):
            self.left -= 1
            self.fails = {call} if self.left == 0 else set()
        else:
            self.fails = set()


async def _written(desk: Desk, disk: FailingDisk) -> None:
    """Writes eight events, one barrier each, and a checkpoint half way, trying again whenever it is refused."""
    async with desk.ledger(disk=disk) as ledger:
        for number in range(7):
            ledger.record(said(str(number)))
            await _healed(ledger)
            if number == 3:
                state = ledger.state
                await ledger.checkpoint()
                await _healed(ledger)
                saved = load(desk.checkpoint, desk.journal)
                assert isinstance(saved, Checkpoint)
                assert saved.state == state
        assert folded(list(read_events(desk.journal))) == ledger.state


async def _healed(ledger: Ledger) -> None:
    try:
        await ledger.barrier()
    except StorageError:
        await ledger.barrier()
    assert ledger.journal.durable == ledger.state.seq


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system can't be mounted here (not root)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


async def test_f9_on_a_full_disk_checkpoints_and_controls_fail_clearly_and_the_session_goes_on(
    small_disk: Path, committer: Committer
) -> None:
    desk = Desk(small_disk, committer)
    async with desk.ledger() as ledger:
        for number in range(5):
            ledger.record(said(str(number)))
        await ledger.checkpoint()
        await ledger.barrier()
        before = desk.checkpoint.read_bytes()
        fill(small_disk)
        ledger.record(said("y" * 9000))
        with pytest.raises(StorageError, match="disk is full"):
            await ledger.barrier()
        with pytest.raises(StorageError, match="disk is full"):
            await ledger.checkpoint()
        assert desk.checkpoint.read_bytes() == before
        assert peek(desk.journal, desk.checkpoint).seq == 5 + 1
        (small_disk / "filler").unlink()
        await ledger.barrier()
        await ledger.checkpoint()
        state = ledger.state
    assert peek(desk.journal, desk.checkpoint) == state


async def test_f9_a_session_can_be_deleted_to_free_a_full_disk(small_disk: Path, committer: Committer) -> None:
    home = await full_home(small_disk, committer)
    fill(small_disk)
    erase_session(home.files())
    (fact,) = read_events(home.files().journal)
    assert fact.type == "session.redacted"
    (small_disk / "room").write_bytes(b"x" * 4096)


async def test_f9_on_a_read_only_disk_everything_is_read_and_nothing_pretends_to_write(
    small_disk: Path, committer: Committer
) -> None:
    home = await full_home(small_disk, committer)
    files = home.files()
    state = peek(files.journal, files.checkpoint)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert peek(files.journal, files.checkpoint) == state
    assert standing(files.journal).word == "quiet"
    assert [type(one) for one in list_sessions(files.journal.parent)] == [SessionSummary] * 2
    assert list(fsck(home.path, home.folders())) == []
    with pytest.raises(StorageError, match="read-only"):
        await _opened(files, committer)
    with pytest.raises(StorageError, match="read-only"):
        erase_session(files)
    assert len(list(read_events(files.journal))) == state.seq


async def _opened(files: SessionFiles, committer: Committer) -> Ledger:
    return await Ledger.open(
        files.journal, files.checkpoint, session_id=files.session_id, agent_id=files.agent_id, committer=committer
    )


YEAR = 365 * 86400.0
NOW = 1_796_000_000.0
JUMPS = {
    "back a year": [NOW, NOW - YEAR, NOW - YEAR + 0.001],
    "forward ten years": [NOW, NOW + 10 * YEAR, NOW + 10 * YEAR],
    "there and back": [NOW, NOW + YEAR, NOW - YEAR, NOW],
    "stands still": [NOW] * 4,
    "a leap second by the second": [1_483_228_799.9, 1_483_228_799.999, 1_483_228_799.5, 1_483_228_800.0],
    "1970 and before": [NOW, 0.0, -1.5],
}


@pytest.mark.parametrize("clock", JUMPS.values(), ids=JUMPS)
async def test_f3_when_the_clock_jumps_the_numbers_go_on_and_the_session_is_the_same(
    desk: Desk, clock: list[float]
) -> None:
    for start, number in enumerate(clock):
        async with desk.ledger(clock=lambda now=number: now) as ledger:  # type: ignore[misc]
            assert ledger.state.seq == start * 3
            ledger.record(said(f"{start}a"))
            ledger.record(said(f"{start}b"))
            await ledger.checkpoint()
            state = ledger.state
    events = list(read_events(desk.journal))
    assert seqs(events) == list(range(1, 3 * len(clock) + 1))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.at) for event in events)
    assert peek(desk.journal, desk.checkpoint) == folded(events) == state
    (listed,) = list_sessions(desk.journal.parent)
    assert isinstance(listed, SessionSummary)
    assert listed.last_seq == len(events)


@pytest.mark.parametrize("clock", JUMPS.values(), ids=JUMPS)
def test_f3_when_the_clock_jumps_ids_ascend(clock: list[float]) -> None:
    times = iter([round(max(0.0, now) * 1e9) for now in clock for _ in range(50)])
    source = IdSource(lambda: next(times))
    made = [source.new("run") for _ in range(50 * len(clock))]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


async def test_f3_disk_use_stays_within_three_times_the_payload_and_grows_evenly(
    tmp_path: Path, committer: Committer
) -> None:
    shares = []
    for count in (200, 400, 800):
        desk, payload = Desk(tmp_path / str(count), committer), 0
        async with desk.ledger() as ledger:
            most = 0
            for number in range(count):
                event = ledger.record(said(f"{number}{TEXT}"))
                payload += len(json.dumps(event.model_dump(mode="json", exclude_none=True)))
                if number % 200 == 199:
                    await ledger.checkpoint()
            await ledger.barrier()
            most = max(most, _used(desk.folder))
        shares.append(most / payload)
    assert max(shares) < 3
    assert max(shares) - min(shares) < 0.2


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
