"""The list of sessions: cheap, and one that cannot be read hides no other."""

from pathlib import Path

import pytest

from harnessd.errors import SessionNotFound
from harnessd.facts.event import Event, MessageCreated, SessionCreated, StateUpdated
from harnessd.facts.message import TextPart, UserMessage
from harnessd.facts.run import Parent
from harnessd.journal.line import encode
from harnessd.journal.records import read_events, read_page
from harnessd.journal.sessions import SessionSummary, UnreadableSession, list_sessions
from tests.journal.desk import said


def test_f9_the_list_names_each_session_and_each_that_cannot_be_read(tmp_path: Path) -> None:
    _write(tmp_path, "ses_a", [SessionCreated(title="Tea", user_id="ann", parent=Parent(session_id="ses_p"))], day=1)
    _write(tmp_path, "ses_b", [SessionCreated(), _input("Please make tea\nand cake")], day=3)
    _write(tmp_path, "ses_c", [SessionCreated(title="Old"), StateUpdated(patch={"title": "New"})], day=2)
    _write(tmp_path, "ses_d", [SessionCreated(), _input("long " * 50)], day=4)
    (tmp_path / "ses_e.jsonl").write_bytes(b"\0" * 900)
    (tmp_path / "ses_f.jsonl").write_bytes(b"")
    (tmp_path / "ses_g.jsonl").mkdir()
    (tmp_path / "ses_h.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "ses_a.jsonl.lock").write_bytes(b"1\n")
    (tmp_path / "ses_a.jsonl.damaged-4").write_bytes(b"x")
    found = list_sessions(tmp_path)
    good = [one for one in found if isinstance(one, SessionSummary)]
    bad = [one for one in found if isinstance(one, UnreadableSession)]
    assert [(one.session_id, one.last_seq) for one in good] == [("ses_d", 2), ("ses_b", 2), ("ses_c", 2), ("ses_a", 1)]
    titles = {one.session_id: one.title for one in good}
    assert (titles["ses_a"], titles["ses_b"], titles["ses_c"]) == ("Tea", "Please make tea", "New")
    assert titles["ses_d"].endswith("…")
    assert len(titles["ses_d"]) <= 80
    assert (good[-1].user_id, good[-1].parent_session_id) == ("ann", "ses_p")
    assert sorted(one.session_id for one in bad) == ["ses_e", "ses_f", "ses_g", "ses_h"]
    assert all(one.reason for one in bad)


def test_f9_a_long_journal_costs_the_list_no_more_than_its_ends(tmp_path: Path) -> None:
    _write(tmp_path, "ses_a", [SessionCreated(title="Long"), *(said("x" * 2000) for _ in range(3000))], day=1)
    path = tmp_path / "ses_a.jsonl"
    size = path.stat().st_size
    middle = path.read_bytes()
    path.write_bytes(middle[:400_000] + b"\n" * (size - 800_000) + middle[-400_000:])
    (found,) = list_sessions(tmp_path)
    assert isinstance(found, SessionSummary)
    assert (found.title, found.last_seq) == ("Long", 3001)


def test_f9_no_folder_is_no_session(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "nowhere") == []


def test_f9_a_session_that_is_not_there_is_named(tmp_path: Path) -> None:
    for read in (lambda path: list(read_events(path)), lambda path: read_page(path, None, 5)):
        with pytest.raises(SessionNotFound) as refused:
            read(tmp_path / "ses_x.jsonl")
        assert "ses_x" in str(refused.value)


def _input(text: str) -> MessageCreated:
    return MessageCreated(message=UserMessage(parts=(TextPart(text=text),)))


def _write(folder: Path, session_id: str, events: list[Event], day: int) -> None:
    at = f"2026-11-0{day}T12:00:00.000Z"
    lines = [encode(event.model_copy(update={"seq": seq, "at": at})) for seq, event in enumerate(events, 1)]
    (folder / f"{session_id}.jsonl").write_bytes(b"".join(lines))
