"""The pin: what it sees, what it costs, what it leaves alone."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from a_home import git, judge, make_home, put

from harnessd.home.layout import Home
from harnessd.home.pin import Pinned, Pinner
from harnessd.home.scan import MAX_ENTRIES

FILES = {
    "AGENTS.md": "# Ada\n",
    "MEMORY.md": "- one\n",
    "KNOWLEDGE.md": "k\n",
    "tools.json": '{"deny": ["execute"]}',
    "skills/tea/SKILL.md": "---\nname: tea\n---\nboil\n",
    "skills/tea/scripts/run.sh": "#!/bin/sh\n",
    "skills/flat.md": "flat\n",
    "subagents/ann.md": "---\nname: ann\n---\nx\n",
    "graphs/g.yaml": "nodes: {}\n",
    "evals/e.yaml": "cases: []\n",
    "users/uma/MEMORY.md": "- hers\n",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "ada", FILES)


def pinner(home: Home, **more: Callable[..., object]) -> Pinner:
    return Pinner(home, invalid=judge, **({"breathe": lambda: None} | more))


def age(home: Home, pins: Pinner) -> Pinned:
    """Pin until every file is old enough for its stamps to be trusted (a condition, bounded by the test's time)."""
    while not (pins.pin(), pins._scanner.unchanged())[1]:
        pass
    return pins.pin()


def test_h1_the_pin_is_gits_own_tree_of_the_definition_files(home: Home) -> None:
    pinned = pinner(home).pin()
    git(home.path, "rm", "-q", "--cached", ".gitignore")
    assert pinned.tree == git(home.path, "write-tree").strip()
    assert {path: pinned.load(path).decode() for path in pinned.blobs} == FILES
    assert (pinned.pin.dirty, pinned.pin.last_good, pinned.problems) == (False, (), ())
    assert pinned.pin.head == git(home.path, "rev-parse", "HEAD").strip()


def _in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"X")


def _renamed_over(path: Path) -> None:
    other = path.with_name("zz-new")
    other.write_bytes(b"Y" + path.read_bytes()[1:])
    other.replace(path)


def _same_size_and_mtime(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"Z" + path.read_bytes()[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _renamed_over_with_same_stamps(path: Path) -> None:
    before = path.stat()
    _renamed_over(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _deleted(path: Path) -> None:
    path.unlink()


def _grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"}")


EDITS = [_in_place, _renamed_over, _same_size_and_mtime, _renamed_over_with_same_stamps, _deleted, _grown]


@pytest.mark.parametrize("aged", [True, False], ids=["aged", "fresh"])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
@pytest.mark.parametrize("name", [name for name in FILES if name != "tools.json"])
def test_h1_any_edit_of_any_file_is_in_the_next_pin(
    home: Home, name: str, edit: Callable[[Path], None], aged: bool
) -> None:
    pins = Pinner(home, invalid=lambda *_: None, breathe=lambda: None)
    before = age(home, pins) if aged else pins.pin()
    edit(home.path / name)
    after = pins.pin()
    assert after is not before
    assert after.tree != before.tree
    assert after.pin.dirty
    if edit is _deleted:
        assert name not in after.blobs
    else:
        assert after.load(name) == (home.path / name).read_bytes()


@pytest.mark.parametrize("name", ["skills/new/SKILL.md", "subagents/bob.md", "users/x/MEMORY.md", "skills/tea/a/b.txt"])
def test_h1_a_new_file_is_in_the_next_pin(home: Home, name: str) -> None:
    pins = pinner(home)
    age(home, pins)
    put(home.path / name, "new\n")
    assert pins.pin().load(name) == b"new\n"


def test_h1_a_moved_symlink_is_in_the_next_pin(home: Home) -> None:
    put(home.path / "shared/one.md", "one\n")
    put(home.path / "shared/two.md", "two\n")
    (home.path / "skills/linked.md").symlink_to("../shared/one.md")
    pins = pinner(home)
    assert age(home, pins).load("skills/linked.md") == b"one\n"
    (home.path / "skills/linked.md").unlink()
    (home.path / "skills/linked.md").symlink_to("../shared/two.md")
    assert pins.pin().load("skills/linked.md") == b"two\n"
    age(home, pins)
    put(home.path / "shared/two.md", "TWO\n")
    assert pins.pin().load("skills/linked.md") == b"TWO\n"


def test_h1_a_commit_moves_head_and_keeps_the_tree(home: Home) -> None:
    pins = pinner(home)
    put(home.path / "MEMORY.md", "- two\n")
    dirty = pins.pin()
    git(home.path, "commit", "-qam", "x")
    clean = pins.pin()
    assert (dirty.tree, dirty.pin.dirty, clean.pin.dirty) == (clean.tree, True, False)
    assert clean.pin.head != dirty.pin.head


def test_h2_an_unchanged_home_gives_the_same_object(home: Home) -> None:
    pins = pinner(home)
    first = pins.pin()
    assert all(pins.pin() is first for _ in range(100))
    assert age(home, pins) is first


def test_h2_no_process_is_started_on_the_path_of_a_call(home: Home) -> None:
    program = """
import os, sys
from pathlib import Path
sys.addaudithook(lambda event, _: event in {"subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system"}
                 and os._exit(3))
os.environ["PATH"] = ""
from harnessd.home.layout import Home
from harnessd.home.pin import Pinner
home = Home(Path(sys.argv[1]))
pins = Pinner(home, invalid=lambda *_: None)
pins.pin()
(home.path / "MEMORY.md").write_text("- changed")
assert pins.pin().pin.dirty
assert "git" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program, str(home.path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_h2_the_users_index_staged_work_and_branch_stay_bit_identical(home: Home) -> None:
    put(home.path / "AGENTS.md", "staged\n")
    git(home.path, "add", "AGENTS.md")
    put(home.path / "AGENTS.md", "unstaged\n")
    put(home.path / "skills/new.md", "untracked\n")
    before = _of_user(home)
    pinned = pinner(home).pin()
    assert _of_user(home) == before
    assert git(home.path, "show", f"{pinned.tree}:AGENTS.md") == "unstaged\n"
    assert git(home.path, "status", "--short").splitlines() == ["MM AGENTS.md", "?? skills/new.md"]


def _of_user(home: Home) -> tuple[bytes, ...]:
    names = ("index", "HEAD", "refs/heads/main", "logs/HEAD")
    return tuple((home.path / ".git" / name).read_bytes() for name in names)


def test_w7_a_pin_survives_gc_and_is_hidden_from_peers(home: Home, tmp_path: Path) -> None:
    put(home.path / "AGENTS.md", "never committed\n")
    pinned = pinner(home).pin()
    put(home.path / "AGENTS.md", "# Ada\n")
    git(home.path, "gc", "-q", "--prune=now")
    assert git(home.path, "show", f"{pinned.tree}:AGENTS.md") == "never committed\n"
    assert "harnessd" not in git(tmp_path, "ls-remote", str(home.path))
    assert git(home.path, "fsck", "--strict") == ""
    again = Pinner(home, invalid=judge)
    again.pin()
    assert git(home.path, "config", "--get-all", "transfer.hideRefs").split() == ["refs/harnessd"]


@pytest.mark.parametrize("name", [name for name in FILES if name != "skills/tea/scripts/run.sh"])
def test_h5_any_truncation_uses_the_last_valid_version_or_the_text(home: Home, name: str) -> None:
    whole = FILES[name].encode()
    for cut in range(len(whole)):
        put(home.path / name, whole)
        pinner(home).pin()
        put(home.path / name, whole[:cut])
        broken = judge(name, whole[:cut], whole) is not None
        for pins in (pinner(home), pinner(home)):
            pinned = pins.pin()
            assert (name in pinned.pin.last_good) == broken
            assert pinned.load(name) == (whole if broken else whole[:cut])
            assert [problem.path for problem in pinned.problems] == ([name] if broken else [])
            assert git(home.path, "show", f"{pinned.tree}:{name}").encode() == whole[:cut]
            pins.close()


@pytest.mark.parametrize("name", ["tools.json", "AGENTS.md", "subagents/ann.md"])
def test_h5_a_file_that_an_editor_moves_away_while_it_saves_is_not_missed(home: Home, name: str) -> None:
    saved: list[Path] = []

    def editor_finishes() -> None:
        saved.append(home.path / name)
        put(home.path / name, FILES[name] + " ")

    pins = pinner(home, breathe=editor_finishes)
    pins.pin()
    (home.path / name).unlink()
    assert pins.pin().load(name).decode() == FILES[name] + " "
    assert len(saved) == 1


def test_h8_another_repository_put_in_its_place_is_noticed(home: Home, tmp_path: Path) -> None:
    pins = pinner(home)
    pins.pin()
    other = make_home(tmp_path / "other", FILES | {"AGENTS.md": "other\n"})
    (home.path / ".git").rename(tmp_path / "gone")
    (other.path / ".git").rename(home.path / ".git")
    pinned = pins.pin()
    assert pinned.pin.head == git(home.path, "rev-parse", "HEAD").strip()
    assert pinned.pin.dirty
    assert git(home.path, "show", f"{pinned.tree}:AGENTS.md") == "# Ada\n"


def test_h8_a_submodule_in_a_folder_of_the_home_is_not_dirty(home: Home, tmp_path: Path) -> None:
    skill = make_home(tmp_path / "skill", {"SKILL.md": "from elsewhere\n"})
    git(home.path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(skill.path), "skills/sub")
    git(home.path, "commit", "-qm", "Add a submodule")
    pinned = pinner(home).pin()
    assert (pinned.pin.dirty, pinned.load("skills/sub/SKILL.md")) == (False, b"from elsewhere\n")


@pytest.mark.parametrize("raw", [b"\0", b"\xff\xfe\xff", b""], ids=["nul", "undecodable", "emptied"])
def test_h5_the_commit_of_the_stand_in_is_named(home: Home, raw: bytes) -> None:
    good = git(home.path, "rev-parse", "HEAD").strip()
    put(home.path / "AGENTS.md", b"\0 broken and committed")
    git(home.path, "commit", "-qam", "break")
    put(home.path / "AGENTS.md", raw)
    pinned = pinner(home).pin()
    assert pinned.load("AGENTS.md") == b"# Ada\n"
    assert good[:12] in pinned.problems[0].message
    assert pinned.problems[0].severity == "error"


def test_h5_the_commit_that_set_the_last_good_version_is_named(home: Home) -> None:
    put(home.path / "tools.json", '{"deny": ["write"]}')
    git(home.path, "commit", "-qam", "set")
    setting = git(home.path, "rev-parse", "HEAD").strip()
    put(home.path / "MEMORY.md", "- another file\n")
    git(home.path, "commit", "-qam", "later")
    put(home.path / "tools.json", "{")
    assert setting[:12] in pinner(home).pin().problems[0].message


def test_h5_a_valid_edit_that_was_never_committed_counts_as_the_last_good_one(home: Home) -> None:
    stricter = '{"deny": ["execute", "write"]}'
    put(home.path / "tools.json", stricter)
    pinner(home).pin()
    put(home.path / "tools.json", stricter[:-3])
    assert pinner(home).pin().load("tools.json") == stricter.encode()
    git(home.path, "checkout", "-q", "tools.json")
    pinner(home).pin()
    put(home.path / "tools.json", "{")
    assert pinner(home).pin().load("tools.json") == FILES["tools.json"].encode()


def test_h5_tools_json_without_a_valid_past_denies(tmp_path: Path) -> None:
    home = make_home(tmp_path / "ada", {"AGENTS.md": "x", "tools.json": "{"})
    pinned = pinner(home).pin()
    assert (pinned.pin.last_good, pinned.load("tools.json")) == (("tools.json",), b"")
    assert [problem.code for problem in pinned.problems] == ["tools-denied"]


def test_h5_a_subagent_without_a_valid_past_is_not_used(home: Home) -> None:
    put(home.path / "subagents/new.md", "---\nname: new\n")
    pinned = pinner(home).pin()
    assert "subagents/new.md" not in pinned.blobs
    assert pinned.problems[0].path == "subagents/new.md"


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling"])
def test_h5_something_else_in_a_files_place(home: Home, kind: str) -> None:
    place = home.path / "tools.json"
    place.unlink()
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("nowhere")
    pinned = pinner(home).pin()
    assert any(problem.path == "tools.json" for problem in pinned.problems)
    assert pinned.load("tools.json") == FILES["tools.json"].encode()


@pytest.mark.parametrize("target", ["outside", "work", "agents", ".git"])
@pytest.mark.parametrize("leaf", [True, False], ids=["file", "folder"])
def test_h6_a_link_out_of_the_definition_is_reported_and_followed_only_if_trusted(
    home: Home, tmp_path: Path, target: str, leaf: bool
) -> None:
    aim = tmp_path / "elsewhere" if target == "outside" else home.path / target / "elsewhere"
    put(aim / "SKILL.md", "secret\n")
    (home.path / "skills/in").symlink_to(aim / "SKILL.md" if leaf else aim)
    pinned = pinner(home).pin()
    assert not any(path.startswith("skills/in") for path in pinned.blobs)
    assert [(problem.path, problem.code) for problem in pinned.problems] == [("skills/in", "link-outside")]
    trusted = pinner(home, trusted_link=lambda path: path == "skills/in").pin()
    assert trusted.load("skills/in" if leaf else "skills/in/SKILL.md") == b"secret\n"


def test_h6_a_link_that_leads_back_ends(home: Home) -> None:
    (home.path / "skills/tea/up").symlink_to("../../skills")
    pinned = pinner(home).pin()
    assert [problem.code for problem in pinned.problems] == ["link-loop"]


def test_h7_a_heap_of_files_elsewhere_costs_nothing_and_inside_is_left_out_whole(home: Home) -> None:
    for folder in ("work/heap", "heap", "skills/tea/assets"):
        (home.path / folder).mkdir(parents=True)
        for number in range(MAX_ENTRIES + 1):
            (home.path / folder / f"{number}").touch()
    pins = pinner(home)
    pinned = pins.pin()
    assert set(pinned.blobs) == set(FILES)
    assert [(problem.path, problem.code) for problem in pinned.problems] == [("skills/tea/assets", "too-many-files")]
    assert not pinned.pin.dirty
    assert len(pins._scanner._watch) < 40


def test_h8_a_git_store_that_cannot_be_written_still_pins(home: Home) -> None:
    put(home.path / ".git/refs/harnessd", "in the way")
    put(home.path / "AGENTS.md", "edited\n")
    pinned = pinner(home).pin()
    assert pinned.load("AGENTS.md") == b"edited\n"
    assert [problem.code for problem in pinned.problems] == ["pin-not-kept"]


@pytest.mark.parametrize("by", ["config", "attributes"])
def test_h8_autocrlf_alone_is_not_dirty(home: Home, by: str) -> None:
    if by == "config":
        git(home.path, "config", "core.autocrlf", "true")
    else:
        put(home.path / ".gitattributes", "*.md text=auto\n")
    put(home.path / "AGENTS.md", "# Ada\r\n")
    pinned = pinner(home).pin()
    assert (pinned.pin.dirty, pinned.load("AGENTS.md")) == (False, b"# Ada\r\n")
    put(home.path / "AGENTS.md", "# Bob\r\n")
    assert pinner(home).pin().pin.dirty


def test_h8_before_the_first_commit_and_detached(home: Home, tmp_path: Path) -> None:
    new = Home(tmp_path / "new")
    new.path.mkdir()
    git(new.path, "init", "-q", "-b", "main")
    put(new.path / "AGENTS.md", "x\n")
    assert (pinner(new).pin().pin.head, pinner(new).pin().pin.dirty) == (None, True)
    git(home.path, "checkout", "-q", "--detach")
    assert pinner(home).pin().pin.head == git(home.path, "rev-parse", "HEAD").strip()


def test_h3_names_that_are_no_utf8_are_left_out_and_told(home: Home) -> None:
    (home.path / "skills" / os.fsdecode(b"caf\xe9")).mkdir()
    (home.path / "skills" / os.fsdecode(b"caf\xe9") / "SKILL.md").write_bytes(b"x")
    pinned = pinner(home).pin()
    assert set(pinned.blobs) == set(FILES)
    assert [problem.code for problem in pinned.problems] == ["bad-name"]
    assert pinned.problems[0].model_dump_json()
