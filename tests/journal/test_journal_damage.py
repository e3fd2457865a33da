"""A journal that was cut or changed anywhere opens, loses only what was hit, says so, and goes on."""

import random
from io import BytesIO
from pathlib import Path

import pytest

from harnessd.facts.event import Event
from harnessd.journal.committer import Committer
from harnessd.journal.journal import Journal
from harnessd.journal.line import decode, encode
from harnessd.journal.records import Damage, Record, read_events, read_page, scan
from tests.journal.desk import Desk, one_line_of_each, said, seqs

LINES = one_line_of_each()
WHOLE = b"".join(LINES)
ENDS = [sum(map(len, LINES[: count + 1])) for count in range(len(LINES))]


def test_f3_cut_at_every_byte_no_whole_record_is_lost() -> None:
    for cut in range(len(WHOLE) + 1):
        pieces = list(scan(BytesIO(WHOLE[:cut])))
        whole = sum(1 for end in ENDS if end - 1 <= cut)  # a record without its line feed is whole
        assert sum(isinstance(piece, Record) for piece in pieces) == whole, cut
        assert sum(piece.end - piece.start for piece in pieces) == cut
        assert all(piece.torn for piece in pieces if isinstance(piece, Damage))


def test_f3_any_flipped_bit_costs_at_most_the_record_it_is_in() -> None:
    rng = random.Random(3)
    for position in range(0, len(WHOLE), 3):
        _check_flip(position, rng.randrange(8))


@pytest.mark.matrix
def test_f3_every_flipped_bit_costs_at_most_the_record_it_is_in() -> None:
    for position in range(len(WHOLE)):
        for bit in range(8):
            _check_flip(position, bit)


def test_f3_every_flipped_line_feed_costs_nothing() -> None:
    for end in ENDS:
        for bit in range(8):
            changed = _flipped(WHOLE, end - 1, bit)
            assert len(_seqs_in(changed)) == len(LINES)


def test_f3_a_journal_cut_at_every_byte_opens_and_goes_on(tmp_path: Path, committer: Committer) -> None:
    lines = LINES[:3]
    for cut in range(len(b"".join(lines)) + 1):
        _check_cut(tmp_path / str(cut), b"".join(lines)[:cut], committer)


def test_f3_a_journal_of_every_kind_cut_at_random_bytes_opens(tmp_path: Path, committer: Committer) -> None:
    for cut in random.Random(1).sample(range(len(WHOLE)), 60):
        _check_cut(tmp_path / str(cut), WHOLE[:cut], committer)


@pytest.mark.matrix
def test_f3_a_journal_of_every_kind_cut_at_every_byte_opens(tmp_path: Path, committer: Committer) -> None:
    for cut in range(len(WHOLE) + 1):
        _check_cut(tmp_path / str(cut), WHOLE[:cut], committer)


def test_f3_damage_is_told_and_set_aside_once_and_the_journal_is_not_rewritten(
    tmp_path: Path, committer: Committer
) -> None:
    path = tmp_path / "s.jsonl"
    changed = _flipped(WHOLE, ENDS[3] + 40, 2)
    path.write_bytes(changed)
    for _ in range(2):
        journal = Journal.open(path, committer=committer)
        (told,) = journal.recovery.damaged
        (aside,) = journal.recovery.aside
        assert str(ENDS[3]) in told
        assert aside.read_bytes() == changed[ENDS[3] : ENDS[4]]
        assert not journal.recovery.clean
        assert seqs(list(journal.read())) == [seq for seq in range(1, len(LINES) + 1) if seq != 5]
        journal.let_go()
    assert path.read_bytes() == changed
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1


async def test_f3_the_number_of_a_record_lost_at_the_end_is_not_given_twice(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for number in range(3):
            ledger.record(said(str(number)))
    data = desk.journal.read_bytes()
    desk.journal.write_bytes(_flipped(data, len(data) - 20, 0))
    async with desk.ledger() as ledger:
        assert ledger.state.seq == 2
        assert ledger.record(said("next")).seq == 4
    assert seqs(list(read_events(desk.journal))) == [1, 2, 4]


async def test_f3_two_different_tails_torn_at_one_byte_are_both_kept(desk: Desk) -> None:
    for tail in (b'{"crc":"one', b'{"crc":"two', b'{"crc":"two'):
        async with desk.ledger():
            pass
        with desk.journal.open("ab") as file:
            file.write(tail)
    async with desk.ledger() as ledger:
        assert ledger.opening.recovery.lost_tail_bytes == len(tail)
    kept = sorted(path.read_bytes() for path in desk.journal.parent.glob("*.damaged-*"))
    assert kept == [b'{"crc":"one', b'{"crc":"two']


def test_f3_zeros_and_garbage_at_the_end_are_a_torn_tail(tmp_path: Path, committer: Committer) -> None:
    for name, tail in {"zeros": b"\0" * 5000, "noise": random.Random(1).randbytes(3000).replace(b"\n", b"")}.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(WHOLE + tail)
        journal = Journal.open(path, committer=committer)
        assert journal.recovery.lost_tail_bytes == len(tail)
        assert journal.last.seq == len(LINES)
        journal.let_go()
        assert path.read_bytes() == WHOLE


def test_f3_a_record_that_is_there_twice_counts_once(tmp_path: Path, committer: Committer) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(WHOLE + LINES[2] + LINES[-1])
    seen: list[Event] = []
    Journal.open(path, committer=committer, seen=seen.append).let_go()
    assert seqs(seen) == seqs(list(read_events(path))) == list(range(1, len(LINES) + 1))


@pytest.fixture(params=["whole", "damaged", "large"])
def odd_journal(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    """A journal, and the seqs that are still in it."""
    count = 700
    lines = [encode(said(str(seq)).model_copy(update={"seq": seq})) for seq in range(1, count + 1)]
    if request.param == "large":
        lines[300] = encode(said("x" * 900_000).model_copy(update={"seq": 301}))
    data = b"".join(lines)
    gone: set[int] = set()
    if request.param == "damaged":
        rng = random.Random(5)
        starts = [sum(map(len, lines[:at])) for at in range(count)]
        for at in rng.sample(range(count), 40):
            data = _flipped(data, starts[at] + len(lines[at]) // 2, 1)
            gone.add(at + 1)
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    return path, [seq for seq in range(1, count + 1) if seq not in gone]


def test_f6_reading_after_any_seq_finds_exactly_what_follows(odd_journal: tuple[Path, list[int]]) -> None:
    path, there = odd_journal
    for after in range(0, 703, 7):
        assert seqs(list(read_events(path, after))) == [seq for seq in there if seq > after]


def test_f6_pages_backwards_give_the_whole_journal(odd_journal: tuple[Path, list[int]]) -> None:
    path, there = odd_journal
    for size in (1, 7, 100, 1000):
        found: list[int] = []
        before = None if size % 2 else 10_000
        while page := read_page(path, before, size):
            found[:0] = seqs(page)
            before = page[0].seq
        assert found == there


def _check_flip(position: int, bit: int) -> None:
    hit = sum(1 for end in ENDS if end <= position) + 1
    changed = _flipped(WHOLE, position, bit)
    found = _seqs_in(changed)
    assert [seq for seq in range(1, len(LINES) + 1) if seq != hit] == [seq for seq in found if seq != hit]
    lost = [piece for piece in scan(BytesIO(changed)) if isinstance(piece, Damage)]
    assert lost or hit in found, "a loss is told"


def _check_cut(folder: Path, data: bytes, committer: Committer) -> None:
    folder.mkdir()
    path = folder / "s.jsonl"
    path.write_bytes(data)
    whole = sum(1 for end in ENDS if end - 1 <= len(data))
    seen: list[Event] = []
    journal = Journal.open(path, committer=committer, seen=seen.append)
    journal.let_go()
    assert seqs(seen) == list(range(1, whole + 1))
    lost = len(data) - (ENDS[whole - 1] if whole else 0)
    assert journal.recovery.lost_tail_bytes == max(0, lost)
    assert sum(len(copy.read_bytes()) for copy in journal.recovery.aside) == max(0, lost)
    assert path.read_bytes() == b"".join(LINES[:whole])
    again = Journal.open(path, committer=committer)
    again.let_go()
    assert again.recovery.clean


def _seqs_in(data: bytes) -> list[int]:
    events = [decode(piece.data) for piece in scan(BytesIO(data)) if isinstance(piece, Record)]
    return [event.seq for event in events if isinstance(event, Event)]


def _flipped(data: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)
