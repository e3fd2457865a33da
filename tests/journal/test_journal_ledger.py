"""The ledger: what it stamps, hides and folds; and waking from a checkpoint, good or bad."""

import asyncio
import json
import random
import re
from pathlib import Path

import pytest

from harnessd.facts.event import CheckpointWritten, Event, RunStarted, ToolCallCreated
from harnessd.facts.state import State
from harnessd.journal.line import frame
from harnessd.journal.records import read_events
from tests.facts.samples import folded, session
from tests.journal.desk import SESSION, Desk, one_line_of_each, said, seqs

SECRET = b'hunter"2\n'


def redact(text: bytes) -> bytes:
    """As a secret store would: the secret itself and as JSON writes it."""
    for form in (SECRET, json.dumps(SECRET.decode()).encode()[1:-1]):
        text = text.replace(form, b"[secret]")
    return text


async def test_a_recorded_event_bears_its_envelope(desk: Desk) -> None:
    times = iter([1_700_000_000.0004, 1_700_000_000.9996, 0.0])
    async with desk.ledger(clock=lambda: next(times)) as ledger:
        events = [ledger.record(RunStarted(run_id="run_1")) for _ in range(3)]
        assert seqs(events) == [1, 2, 3]
        assert [event.at for event in events] == [
            "2023-11-14T22:13:20.000Z",
            "2023-11-14T22:13:20.999Z",
            "1970-01-01T00:00:00.000Z",
        ]
        assert {(event.session_id, event.agent_id, event.run_id) for event in events} == {(SESSION, "main", "run_1")}
        assert ledger.state.seq == 3
    assert list(read_events(desk.journal)) == events


async def test_f3_the_state_is_always_the_fold_of_what_is_on_disk(desk: Desk) -> None:
    for seed in range(5):
        async with desk.ledger() as ledger:
            for event in session(random.Random(seed)):
                ledger.record(event)
            await ledger.barrier()
            assert folded(list(read_events(desk.journal))) == ledger.state
            if seed % 2:
                await ledger.checkpoint()


async def test_w3_secrets_reach_neither_state_nor_disk_nor_readers(desk: Desk) -> None:
    secret = SECRET.decode()
    async with desk.ledger(redact=redact) as ledger, ledger.subscribe() as told:
        recorded = ledger.record(said(f"it is {secret}!"))
        ledger.record(ToolCallCreated(arguments={"deep": [{secret: secret}], "n": 1}))
        assert "[secret]" in recorded.model_dump_json()
        await ledger.checkpoint()
        assert await anext(told) == recorded
        state = ledger.state
        await ledger.barrier()
        assert folded(list(read_events(desk.journal))) == state
    for path in desk.folder.rglob("*"):
        assert not path.is_file() or b"hunter" not in path.read_bytes()


async def test_w3_a_secret_that_looks_like_json_does_not_break_the_line(desk: Desk) -> None:
    for number, awkward in enumerate([b'"', b":", b"message", b"{", b"type", b"1", b"e"]):
        folder = Desk(desk.folder / str(number), desk.committer)
        async with folder.ledger(redact=lambda text, awkward=awkward: text.replace(awkward, b"#")) as ledger:
            ledger.record(said("a message: {1}"))
            await ledger.barrier()
            events = list(read_events(folder.journal))
            assert [event.type for event in events] == ["message.created"]
            assert folded(events) == ledger.state


async def test_f3_text_that_utf8_cannot_hold_is_recorded_as_it_will_be_read(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        ledger.record(said("broken \ud83d half"))
        await ledger.checkpoint()
        state = ledger.state
    async with desk.ledger() as ledger:
        assert ledger.state == state


async def test_f3_waking_uses_the_checkpoint_and_reads_only_what_came_after(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for event in session(random.Random(1), 10):
            ledger.record(event)
        await ledger.checkpoint()
        for _ in range(3):
            ledger.record(said("after"))
        state = ledger.state
    data = desk.journal.read_bytes()
    async with desk.ledger() as ledger:
        assert ledger.state == state
        assert (ledger.opening.checkpoint, ledger.opening.folded) == ("used", 4)
        assert ledger.opening.recovery.checked_from > len(data) * 0.8
        assert isinstance(list(read_events(desk.journal))[-4], CheckpointWritten)
        assert ledger.record(said("on")).seq == state.seq + 1


async def test_f3_a_checkpoint_is_of_the_moment_it_was_asked_for(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        ledger.record(said("one"))
        saving = asyncio.ensure_future(ledger.checkpoint())
        await asyncio.sleep(0)
        ledger.record(said("two"))
        await saving
        state = ledger.state
    saved = json.loads(desk.checkpoint.read_bytes())
    assert saved["seq"] == saved["state"]["seq"] == 1
    async with desk.ledger() as ledger:
        assert ledger.state == state


def _spoil(checkpoint: Path, how: str) -> None:
    data = checkpoint.read_bytes()
    fields = json.loads(data)
    del fields["crc"]
    if how == "flipped":
        checkpoint.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif how == "cut":
        checkpoint.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        checkpoint.write_bytes(b"")
    elif how == "directory":
        checkpoint.unlink()
        checkpoint.mkdir()
    else:
        changes = {
            "schema": {"schemaVersion": 99},
            "ahead": {"seq": 10_000, "offset": 10_000_000},
            "elsewhere": {"offset": 3},
            "other seq": {"seq": 2},
            "negative": {"offset": -5},
            "no place": {"offset": None},
            "no state": {"state": None},
            "odd state": {"state": {"messages": 5}},
        }[how]
        checkpoint.write_bytes(frame(json.dumps(fields | changes, separators=(",", ":")).encode()))


@pytest.mark.parametrize(
    "how",
    [
        "flipped",
        "cut",
        "empty",
        "directory",
        "schema",
        "ahead",
        "elsewhere",
        "other seq",
        "negative",
        "no place",
        "no state",
        "odd state",
    ],
)
async def test_f3_a_checkpoint_that_cannot_be_trusted_is_ignored(desk: Desk, how: str) -> None:
    async with desk.ledger() as ledger:
        for event in session(random.Random(2)):
            ledger.record(event)
        await ledger.checkpoint()
        state = ledger.state
    _spoil(desk.checkpoint, how)
    async with desk.ledger() as ledger:
        assert ledger.state == state
        assert ledger.opening.checkpoint == "ignored"
        assert ledger.opening.reason
        assert ledger.opening.folded == state.seq


async def test_f3_a_checkpoint_ahead_of_a_journal_that_was_cut_is_ignored(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for number in range(20):
            ledger.record(said(str(number)))
        await ledger.checkpoint()
    lines = desk.journal.read_bytes().splitlines(keepends=True)
    desk.journal.write_bytes(b"".join(lines[:10]))
    async with desk.ledger() as ledger:
        assert (ledger.state.seq, ledger.opening.checkpoint) == (10, "ignored")
        assert len(ledger.state.messages) == 10


async def test_f3_a_new_session_begins_empty_and_can_be_closed_twice(desk: Desk) -> None:
    ledger = await desk.open()
    assert ledger.state == State()
    assert ledger.opening.checkpoint == "absent"
    await ledger.checkpoint()
    await ledger.close()
    await ledger.close()
    assert desk.journal.read_bytes() == b""


async def test_pages_give_the_journal_backwards(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for number in range(30):
            ledger.record(said(str(number)))
        await ledger.barrier()
        assert seqs(await ledger.page(None, 4)) == [27, 28, 29, 30]
        assert seqs(await ledger.page(27, 4)) == [23, 24, 25, 26]
        assert await ledger.page(1, 4) == []


async def test_f8_a_journal_of_a_later_version_loads_and_goes_on(desk: Desk) -> None:
    desk.journal.parent.mkdir()
    future = {
        "seq": 46,
        "v": 9,
        "at": "2030-01-01T00:00:00.000Z",
        "type": "dream.dreamt",
        "sessionId": SESSION,
        "of": 1,
    }
    lines = [*one_line_of_each(), frame(json.dumps(future, separators=(",", ":")).encode())]
    count = len(lines)
    desk.journal.write_bytes(b"".join(lines))
    async with desk.ledger() as ledger:
        assert ledger.opening.recovery.clean
        assert ledger.record(said("on")).seq == max(46, count) + 1
    assert any(event.type == "dream.dreamt" for event in read_events(desk.journal))


async def test_o1_a_quiet_ledger_holds_nothing_but_its_state(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        for number in range(500):
            ledger.record(said(str(number)))
        await ledger.barrier()
        assert not ledger.journal.pending
        assert not ledger.held
        gone = ledger.subscribe()
        await anext(gone)
        gone.close()
        ledger.record(said("x"))
        await ledger.barrier()
        assert not gone.pending


async def test_ids_in_the_journal_are_readable(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        event = ledger.record(said("x"))
        assert isinstance(event, Event)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.at)
