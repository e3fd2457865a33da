"""A deleted session is gone from the disk for good, leaves one fact, and cannot be half deleted."""

import os
import subprocess
from pathlib import Path

import pytest

from harnessd.errors import Locked, SessionNotFound, StorageError
from harnessd.facts.event import SessionCreated, SessionRedacted
from harnessd.journal.committer import Committer
from harnessd.journal.erase import SessionFiles, erase_session, left_overs
from harnessd.journal.journal import Journal
from harnessd.journal.ledger import Ledger
from harnessd.journal.peek import peek
from harnessd.journal.records import read_events
from harnessd.journal.sessions import SessionSummary, list_sessions
from harnessd.journal.standing import standing
from tests.journal.desk import SESSION, child, said

CANARY = "canary-7f3a"


async def furnished(folder: Path, committer: Committer) -> SessionFiles:
    """A session that left everything it can, with the canary in each file, beside another session."""
    for session_id in (SESSION, "ses_other"):
        files = files_of(folder, session_id)
        ledger = await opened(files, committer)
        ledger.record(SessionCreated(title=CANARY))
        ledger.record(said(CANARY))
        await ledger.checkpoint()
        await ledger.close()
        for place in (files.evicted / "call_1.txt", files.artifacts / "art_1" / "deep" / "a.bin"):
            place.parent.mkdir(parents=True)
            place.write_text(CANARY)
        for beside in (f"{files.journal.name}.damaged-4", f"{files.journal.name}.damaged-4.2"):
            files.journal.with_name(beside).write_text(CANARY)
        files.checkpoint.with_name(".state.json.new").write_text(CANARY)
    return files_of(folder, SESSION)


async def opened(files: SessionFiles, committer: Committer) -> Ledger:
    return await Ledger.open(
        files.journal,
        files.checkpoint,
        session_id=files.session_id,
        agent_id="main",
        committer=committer,
        clock=lambda: 1_700_000_000.0,
    )


def files_of(folder: Path, session_id: str) -> SessionFiles:
    return SessionFiles(
        "main",
        session_id,
        folder / "sessions" / f"{session_id}.jsonl",
        folder / "context" / session_id / "state.json",
        folder / "evicted" / session_id,
        folder / "artifacts" / session_id,
    )


def holding_the_canary(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file() and "other" not in str(path)]
    return [path for path in files if CANARY.encode() in path.read_bytes()]


def whole(folder: Path) -> dict[str, bytes]:
    """Every file of the folder with its bytes, but for the locks, which say nothing of the session."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


async def test_f9_nothing_of_a_deleted_session_stays_on_disk_but_the_fact(tmp_path: Path, committer: Committer) -> None:
    files = await furnished(tmp_path, committer)
    other = {name: data for name, data in whole(tmp_path).items() if "other" in name}
    assert len(holding_the_canary(tmp_path)) == 7
    erase_session(files, clock=lambda: 1_800_000_000.5)
    assert holding_the_canary(tmp_path) == []
    (fact,) = read_events(files.journal)
    assert isinstance(fact, SessionRedacted)
    assert (fact.reason, fact.at, fact.seq) == ("deleted", "2027-01-15T08:00:00.500Z", 4)
    assert (fact.session_id, fact.agent_id) == (SESSION, "main")
    rest = set(tmp_path.rglob(f"*{SESSION}*"))
    assert rest == {files.journal}
    assert {name: data for name, data in whole(tmp_path).items() if "other" in name} == other


async def test_f9_a_deleted_session_cannot_be_opened_and_is_not_listed(tmp_path: Path, committer: Committer) -> None:
    files = await furnished(tmp_path, committer)
    erase_session(files)
    before = whole(tmp_path)
    for _ in range(2):
        with pytest.raises(SessionNotFound, match="was deleted"):
            await opened(files, committer)
    with pytest.raises(SessionNotFound, match="was deleted"):
        peek(files.journal, files.checkpoint)
    assert whole(tmp_path) == before
    assert standing(files.journal).word == "quiet"
    assert [one.session_id for one in list_sessions(tmp_path / "sessions")] == ["ses_other"]
    shown = {one.session_id: one for one in list_sessions(tmp_path / "sessions", deleted=True)}
    found = shown[SESSION]
    assert isinstance(found, SessionSummary)
    assert found.deleted


async def test_f9_deleting_once_more_changes_nothing(tmp_path: Path, committer: Committer) -> None:
    files = await furnished(tmp_path, committer)
    erase_session(files)
    before = whole(tmp_path)
    erase_session(files)
    assert whole(tmp_path) == before
    assert not files.journal.with_name(files.journal.name + ".lock").exists()


async def test_f9_a_session_that_is_open_is_not_deleted(tmp_path: Path, committer: Committer) -> None:
    files = await furnished(tmp_path, committer)
    journal = Journal.open(files.journal, committer=committer)
    before = whole(tmp_path)
    with pytest.raises(Locked, match=str(os.getpid())):
        erase_session(files)
    assert whole(tmp_path) == before
    journal.let_go()
    erase_session(files)


def test_f9_a_session_that_is_not_there_is_not_deleted(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        erase_session(files_of(tmp_path, SESSION))
    assert list(tmp_path.iterdir()) == []


async def test_p2_a_link_is_removed_and_what_it_leads_to_is_not(tmp_path: Path, committer: Committer) -> None:
    files = await furnished(tmp_path / "home", committer)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "kept.txt").write_text("kept")
    (files.evicted / "out").symlink_to(elsewhere)
    for path in (files.artifacts, files.checkpoint.parent):
        path.rename(elsewhere / path.parent.name)
        path.symlink_to(elsewhere / path.parent.name)
    kept = whole(elsewhere)
    erase_session(files)
    assert set((tmp_path / "home").rglob(f"*{SESSION}*")) == {files.journal}
    assert {name for name in kept if not name.endswith("state.json")} <= set(whole(elsewhere))


async def test_p2_a_journal_that_is_a_link_is_refused(tmp_path: Path, committer: Committer) -> None:
    files = await furnished(tmp_path, committer)
    files.journal.rename(tmp_path / "real.jsonl")
    files.journal.symlink_to(tmp_path / "real.jsonl")
    before = whole(tmp_path)
    with pytest.raises(StorageError, match="link"):
        erase_session(files)
    assert whole(tmp_path) == before


ERASER = """
import os, signal
from pathlib import Path
from harnessd.journal.erase import erase_session
from tests.journal.test_journal_erase import SESSION, files_of

def dies_at(number, folder):
    '''Deletes the session and is killed just before its n-th step on the disk; whether there was such a step.'''
    if (pid := os.fork()) == 0:
        steps = 0
        def step(name, arguments):
            nonlocal steps
            if name in {'open', 'os.remove', 'os.rename', 'os.rmdir', 'shutil.rmtree', 'os.truncate'}:
                steps += 1
                if steps == number:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(step)
        erase_session(files_of(folder, SESSION))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

for number, name in enumerate(sys.argv[1:], 1):
    print(int(dies_at(number, Path(name))), flush=True)
"""


async def test_f9_killed_at_any_step_it_is_there_whole_or_gone_and_can_be_deleted_again(
    tmp_path: Path, committer: Committer
) -> None:
    folders = [tmp_path / str(number) for number in range(1, 61)]
    for folder in folders:
        await furnished(folder, committer)
    before = whole(folders[0])
    ran = subprocess.run(child(ERASER, *map(str, folders)), capture_output=True, check=True)
    killed = [line == b"1" for line in ran.stdout.split()]
    assert any(killed)
    assert not killed[-1], "every step was tried"
    stages = set()
    for folder, was_killed in zip(folders, killed, strict=True):
        files = files_of(folder, SESSION)
        gone = next(iter(read_events(files.journal))).type == "session.redacted"
        stages.add(("gone" if gone else "whole", was_killed))
        if gone:
            with pytest.raises(SessionNotFound, match="was deleted"):
                await opened(files, committer)
        else:
            kept = {name: data for name, data in before.items() if not name.endswith(("state.json", ".new"))}
            assert kept.items() <= whole(folder).items(), "only the checkpoint can be done without"
            assert len(list(read_events(files.journal))) == 3
        erase_session(files)
        assert holding_the_canary(folder) == []
        assert left_overs(files) == ()
    assert stages == {("whole", True), ("gone", True), ("gone", False)}
