"""Every kind of repository a home may be: it works, or ends in a distinct error that names the way out."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from a_home import git, judge, make_home, open_door, put, remember

from harnessd.errors import HarnessdError, HistoryError
from harnessd.home.door import Committed, Refused
from harnessd.home.layout import Home
from harnessd.home.pin import Pinner
from harnessd.home.stale import STALE_AFTER


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "ada")


def _works(home: Home, *notes: str) -> Committed:
    Pinner(home, invalid=judge).pin()
    done = remember(open_door(home), "x")
    assert isinstance(done, Committed), done
    assert [any(note in told for told in done.notes) for note in notes] == [True] * len(notes)
    assert len(done.notes) == len(notes)
    assert git(home.path, "show", "HEAD:MEMORY.md").replace("\r", "").endswith("- x\n")
    pinned = Pinner(home, invalid=judge).pin()
    assert not pinned.pin.dirty
    assert git(home.path, "status", "--porcelain") == ""
    return done


def test_h8_inside_another_repository(tmp_path: Path) -> None:
    outer = make_home(tmp_path / "outer")
    home = make_home(outer.path / "ada")
    before = git(outer.path, "rev-parse", "HEAD")
    _works(home)
    assert git(outer.path, "rev-parse", "HEAD") == before


def test_h8_as_a_submodule(tmp_path: Path, home: Home) -> None:
    outer = make_home(tmp_path / "outer")
    git(outer.path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(home.path), "ada")
    _works(Home(outer.path / "ada"))


def test_h8_as_a_worktree(tmp_path: Path, home: Home) -> None:
    git(home.path, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    _works(Home(tmp_path / "tree"))
    assert git(home.path, "log", "--format=%s", "main").split() == ["Begin"]


def test_h8_with_hooks_that_refuse_and_leave_a_trace(home: Home, tmp_path: Path) -> None:
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        hook = home.path / ".git/hooks" / name
        put(hook, f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        hook.chmod(0o755)
    assert isinstance(remember(open_door(home), "x"), Committed)
    assert not (tmp_path / "ran").exists()


def test_h8_with_programs_in_its_config(home: Home, tmp_path: Path) -> None:
    git(home.path, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    git(home.path, "config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    git(home.path, "config", "filter.evil.smudge", f"touch {tmp_path}/ran; cat")
    put(home.path / ".git/info/attributes", "*.md filter=evil\n")
    put(home.path / "MEMORY.md", "# Memory\n- likes tea\n- edited\n")
    Pinner(home, invalid=judge).pin()
    assert isinstance(remember(open_door(home), "x"), Committed)
    assert not (tmp_path / "ran").exists()


def test_h8_with_gpg_signing(home: Home) -> None:
    git(home.path, "config", "commit.gpgsign", "true")
    _works(home, "not signed")


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_h8_with_autocrlf(home: Home, ends: str) -> None:
    git(home.path, "config", "core.autocrlf", "true")
    put(home.path / "MEMORY.md", f"# Memory{ends}- likes tea{ends}")
    _works(home)
    assert (home.path / "MEMORY.md").read_bytes() == f"# Memory{ends}- likes tea{ends}- x{ends}".encode()
    stored = subprocess.run(["git", "show", "HEAD:MEMORY.md"], cwd=home.path, capture_output=True, check=True)
    assert b"\r" not in stored.stdout


def test_h8_without_an_identity(home: Home) -> None:
    git(home.path, "config", "user.useConfigOnly", "true")
    _works(home)


def test_h8_before_the_first_commit(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    home.path.mkdir()
    git(home.path, "init", "-q", "-b", "main")
    put(home.path / "AGENTS.md", "x\n")
    assert isinstance(remember(open_door(home), "x"), Committed)
    assert git(home.path, "ls-tree", "-r", "--name-only", "HEAD").split() == ["MEMORY.md"]
    assert git(home.path, "status", "--porcelain") == "?? AGENTS.md\n"


def test_h8_with_packed_refs_and_objects(home: Home) -> None:
    git(home.path, "gc", "-q")
    _works(home)


def test_h8_a_shallow_clone(home: Home, tmp_path: Path) -> None:
    for number in range(3):
        put(home.path / "AGENTS.md", f"{number}\n")
        git(home.path, "commit", "-qam", "x")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{home.path}", "shallow")
    shallow = Home(tmp_path / "shallow")
    _works(shallow)
    put(shallow.path / "AGENTS.md", b"\0")
    assert Pinner(shallow, invalid=judge).pin().load("AGENTS.md") == b"2\n"


def _merge(home: Home) -> None:
    _branches(home)
    _fails(home, "merge", "side")


def _rebase(home: Home) -> None:
    _branches(home)
    _fails(home, "rebase", "side")


def _rebase_apply(home: Home) -> None:
    _branches(home)
    _fails(home, "rebase", "--apply", "side")


def _cherry_pick(home: Home) -> None:
    _branches(home)
    _fails(home, "cherry-pick", "side")


def _revert(home: Home) -> None:
    _branches(home)
    put(home.path / "AGENTS.md", "later\n")
    git(home.path, "commit", "-qam", "later")
    _fails(home, "revert", "HEAD~1")


def _bisect(home: Home) -> None:
    git(home.path, "bisect", "start")


def _branches(home: Home) -> None:
    git(home.path, "checkout", "-q", "-b", "side")
    put(home.path / "AGENTS.md", "side\n")
    git(home.path, "commit", "-qam", "side")
    git(home.path, "checkout", "-q", "main")
    put(home.path / "AGENTS.md", "main\n")
    git(home.path, "commit", "-qam", "main")


def _fails(home: Home, *arguments: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        git(home.path, *arguments)


@pytest.mark.parametrize(
    ("busy", "way_out"),
    [(_merge, "git merge --abort"), (_rebase, "git rebase --abort"), (_rebase_apply, "git rebase --abort"),
     (_cherry_pick, "git cherry-pick --abort"), (_revert, "git revert --abort"), (_bisect, "git bisect reset")],
)  # fmt: skip
def test_h8_in_the_middle_of_something_writes_are_refused_with_the_way_out(
    home: Home, busy: Callable[[Home], None], way_out: str
) -> None:
    busy(home)
    before = (git(home.path, "status", "--porcelain"), git(home.path, "rev-parse", "HEAD"))
    refused = remember(open_door(home), "x")
    assert isinstance(refused, Refused)
    assert (refused.code, way_out in refused.hint) == ("git-busy", True)
    assert (git(home.path, "status", "--porcelain"), git(home.path, "rev-parse", "HEAD")) == before
    Pinner(home, invalid=judge).pin()
    git(home.path, *way_out.split()[1:])
    assert isinstance(remember(open_door(home), "x"), Committed)


def test_h8_detached(home: Home) -> None:
    git(home.path, "checkout", "-q", "--detach")
    refused = remember(open_door(home), "x")
    assert isinstance(refused, Refused)
    assert (refused.code, "git switch" in refused.hint) == ("detached-head", True)


def test_h8_a_fresh_index_lock_refuses_and_a_stale_one_is_set_aside(home: Home) -> None:
    lock = home.path / ".git/index.lock"
    put(lock, "of git")
    head = git(home.path, "rev-parse", "HEAD")
    refused = remember(open_door(home, index_wait=0.0), "x")
    assert isinstance(refused, Refused)
    assert (refused.code, str(lock) in refused.hint) == ("index-locked", True)
    assert git(home.path, "rev-parse", "HEAD") == head
    os.utime(lock, (1, 1))
    with lock.open() as _held:
        assert isinstance(remember(open_door(home, index_wait=0.0), "x"), Refused)
    done = _works(home, "stale index.lock")
    assert STALE_AFTER > 60
    assert (home.path / ".git/index.lock.stale-1").read_text() == "of git"
    assert done.notes


def test_h8_a_descriptor_that_closes_meanwhile_does_not_hide_who_holds_the_lock(home: Home) -> None:
    lock = home.path / ".git/index.lock"
    put(lock, "of git")
    os.utime(lock, (1, 1))
    with contextlib.ExitStack() as held:
        below = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]  # the listing of /proc takes one of these numbers
        held.enter_context(lock.open())
        for descriptor in below:
            os.close(descriptor)
        refused = remember(open_door(home, index_wait=0.0), "x")
    assert isinstance(refused, Refused)
    assert refused.code == "index-locked"


def test_h8_a_left_over_branch_lock_is_a_distinct_error(home: Home) -> None:
    put(home.path / ".git/refs/heads/main.lock", "")
    with pytest.raises(HistoryError, match="lock"):
        remember(open_door(home), "x")
    (home.path / ".git/refs/heads/main.lock").unlink()
    _works(home)


def test_h8_a_nested_repository(home: Home) -> None:
    nested = make_home(home.path / "skills/nested", {"SKILL.md": "x\n"})
    refused = remember(open_door(home), "x", "skills/nested/SKILL.md")
    assert isinstance(refused, Refused)
    assert refused.code == "nested-repository"
    pinned = Pinner(home, invalid=judge).pin()
    assert pinned.load("skills/nested/SKILL.md") == b"x\n"
    assert "nested-repository" in [problem.code for problem in pinned.problems]
    assert nested.path.exists()


def _no_repository(home: Home) -> None:
    (home.path / ".git").rename(home.path / "gone")


def _bare(home: Home) -> None:
    git(home.path, "config", "core.bare", "true")


def _worktree_elsewhere(home: Home) -> None:
    (home.path / "other").mkdir()
    git(home.path, "config", "core.worktree", str(home.path / "other"))


def _sha256(home: Home) -> None:
    (home.path / ".git").rename(home.path / "gone")
    git(home.path, "init", "-q", "--object-format=sha256")


def _damaged(home: Home) -> None:
    put(home.path / ".git/HEAD", "nonsense")


@pytest.mark.parametrize("break_it", [_no_repository, _bare, _worktree_elsewhere, _sha256, _damaged])
def test_h8_what_cannot_work_says_so(home: Home, break_it: Callable[[Home], None]) -> None:
    break_it(home)
    for attempt in (lambda: Pinner(home, invalid=judge).pin(), lambda: remember(open_door(home), "x")):
        with pytest.raises(HarnessdError) as told:
            attempt()
        assert told.value.where
        assert told.value.hint


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take away its own rights to write")
def test_h8_on_a_disk_that_cannot_be_written(tmp_path: Path, open_folder: Path) -> None:
    home = make_home(open_folder / "ada")
    put(home.path / "AGENTS.md", "edited")
    for place in [home.path, *home.path.rglob("*")]:
        os.chown(place, 65534, 65534)
        place.chmod(0o555 if place.is_dir() else 0o444)
    make_home(tmp_path / "warm")
    program = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from a_home import judge, open_door, remember
from harnessd.errors import StorageError
from harnessd.home.layout import Home
from harnessd.home.pin import Pinner
# Everything is loaded before the rights are given up: nobody may not read where Python lies.
warm = Home(Path(sys.argv[2]))
Pinner(warm, invalid=judge).pin()
remember(open_door(warm), "x")
os.setgid(65534)
os.setuid(65534)
home = Home(Path(sys.argv[1]))
pinned = Pinner(home, invalid=judge).pin()
assert pinned.load("AGENTS.md") == b"edited"
assert [problem.code for problem in pinned.problems] == ["pin-not-kept"]
try:
    raise SystemExit(remember(open_door(home), "x"))
except StorageError as error:
    assert "writable" in error.hint
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(home.path), str(tmp_path / "warm"), str(Path(__file__).parent)],
        check=False, capture_output=True, text=True, env={"HOME": str(open_folder), "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
