"""How a home comes to be, and whether it may start processes."""

import os
import shutil
from pathlib import Path

import pytest
from a_home import git, judge, make_home, put

from harnessd.errors import StorageError, UsageError
from harnessd.home.create import create
from harnessd.home.layout import Home, find_home
from harnessd.home.pin import Pinner
from harnessd.home.trust import TrustStore


def test_a_new_home_is_complete_clean_and_found(tmp_path: Path) -> None:
    made = create(tmp_path / "deep/ada")
    home = find_home(str(made.home.path), tmp_path)
    assert set(made.added) == {".gitignore", "AGENTS.md", "MEMORY.md"}
    assert git(home.path, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git(home.path, "status", "--porcelain") == ""
    assert git(home.path, "log", "--format=%s").strip() == "Make the home of ada"
    put(home.path / "agents/main/x", "x")
    put(home.path / "work/x", "x")
    assert git(home.path, "status", "--porcelain") == ""
    assert not Pinner(home, invalid=judge).pin().pin.dirty
    again = create(home.path)
    assert (again.added, again.commit) == ((), None)


def test_the_identity_is_the_operators(tmp_path: Path) -> None:
    # libgit2 reads where HOME was when the process began: the repository's own setting stands for it here.
    (tmp_path / "ada").mkdir()
    git(tmp_path / "ada", "init", "-q", "-b", "trunk")
    git(tmp_path / "ada", "config", "user.name", "Uma")
    git(tmp_path / "ada", "config", "user.email", "uma@users")
    create(tmp_path / "ada")
    assert git(tmp_path / "ada", "log", "--format=%an %cn %ae").strip() == "Uma Uma uma@users"


def test_a_template_fills_what_is_missing_and_overwrites_nothing(tmp_path: Path) -> None:
    for name, text in {"AGENTS.md": "of the template\n", "skills/x/SKILL.md": "s\n", "skills/x/scripts/r.sh": "r\n",
                       "agents/main/leak": "no\n", ".git/config": "no\n", "tools.json": "{}"}.items():  # fmt: skip
        put(tmp_path / "template" / name, text)
    (tmp_path / "template/skills/x/scripts/r.sh").chmod(0o755)
    (tmp_path / "template/link").symlink_to("/etc/passwd")
    put(tmp_path / "ada/AGENTS.md", "mine\n")
    put(tmp_path / "ada/notes.txt", "mine\n")
    made = create(tmp_path / "ada", template=tmp_path / "template")
    assert (made.home.path / "AGENTS.md").read_text() == "mine\n"
    assert git(made.home.path, "ls-tree", "-r", "--name-only", "HEAD").split() == [
        ".gitignore", "AGENTS.md", "MEMORY.md", "skills/x/SKILL.md", "skills/x/scripts/r.sh", "tools.json"]  # fmt: skip
    assert git(made.home.path, "status", "--porcelain") == "?? notes.txt\n"
    assert git(made.home.path, "ls-tree", "HEAD", "skills/x/scripts/r.sh").startswith("100755")


def test_an_existing_repository_keeps_its_history_and_staged_work(tmp_path: Path) -> None:
    home = make_home(tmp_path / "ada", {"README.md": "mine\n"})
    put(home.path / "README.md", "staged\n")
    git(home.path, "add", "README.md")
    git(home.path, "rm", "-q", "--cached", ".gitignore")
    put(home.path / ".gitignore", "*.o\n")
    made = create(home.path)
    assert (home.path / ".gitignore").read_text().startswith("*.o\n# What the runtime writes")
    assert git(home.path, "log", "--format=%s").splitlines() == ["Complete the home of ada", "Begin"]
    assert "M  README.md" in git(home.path, "status", "--porcelain").splitlines()
    assert git(home.path, "show", "HEAD:README.md") == "mine\n"
    assert set(made.added) == {".gitignore", "AGENTS.md", "MEMORY.md"}


def test_what_cannot_become_a_home_says_so(tmp_path: Path) -> None:
    put(tmp_path / "file", "x")
    with pytest.raises(UsageError):
        create(tmp_path / "file")
    with pytest.raises(StorageError):
        create(tmp_path / "file/below")
    with pytest.raises(UsageError):
        create(tmp_path / "ada", template=tmp_path / "nothing")


def test_h9_only_a_home_made_here_is_trusted_by_itself(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path / "state")
    home = create(tmp_path / "ada", trust=trust).home
    assert trust.is_trusted(home, "any")
    assert TrustStore(tmp_path / "state").is_trusted(home, "any")
    shutil.copytree(home.path, tmp_path / "copy", symlinks=True)
    git(tmp_path, "clone", "-q", str(home.path), "clone")
    elsewhere = [Home(tmp_path / "copy"), Home(tmp_path / "clone"), make_home(tmp_path / "foreign")]
    elsewhere.append(create(make_home(tmp_path / "adopted").path, trust=trust).home)
    assert not any(trust.is_trusted(other, "any") for other in elsewhere)
    shutil.rmtree(home.path)
    shutil.move(tmp_path / "clone", home.path)
    assert not trust.is_trusted(home, "any")


def test_h9_a_foreign_home_is_trusted_for_exactly_what_was_looked_at(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path / "state")
    home = make_home(tmp_path / "ada")
    trust.trust(home, "looked-at")
    assert (trust.is_trusted(home, "looked-at"), trust.is_trusted(home, "other")) == (True, False)
    assert (tmp_path / "state/trust.json").stat().st_mode & 0o077 == 0


def test_h9_trust_is_looked_up_anew_whoever_changes_it_and_however_fast(tmp_path: Path) -> None:
    reader, writer = TrustStore(tmp_path / "state"), TrustStore(tmp_path / "state")
    home = make_home(tmp_path / "ada")
    for number in range(20):
        writer.now_foreign(home, f"hash-{number:02}")
        assert [reader.is_trusted(home, f"hash-{other:02}") for other in (number - 1, number)] == [False, True]
    os.utime(tmp_path / "state/trust.json", ns=(0, 0))
    (tmp_path / "state/trust.json").write_text("{}")
    assert not reader.is_trusted(home, "hash-19")
    (tmp_path / "state/trust.json").unlink()
    assert not reader.is_trusted(home, "hash-19")


def test_h9_what_comes_in_from_elsewhere_ends_the_trust_in_a_home_made_here(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path / "state")
    home = create(tmp_path / "ada", trust=trust).home
    trust.now_foreign(home, "before")
    assert (trust.is_trusted(home, "before"), trust.is_trusted(home, "after")) == (True, False)


def test_h9_a_broken_record_trusts_nobody_and_is_not_overwritten(tmp_path: Path) -> None:
    trust = TrustStore(tmp_path / "state")
    home = create(tmp_path / "ada", trust=trust).home
    put(tmp_path / "state/trust.json", "{")
    assert not trust.is_trusted(home, "any")
    with pytest.raises(StorageError):
        trust.trust(home, "x")
    assert (tmp_path / "state/trust.json").read_text() == "{"
