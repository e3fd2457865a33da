"""Each kind of damage to what the runtime wrote is found, named, and told with a way out; nothing else is."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from harnessd.errors import Locked
from harnessd.facts.event import Event, RunFinished, SessionCreated, StateUpdated, read_event
from harnessd.facts.run import Parent
from harnessd.journal.checkpoint import Checkpoint, load, save
from harnessd.journal.committer import Committer
from harnessd.journal.erase import erase_session
from harnessd.journal.file import lock_of
from harnessd.journal.finding import Finding
from harnessd.journal.fsck import fsck, repair
from harnessd.journal.journal import Journal
from harnessd.journal.ledger import Ledger
from harnessd.journal.line import encode
from harnessd.journal.records import read_events
from tests.facts.samples import session
from tests.journal.full_home import BELOW, OTHER, FullHome, full_home, main_events, plain_events, rewrite


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> FullHome:
    committer = Committer()
    try:
        return anyio.run(full_home, tmp_path_factory.mktemp("template"), committer)
    finally:
        committer.close()


@pytest.fixture
def home(template: FullHome, tmp_path: Path) -> FullHome:
    """A full home of the test's own."""
    return FullHome(shutil.copytree(template.path, tmp_path / "ada"))


def findings(home: FullHome) -> list[Finding]:
    return list(fsck(home.path, home.folders()))


def told(home: FullHome) -> set[tuple[str, str]]:
    return {(found.severity, found.code) for found in findings(home)}


def test_f3_a_home_in_which_nothing_is_wrong_has_no_finding(home: FullHome) -> None:
    assert findings(home) == []


def _flip(home: FullHome) -> None:
    path = home.files().journal
    data = bytearray(path.read_bytes())
    data[data.index(b"tool.call.created") + 4] ^= 1
    path.write_bytes(data)


def _tear(home: FullHome) -> None:
    with home.files().journal.open("ab") as file:
        file.write(b'{"crc":"0000')


def _cut_out(home: FullHome) -> None:
    path = home.files(OTHER).journal
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    home.files(OTHER).checkpoint.unlink()


def _cut_off(home: FullHome) -> None:
    path = home.files().journal
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))


def _repeat(home: FullHome) -> None:
    path = home.files().journal
    data = path.read_bytes()
    path.write_bytes(data + data.splitlines(keepends=True)[3])


def _append(home: FullHome, event: Event) -> None:
    path = home.files().journal
    last = list(read_events(path))[-1].seq
    with path.open("ab") as file:
        file.write(encode(event.model_copy(update={"seq": last + 1})))


def _future(home: FullHome) -> None:
    _append(home, read_event({"type": "future.thing", "seq": 1}))


def _future_shape(home: FullHome) -> None:
    _append(home, read_event({"type": "run.finished", "seq": 1, "reason": "a reason of the future"}))


def _rename(home: FullHome) -> None:
    path = home.files(OTHER).journal
    path.rename(path.with_name("ses_renamed.jsonl"))


def _wrong_checkpoint(home: FullHome) -> None:
    files = home.files()
    saved = load(files.checkpoint, files.journal)
    assert isinstance(saved, Checkpoint)
    save(files.checkpoint, Checkpoint(saved.mark, saved.state.model_copy(update={"title": "Another"})))


def _spoiled_checkpoint(home: FullHome) -> None:
    home.files().checkpoint.write_bytes(home.files().checkpoint.read_bytes()[:-30])


def _draft(home: FullHome) -> None:
    home.files().checkpoint.with_name(".state.json.new").write_bytes(b"{")


def _damage_before_the_checkpoint(home: FullHome) -> None:
    path = home.files(OTHER).journal
    data = bytearray(path.read_bytes())
    data[data.index(b"run.started")] ^= 1
    path.write_bytes(data)


def _left_open(home: FullHome) -> None:
    kept = [
        event
        for event in main_events(home)
        if event.type not in {"tool.call.completed", "tool.approval_resolved", "subagent.started", "subagent.finished"}
    ]
    rewrite(home.files(), kept)
    erase_session(home.files(BELOW, "explore"))


def _no_end(home: FullHome) -> None:
    events = plain_events(SessionCreated())
    rewrite(home.files(OTHER), [*events[:-1], *events[1:], RunFinished(run_id="run_1")])


def _second_result(home: FullHome) -> None:
    events = main_events(home)
    at = next(number for number, event in enumerate(events) if event.type == "tool.call.completed")
    rewrite(home.files(), [*events[: at + 1], events[at], *events[at + 1 :]])


def _escaping(home: FullHome) -> None:
    (home.path.parent / "secret").write_text("x")
    events = [
        event.model_copy(update={"content_ref": "../secret"}) if event.type == "tool.result.evicted" else event
        for event in main_events(home)
    ]
    rewrite(home.files(), events)


def _strange_parent(home: FullHome) -> None:
    rewrite(home.files(OTHER), plain_events(SessionCreated(parent=Parent(session_id="ses_gone"))))


def _silent_parent(home: FullHome) -> None:
    files = home.files("ses_third")
    rewrite(files, plain_events(SessionCreated(parent=Parent(session_id=OTHER))))


def _linked(home: FullHome) -> None:
    journal = home.files(OTHER).journal
    journal.rename(home.path / "elsewhere.jsonl")
    journal.symlink_to(home.path / "elsewhere.jsonl")


def _linked_folder(home: FullHome) -> None:
    sessions = home.files(BELOW, "explore").journal.parent
    sessions.rename(home.path / "elsewhere")
    sessions.symlink_to(home.path / "elsewhere")


def _pipe(home: FullHome) -> None:
    home.result.unlink()
    os.mkfifo(home.result)


def _pipe_for_a_journal(home: FullHome) -> None:
    os.mkfifo(home.files("ses_pipe").journal)


def _half_deleted(home: FullHome) -> None:
    erase_session(home.files(OTHER))
    left = home.files(OTHER).evicted / "call_1.txt"
    left.parent.mkdir(parents=True)
    left.write_text("still here")


KINDS: list[tuple[Callable[[FullHome], object], set[tuple[str, str]]]] = [
    (_flip, {("error", "damaged"), ("notice", "checkpoint-knows-more")}),
    (_tear, {("notice", "torn-tail")}),
    (_cut_out, {("error", "gap"), ("warning", "end-without-run")}),
    (_cut_off, {("error", "journal-behind"), ("notice", "orphan"), ("warning", "parent-silent")}),
    (_repeat, {("warning", "out-of-order")}),
    (_future, {("notice", "unknown")}),
    (_future_shape, {("warning", "unknown")}),
    (_rename, {("warning", "foreign"), ("warning", "no-journal"), ("notice", "stranger")}),
    (_wrong_checkpoint, {("error", "checkpoint-wrong")}),
    (_spoiled_checkpoint, {("warning", "checkpoint-useless")}),
    (_draft, {("notice", "draft")}),
    (
        _damage_before_the_checkpoint,
        {("error", "damaged"), ("notice", "checkpoint-knows-more"), ("warning", "end-without-run")},
    ),
    (_left_open, {("warning", "call-left-open"), ("warning", "approval-left-open")}),
    (_no_end, {("warning", "run-left-open"), ("warning", "end-without-run")}),
    (_second_result, {("warning", "result-left-over")}),
    (_escaping, {("error", "result-lost"), ("notice", "orphan")}),
    (_strange_parent, {("warning", "parent-missing")}),
    (_silent_parent, {("warning", "parent-silent")}),
    (_linked, {("warning", "link")}),
    (_linked_folder, {("warning", "link")}),
    (_pipe, {("error", "result-lost")}),
    (_pipe_for_a_journal, {("error", "unreadable")}),
    (_half_deleted, {("warning", "left-over")}),
    (lambda home: home.result.unlink(), {("error", "result-lost")}),
    (lambda home: home.result.write_bytes(b"x" * 700), {("error", "result-lost")}),
    (lambda home: home.product.unlink(), {("error", "artifact-lost")}),
    (lambda home: home.product.write_bytes(b"short"), {("error", "artifact-lost")}),
    (lambda home: home.product.with_name("loose").touch(), {("notice", "orphan")}),
    (lambda home: home.files("ses_new").journal.touch(), {("notice", "empty")}),
    (
        lambda home: home.files().journal.write_bytes(b"\0" * 999),
        {("notice", "torn-tail"), ("notice", "orphan"), ("error", "journal-behind"), ("warning", "parent-silent")},
    ),
    (lambda home: home.files().journal.with_name("note.txt").touch(), {("notice", "stranger")}),
    (lambda home: home.files().journal.with_name("ses_main.jsonl.damaged-7").touch(), {("notice", "set-aside")}),
    (
        lambda home: home.files(BELOW, "explore").journal.unlink(),
        {("warning", "subagent-missing"), ("warning", "no-journal"), ("notice", "stranger")},
    ),
    (lambda home: erase_session(home.files(BELOW, "explore")), set()),
    (lambda home: erase_session(home.files()), set()),
    (lambda home: lock_of(home.files().journal).unlink(), set()),
    (lambda home: home.files().checkpoint.unlink(), set()),
]


@pytest.mark.parametrize(("spoil", "expected"), KINDS)
def test_f3_each_kind_of_damage_is_found_and_told(
    home: FullHome, spoil: Callable[[FullHome], object], expected: set[tuple[str, str]]
) -> None:
    spoil(home)
    before = _everything(home.path)
    assert told(home) == expected
    assert all(found.message and found.way_out for found in findings(home))
    assert _everything(home.path) == before, "it reads only"


def test_f3_any_flipped_bit_of_any_journal_or_checkpoint_is_found(home: FullHome) -> None:
    rng = random.Random(7)
    for path in (home.files().journal, home.files().checkpoint):
        whole = path.read_bytes()
        for position in range(0, len(whole) - 1, 41):
            changed = bytearray(whole)
            changed[position] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            assert {found.path for found in findings(home) if found.severity != "notice"} & {path}, position
        path.write_bytes(whole)
    assert findings(home) == []


def test_f3_damage_is_told_with_its_line_and_byte(home: FullHome) -> None:
    path = home.files().journal
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"garbage\n", *lines[4:]]))
    (found,) = [one for one in findings(home) if one.code == "damaged"]
    assert (found.path, found.line, found.byte) == (path, 5, len(b"".join(lines[:4])))


@pytest.mark.parametrize("spoil", [spoil for spoil, _ in KINDS])
def test_f3_repair_takes_away_nothing_but_copies_and_leftovers(
    home: FullHome, spoil: Callable[[FullHome], object]
) -> None:
    spoil(home)
    before = _everything(home.path)
    mendable = [found for found in findings(home) if found.repairable]
    for found in mendable:
        assert found.repairable
        repair(found.repairable, home.path)
    lost = {name for name in before if before[name] != _everything(home.path).get(name)}
    assert {str(found.path.relative_to(home.path)) for found in mendable} >= {
        name for name in lost if name != "agents/main/evicted/ses_other/call_1.txt"
    }
    assert not [name for name in lost if name.endswith(".jsonl")], "journals are never rewritten"
    assert not [found for found in findings(home) if found.repairable]


def test_f3_a_session_that_is_open_is_checked_and_not_repaired(home: FullHome, committer: Committer) -> None:
    _spoiled_checkpoint(home)
    journal = Journal.open(home.files().journal, committer=committer)
    before = _everything(home.path)
    assert told(home) == {("warning", "checkpoint-useless")}
    with pytest.raises(Locked):
        repair(home.files(), home.path)
    journal.let_go()
    assert _everything(home.path) == before


async def test_f3_beside_a_writer_nothing_is_wrong_at_any_moment(home: FullHome, committer: Committer) -> None:
    files = home.files("ses_live")
    ledger = await Ledger.open(
        files.journal, files.checkpoint, session_id="ses_live", agent_id="main", committer=committer
    )
    done = anyio.Event()
    looked = 0

    async def look() -> None:
        nonlocal looked
        while not done.is_set():
            found = await anyio.to_thread.run_sync(findings, home)
            assert [one for one in found if one.severity != "notice"] == []
            looked += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        for event in session(random.Random(8)):
            ledger.record(event)
            await ledger.barrier()
            await ledger.checkpoint()
        done.set()
    await ledger.close()
    assert looked > 3


def test_f9_ten_thousand_loose_files_are_told_in_few_lines(home: FullHome) -> None:
    for number in range(500):
        (home.files().evicted / f"{number}.txt").touch()
    found = findings(home)
    assert {one.code for one in found} == {"orphan"}
    assert len(found) == 21
    assert "480" in found[-1].message


def test_f3_a_record_the_state_cannot_hold_is_no_finding(tmp_path: Path) -> None:
    home = FullHome(tmp_path)
    home.files().journal.parent.mkdir(parents=True)
    rewrite(home.files(), [SessionCreated(), StateUpdated(patch={"todos": "what?"})])
    assert findings(home) == []


def _everything(path: Path) -> dict[str, bytes]:
    files = (one for one in path.rglob("*") if one.is_file() and one.suffix != ".lock")
    return {str(one.relative_to(path)): one.read_bytes() for one in files}
