"""A session is read beside whoever writes it, and is what the writer says it is."""

import random
from pathlib import Path

import pytest

from harnessd.errors import SessionNotFound
from harnessd.facts.event import SessionRedacted
from harnessd.journal.line import encode
from harnessd.journal.peek import peek
from tests.facts.samples import session
from tests.journal.desk import Desk, said


async def test_f9_a_session_that_is_being_written_is_read_as_its_writer_has_it(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for event in session(random.Random(4)):
            ledger.record(event)
            if random.Random(ledger.state.seq).random() < 0.1:
                await ledger.checkpoint()
            await ledger.barrier()
            assert peek(desk.journal, desk.checkpoint) == ledger.state


async def test_f3_a_record_that_is_being_written_is_not_there_yet(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        ledger.record(said("one"))
        await ledger.barrier()
        state = ledger.state
        whole = encode(said("two").model_copy(update={"seq": 2}))
        before = desk.journal.read_bytes()
        for cut in range(len(whole) - 1):
            desk.journal.write_bytes(before + whole[:cut])
            assert peek(desk.journal, desk.checkpoint) == state
        desk.journal.write_bytes(before)


async def test_f9_a_checkpoint_that_is_no_use_is_not_needed(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for number in range(20):
            ledger.record(said(str(number)))
        await ledger.checkpoint()
        ledger.record(said("after"))
        await ledger.barrier()
        state = ledger.state
        for spoiled in (b"", b"{}", desk.checkpoint.read_bytes()[:-9]):
            desk.checkpoint.write_bytes(spoiled)
            assert peek(desk.journal, desk.checkpoint) == state
        desk.checkpoint.unlink()
        assert peek(desk.journal, desk.checkpoint) == state


def test_f9_a_session_that_is_not_there_or_was_deleted_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "ses_x.jsonl"
    with pytest.raises(SessionNotFound, match="no such session"):
        peek(path, tmp_path / "state.json")
    path.write_bytes(encode(SessionRedacted(seq=9, reason="deleted")))
    with pytest.raises(SessionNotFound, match="was deleted"):
        peek(path, tmp_path / "state.json")
