"""What history answers: who learned what, when, why, and which version a run used."""

from pathlib import Path

import pytest
from a_home import ADA, CAUSE, git, judge, make_home, open_door, put, remember

from harnessd.errors import HistoryError
from harnessd.home.change import ANY, Change, PutFile
from harnessd.home.history import blame, log, show, trailers_of, why
from harnessd.home.layout import Home
from harnessd.home.pin import Pinner


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "ada")


def test_log_tells_who_what_and_why(home: Home) -> None:
    remember(open_door(home), "drinks coffee")
    open_door(home).commit_now(Change("skills/jam/SKILL.md", PutFile(b"cook\n"), None), ADA, CAUSE, "auto")
    newest, second, first = log(home)
    assert (newest.subject, newest.kind, newest.author, newest.paths, newest.plus, newest.minus) == (
        "Add skill jam", "agent", "ada", ("skills/jam/SKILL.md",), 1, 0)  # fmt: skip
    assert second.trailers["run"] == "run_1"
    assert (first.subject, first.kind, first.trailers) == ("Begin", "operator", {})
    assert [entry.subject for entry in log(home, limit=1)] == ["Add skill jam"]
    assert [entry.subject for entry in log(home, paths=["skills"])] == ["Add skill jam"]
    assert [entry.subject for entry in log(home, paths=["MEMORY.md"])] == ["Remember: drinks coffee", "Begin"]
    git(home.path, "mv", "skills/jam", "skills/marmalade")
    git(home.path, "commit", "-qm", "Rename")
    assert [entry.subject for entry in log(home, paths=["skills/marmalade/SKILL.md"])] == [
        "Rename",
        "Add skill jam",
    ]
    assert newest.model_dump_json()


def test_show_gives_the_diff_and_refuses_what_is_no_commit(home: Home) -> None:
    done = remember(open_door(home), "drinks coffee")
    for name in (done.commit, done.commit[:8], "HEAD"):  # type: ignore[union-attr]
        assert "+- drinks coffee" in show(home, name).diff
    for name in ("", "nonsense", "0" * 40, "--all", "main", "HEAD~1", done.commit[:3]):  # type: ignore[union-attr]
        with pytest.raises(HistoryError):
            show(home, name)


def test_trailers_come_from_the_last_paragraph_only() -> None:
    assert trailers_of("Harness-Run: forged") == {}
    assert trailers_of("a\n\nHarness-Run: forged\n\nHarness-Run: real\nHarness-Origin: agent\n") == {
        "run": "real", "origin": "agent"}  # fmt: skip


@pytest.mark.parametrize("rewritten", [False, True], ids=["as it was", "after a rewrite and gc"])
def test_w7_why_names_the_blob_of_each_file_also_when_dirty(home: Home, rewritten: bool) -> None:
    remember(open_door(home), "drinks coffee")
    put(home.path / "AGENTS.md", "uncommitted\n")
    pin = Pinner(home, invalid=judge).pin().pin
    if rewritten:
        git(home.path, "commit", "-q", "--amend", "-am", "rewritten")
        git(home.path, "reflog", "expire", "--expire=now", "--all")
        git(home.path, "gc", "-q", "--prune=now")
        put(home.path / "AGENTS.md", "later\n")
        git(home.path, "commit", "-qam", "later")
    agents, memory = why(home, pin.tree, pin.head)
    assert git(home.path, "cat-file", "blob", agents.blob) == "uncommitted\n"
    assert (agents.path, memory.path) == ("AGENTS.md", "MEMORY.md")
    if rewritten:
        assert (agents.subject, memory.subject) == ("rewritten", "rewritten")
    else:
        assert (agents.commit, memory.subject, memory.run) == (None, "Remember: drinks coffee", "run_1")


def test_w7_why_names_the_stand_in_of_a_broken_file(home: Home) -> None:
    put(home.path / "AGENTS.md", b"\0")
    pin = Pinner(home, invalid=judge).pin().pin
    agents, _ = why(home, pin.tree, pin.head, last_good=pin.last_good, invalid=judge)
    assert (agents.stands_in, agents.subject) == (True, "Begin")
    assert git(home.path, "cat-file", "blob", agents.blob) == "# Ada\nBe kind.\n"


def test_w7_why_of_a_pin_that_is_gone_says_so(home: Home) -> None:
    with pytest.raises(HistoryError) as told:
        why(home, "0" * 40, None)
    assert told.value.hint


def test_w7_blame_leads_from_a_line_to_the_run_and_the_call(home: Home) -> None:
    remember(open_door(home), "drinks coffee")
    lines = blame(home, "MEMORY.md")
    assert [(line.line, line.text, line.entry.subject) for line in lines] == [
        (1, "# Memory", "Begin"),
        (2, "- likes tea", "Begin"),
        (3, "- drinks coffee", "Remember: drinks coffee"),
    ]
    (line,) = blame(home, "MEMORY.md", 3)
    assert (line.entry.trailers["run"], line.entry.trailers["call"]) == ("run_1", "call_1")
    with pytest.raises(HistoryError):
        blame(home, "nothing.md")


def test_h8_reading_history_runs_nothing_of_the_home(home: Home, tmp_path: Path) -> None:
    open_door(home).commit_now(Change("MEMORY.md", PutFile(b"x\n"), ANY), ADA, CAUSE, "auto")
    for name in ("core.fsmonitor", "core.pager", "gpg.program", "diff.external", "diff.evil.textconv"):
        git(home.path, "config", name, f"touch {tmp_path}/ran; cat")
    git(home.path, "config", "log.showSignature", "true")
    put(home.path / ".gitattributes", "*.md diff=evil\n")
    log(home)
    log(home, paths=["MEMORY.md"])
    blame(home, "MEMORY.md")
    show(home, "HEAD")
    assert not (tmp_path / "ran").exists()
