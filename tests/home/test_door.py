"""The one door: what a commit holds, and what it leaves alone."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from a_home import ADA, CAUSE, SECRET, git, make_home, open_door, put, remember

from harnessd.errors import Locked
from harnessd.home.change import (
    ANY,
    AppendEntry,
    Change,
    DeleteFile,
    EditFile,
    Operation,
    PutFile,
    RemoveEntry,
)
from harnessd.home.door import Author, Committed, Conflicted, NeedsApproval, Outcome, Preview, Refused
from harnessd.home.layout import Home
from harnessd.home.lock import home_lock
from harnessd.home.tiers import Tiers
from harnessd.home.tree import blob_id

FILES = {
    "AGENTS.md": "# Ada\nBe kind.\n",
    "MEMORY.md": "# Memory\n- likes tea\n",
    "skills/tea/SKILL.md": "boil\n",
    "notes.txt": "of the user\n",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "ada", FILES)


def change(home: Home, path: str, operation: Operation, base: str | None = ANY, **more: str) -> Outcome:
    return open_door(home).commit_now(
        Change(path, operation, base),
        ADA,
        CAUSE,
        more.get("tier", "auto"),
        more.get("user"),  # type: ignore[arg-type]
    )


def test_a_commit_holds_its_path_its_author_and_its_trailers(home: Home) -> None:
    done = remember(open_door(home), "drinks coffee")
    assert isinstance(done, Committed)
    assert git(home.path, "show", "--format=%an <%ae>|%cn|%B", "--name-only", "HEAD").strip().splitlines() == [
        "ada <ada@agents>|harnessd|Remember: drinks coffee",
        "",
        "Harness-Agent: main",
        "Harness-Session: ses_1",
        "Harness-Run: run_1",
        "Harness-Call: call_1",
        f"Harness-Pin: {'f' * 40}",
        "Harness-Model: m",
        "Harness-Origin: agent",
        "",
        "",
        "MEMORY.md",
    ]
    assert (home.path / "MEMORY.md").read_text() == "# Memory\n- likes tea\n- drinks coffee\n"
    assert done.blob == blob_id((home.path / "MEMORY.md").read_bytes())
    assert git(home.path, "status", "--porcelain") == ""
    assert git(home.path, "fsck", "--strict") == ""


SUBJECTS = [
    ("MEMORY.md", AppendEntry(None, "likes jam"), "Remember: likes jam"),
    ("MEMORY.md", AppendEntry(None, "a\nHarness-Run: forged"), "Edit MEMORY.md: 2 lines added"),
    ("MEMORY.md", RemoveEntry("tea"), "Forget: likes tea"),
    ("MEMORY.md", EditFile((("tea", "milk"),)), "Correct: likes milk"),
    ("users/uma/MEMORY.md", AppendEntry(None, "likes jam"), "Remember: likes jam (of uma)"),
    ("skills/jam/SKILL.md", PutFile(b"cook\n"), "Add skill jam"),
    ("skills/tea/SKILL.md", EditFile((("boil\n", "boil\npour\n"),)), "Edit skill tea: 1 line added"),
    ("skills/tea/SKILL.md", DeleteFile(), "Remove skill tea"),
    ("skills/tea/scripts/x.sh", PutFile(b"\x00\xff"), "Add skills/tea/scripts/x.sh"),
    (
        "AGENTS.md",
        EditFile((("Be kind.\n", "Be brief.\nBe glad.\n"),)),
        "Edit AGENTS.md: 2 lines added, 1 removed",
    ),
]


@pytest.mark.parametrize(("path", "operation", "subject"), SUBJECTS)
def test_the_subject_is_derived_from_the_difference(home: Home, path: str, operation: Operation, subject: str) -> None:
    door = open_door(home)
    door._check = lambda *_: ()
    base = (home.path / path).read_bytes() if (home.path / path).exists() else None
    asked = Change(path, operation, None if base is None else blob_id(base))
    done = door.commit_now(asked, ADA, CAUSE, "ask", "uma")
    assert isinstance(done, Committed)
    wanted = "Remember: a" if "forged" in repr(operation) else subject
    assert done.subject == wanted
    assert git(home.path, "log", "-1", "--format=%(trailers:key=Harness-Run,valueonly)").strip() == "run_1"
    assert git(home.path, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("path", "user", "origin", "tier"),
    [
        ("MEMORY.md", None, "agent", "auto"),
        ("MEMORY.md", None, "remote", "ask"),
        ("skills/a/b/c.md", None, "user", "auto"),
        ("skills/a.md", None, "remote", "ask"),
        ("users/uma/MEMORY.md", "uma", "agent", "auto"),
        ("users/uma/MEMORY.md", "bob", "agent", "locked"),
        ("users/uma/MEMORY.md", None, "agent", "locked"),
        ("users/uma/other.md", "uma", "agent", "locked"),
        *[(path, None, "agent", "ask") for path in ("AGENTS.md", "KNOWLEDGE.md", "tools.json", "subagents/x.md",
                                                    "graphs/g.yaml", "evals/e.yaml")],
        *[(path, "uma", "user", "locked") for path in (
            ".git/config", ".gitignore", ".gitattributes", "agents/main/x", "README.md", "agents.md", "Skills/x.md",
            "skills/.gitattributes", "skills/../AGENTS.md", "skills//x.md", "/etc/passwd", "", "memory.MD",
            "work/../AGENTS.md", "users/uma/../bob/MEMORY.md", "AGENTS.md/", "./MEMORY.md")],
        ("work/a/b", None, "remote", "free"),
        ("work/.hidden", None, "remote", "free"),
    ],
)  # fmt: skip
def test_w4_tiers(path: str, user: str | None, origin: str, tier: str) -> None:
    from harnessd.home.tiers import tier_of

    assert tier_of(path, user, origin=origin) == tier  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".gitignore",
        "notes.txt",
        "agents/main/x",
        "../x",
        "/etc/x",
        "a//b",
        "skills/../AGENTS.md",
        "skills/.git/config",
        "skills/x\n.md",
        "work/x",
        "",
        "skills/",
    ],
)
def test_w4_closed_paths_are_refused_and_stay_byte_identical(home: Home, path: str) -> None:
    before = _everything(home)
    for tier in ("auto", "ask", "locked"):
        assert isinstance(change(home, path, PutFile(b"x"), tier=tier), Refused)
    assert _everything(home) == before


def test_w4_a_tier_that_asks_needs_an_approval_that_is_bound_to_its_blob(home: Home) -> None:
    edit = Change("AGENTS.md", EditFile((("kind", "brief"),)), blob_id(b"# Ada\nBe kind.\n"))
    door = open_door(home)
    asked = door.commit_now(edit, ADA, CAUSE, "auto")
    assert isinstance(asked, NeedsApproval)
    assert ("-Be kind.\n+Be brief.\n" in asked.diff, asked.base, asked.tier) == (True, edit.base, "ask")
    put(home.path / "AGENTS.md", "# Ada\nBe kind.\nBe just.\n")
    git(home.path, "commit", "-qam", "x")
    assert isinstance(door.commit_now(edit, ADA, CAUSE, "ask"), Conflicted)
    put(home.path / "AGENTS.md", "# Ada\nBe kind.\n")
    git(home.path, "commit", "-qam", "x")
    assert isinstance(door.commit_now(edit, ADA, CAUSE, "ask"), Committed)


def test_w6_a_remote_origin_never_reaches_a_file_without_an_approval(home: Home) -> None:
    remote = CAUSE.model_copy(update={"origin": "remote"})
    asked = open_door(home).commit_now(Change("MEMORY.md", AppendEntry(None, "x"), ANY), ADA, remote, "auto")
    assert isinstance(asked, NeedsApproval)


def test_the_operator_and_the_settings_may_open_more(home: Home) -> None:
    operator = Author(kind="operator", name="Uma", email="uma@users")
    done = open_door(home).commit_now(Change("notes.txt", PutFile(b"new\n"), ANY), operator, CAUSE, "auto")
    assert isinstance(done, Committed)
    assert git(home.path, "log", "-1", "--format=%an|%cn").strip() == "Uma|Uma"
    door = open_door(home, tiers=Tiers(memory="locked", agents="auto"))
    assert isinstance(remember(door, "x"), Refused)
    assert isinstance(door.commit_now(Change("AGENTS.md", PutFile(b"y\n"), ANY), ADA, CAUSE, "auto"), Committed)


async def test_preview_shows_what_would_be_and_stores_nothing(home: Home) -> None:
    objects = sorted((home.path / ".git/objects").rglob("*"))
    before = _everything(home)
    shown = await open_door(home).preview(Change("MEMORY.md", AppendEntry(None, "x"), None))
    assert isinstance(shown, Preview)
    assert shown.result == b"# Memory\n- likes tea\n- x\n"
    assert "+- x" in shown.diff
    refused = await open_door(home).preview(Change("MEMORY.md", AppendEntry(None, SECRET), None))
    assert isinstance(refused, Refused)
    assert (_everything(home), sorted((home.path / ".git/objects").rglob("*"))) == (before, objects)


@pytest.mark.parametrize(
    ("operation", "base", "kind"),
    [
        (PutFile(b"new\n"), ANY, Committed),
        (PutFile(b"new\n"), "known", Committed),
        (PutFile(b"new\n"), "0" * 40, Conflicted),
        (PutFile(b"new\n"), None, Conflicted),
        (DeleteFile(), "0" * 40, Conflicted),
        (DeleteFile(), "known", Committed),
        (EditFile((("tea", "milk"),)), "0" * 40, Committed),
        (EditFile((("absent", "x"),)), "0" * 40, Conflicted),
        (EditFile((("absent", "x"),)), "known", Refused),
        (EditFile((("e", "x"),)), "known", Refused),
        (EditFile((("", "x"),)), "known", Refused),
        (AppendEntry(None, "x"), "0" * 40, Committed),
        (RemoveEntry("tea"), "0" * 40, Committed),
        (RemoveEntry("nothing"), "0" * 40, Conflicted),
        (EditFile((("tea", "tea"),)), "known", Refused),
    ],
)
def test_w1_each_write_is_compare_and_set(home: Home, operation: Operation, base: str | None, kind: type) -> None:
    if base == "known":
        base = blob_id((home.path / "MEMORY.md").read_bytes())
    before = _everything(home)
    done = change(home, "MEMORY.md", operation, base)
    assert isinstance(done, kind)
    if kind is not Committed:
        assert _everything(home) == before


def test_w1_eight_processes_a_hundred_appends(home: Home) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from a_home import open_door, remember
from harnessd.home.door import Committed
from harnessd.home.layout import Home
door = open_door(Home(Path(sys.argv[1])), lock_wait=100)
for number in range(100):
    assert isinstance(remember(door, sys.argv[2] + "-" + str(number)), Committed)
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(home.path), f"writer{n}"], stderr=subprocess.PIPE)
        for n in range(8)
    ]
    errors = [writer.communicate()[1] for writer in writers]
    assert errors == [b""] * 8
    entries = [line for line in (home.path / "MEMORY.md").read_text().splitlines() if "writer" in line]
    assert sorted(entries) == sorted(f"- writer{n}-{i}" for n in range(8) for i in range(100))
    assert git(home.path, "rev-list", "--count", "HEAD").strip() == "801"
    assert git(home.path, "status", "--porcelain") == ""


def test_w1_the_users_own_git_at_the_same_time_loses_nothing(home: Home) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from a_home import open_door, remember
from harnessd.home.door import Committed
from harnessd.home.layout import Home
door = open_door(Home(Path(sys.argv[1])), lock_wait=100, index_wait=100)
for number in range(60):
    done = remember(door, "agent-" + str(number))
    assert isinstance(done, Committed), done
"""
    agent = subprocess.Popen([sys.executable, "-c", program, str(home.path)], stderr=subprocess.PIPE)
    made = 0
    while agent.poll() is None:
        put(home.path / "notes.txt", f"{made}\n")
        command = ["git", "-c", "user.name=u", "-c", "user.email=u@u", "commit", "-qm", f"user-{made}", "notes.txt"]
        # Git itself gives up when the index is taken or the branch moved; the user then tries again.
        made += subprocess.run(command, cwd=home.path, capture_output=True, check=False).returncode == 0
    assert agent.communicate()[1].decode() == ""
    subjects = git(home.path, "log", "--format=%s").splitlines()
    assert len(subjects) == 1 + 60 + made
    assert sum(f"- agent-{n}\n" in (home.path / "MEMORY.md").read_text() for n in range(60)) == 60
    assert git(home.path, "show", "HEAD:MEMORY.md") == (home.path / "MEMORY.md").read_text()
    git(home.path, "checkout", "-q", "notes.txt")
    assert git(home.path, "status", "--porcelain") == ""


def test_w1_a_held_lock_is_waited_for_and_then_named(home: Home) -> None:
    with home_lock(home.path / ".git", 0), pytest.raises(Locked, match=str(os.getpid())):
        remember(open_door(home, lock_wait=0.01), "x")


def test_w1_a_branch_that_moves_meanwhile_is_followed(home: Home) -> None:
    moves = iter([True])

    def move(step: str) -> None:
        if step == "objects" and next(moves, False):
            put(home.path / "notes.txt", os.urandom(4).hex())
            git(home.path, "commit", "-qam", "of the user")

    assert isinstance(remember(open_door(home, reach=move), "x"), Committed)
    assert git(home.path, "log", "--format=%s").splitlines() == [
        "Remember: x",
        "of the user",
        "Begin",
    ]
    assert git(home.path, "status", "--porcelain") == ""


def test_w1_a_save_of_the_user_meanwhile_survives(home: Home) -> None:
    for step in ("objects", "prepared", "branch", "index", "unlocked"):
        done: list[bool] = []

        def save(reached: str, step: str = step, done: list[bool] = done) -> None:
            if reached == step and not done:
                done.append(True)
                with (home.path / "MEMORY.md").open("a") as file:
                    file.write(f"- of the user at {step}\n")

        result = remember(open_door(home, reach=save), f"of the agent at {step}")
        assert isinstance(result, Committed)
        text = (home.path / "MEMORY.md").read_text()
        assert f"of the user at {step}" in text
        assert f"of the agent at {step}" in git(home.path, "show", "HEAD:MEMORY.md")
        assert "of the user" not in git(home.path, "show", "HEAD:MEMORY.md")
        assert f"of the agent at {step}" in text


def _nothing(_home: Home) -> None: ...


def _staged_other(home: Home) -> None:
    put(home.path / "notes.txt", "staged\n")
    git(home.path, "add", "notes.txt")


def _partly_staged_other(home: Home) -> None:
    _staged_other(home)
    put(home.path / "notes.txt", "staged\nand more\n")


def _unstaged_other(home: Home) -> None:
    put(home.path / "notes.txt", "unstaged\n")


def _untracked(home: Home) -> None:
    put(home.path / "skills/mine/SKILL.md", "mine\n")


def _intent_to_add(home: Home) -> None:
    _untracked(home)
    git(home.path, "add", "-N", "skills/mine/SKILL.md")


def _deleted_other(home: Home) -> None:
    git(home.path, "rm", "-q", "notes.txt")


def _flags(home: Home) -> None:
    git(home.path, "update-index", "--assume-unchanged", "AGENTS.md")
    git(home.path, "update-index", "--skip-worktree", "notes.txt")


def _version_4(home: Home) -> None:
    git(home.path, "update-index", "--index-version", "4")
    _staged_other(home)


def _split_index(home: Home) -> None:
    git(home.path, "update-index", "--split-index")
    _staged_other(home)


USER_WORK = [_nothing, _staged_other, _partly_staged_other, _unstaged_other, _untracked, _intent_to_add,
             _deleted_other, _flags, _version_4, _split_index]  # fmt: skip


@pytest.mark.parametrize("work", USER_WORK, ids=lambda work: work.__name__.strip("_"))
def test_w2_the_users_work_is_bit_identical_and_nothing_is_undone(home: Home, work: Callable[[Home], None]) -> None:
    work(home)
    before = _work_of_user(home)
    done = remember(open_door(home), "x")
    assert isinstance(done, Committed)
    assert done.notes == ()
    assert _work_of_user(home) == before
    assert git(home.path, "diff", "--name-only", "HEAD~1", "HEAD").split() == ["MEMORY.md"]
    git(home.path, "commit", "-q", "--allow-empty", "-m", "the user's next ordinary commit")
    assert git(home.path, "show", "HEAD:MEMORY.md").endswith("- x\n")


def test_w2_staged_work_on_the_same_file_is_left_and_told(home: Home) -> None:
    put(home.path / "MEMORY.md", "# Memory\n- likes tea\n- staged\n")
    git(home.path, "add", "MEMORY.md")
    staged = git(home.path, "ls-files", "-s", "MEMORY.md")
    done = remember(open_door(home), "of the agent")
    assert isinstance(done, Committed)
    assert any("index entry" in note for note in done.notes)
    assert git(home.path, "ls-files", "-s", "MEMORY.md") == staged
    assert git(home.path, "show", "HEAD:MEMORY.md") == "# Memory\n- likes tea\n- of the agent\n"
    assert (home.path / "MEMORY.md").read_text() == "# Memory\n- likes tea\n- staged\n- of the agent\n"


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (AppendEntry(None, "of the agent"), Committed),
        (EditFile((("likes tea", "likes milk"),)), Committed),
        (EditFile((("of the user", "stolen"),)), Conflicted),
        (RemoveEntry("of the user"), Conflicted),
        (PutFile(b"whole\n"), Conflicted),
    ],
)
def test_w2_a_file_with_uncommitted_edits_keeps_both_or_conflicts(home: Home, operation: Operation, kind: type) -> None:
    put(home.path / "MEMORY.md", "# Memory\n- likes tea\n- of the user\n")
    index = git(home.path, "ls-files", "-s", "notes.txt")
    done = change(home, "MEMORY.md", operation)
    assert isinstance(done, kind)
    assert "of the user" in (home.path / "MEMORY.md").read_text()
    assert "of the user" not in git(home.path, "log", "-p", "--all", "--", "MEMORY.md")
    assert git(home.path, "ls-files", "-s", "notes.txt") == index
    if kind is Committed:
        assert git(home.path, "diff", "--numstat").split() == ["1", "0", "MEMORY.md"]


def test_w2_an_untracked_file_of_the_user_is_never_committed(home: Home) -> None:
    put(home.path / "users/uma/MEMORY.md", "- written by uma\n")
    done = change(home, "users/uma/MEMORY.md", AppendEntry(None, "of the agent"), user="uma")
    assert isinstance(done, Committed)
    assert git(home.path, "show", "HEAD:users/uma/MEMORY.md") == "- of the agent\n"
    assert (home.path / "users/uma/MEMORY.md").read_text() == "- written by uma\n- of the agent\n"


def test_w2_mode_is_kept_and_emptied_folders_go(home: Home) -> None:
    put(home.path / "skills/tea/scripts/x.sh", "old\n")
    (home.path / "skills/tea/scripts/x.sh").chmod(0o755)
    git(home.path, "add", "."), git(home.path, "commit", "-qm", "x")
    assert isinstance(change(home, "skills/tea/scripts/x.sh", PutFile(b"new\n")), Committed)
    assert (home.path / "skills/tea/scripts/x.sh").stat().st_mode & 0o777 == 0o755
    assert git(home.path, "ls-tree", "HEAD", "skills/tea/scripts/x.sh").startswith("100755")
    assert isinstance(change(home, "skills/tea/scripts/x.sh", DeleteFile()), Committed)
    assert not (home.path / "skills/tea/scripts").exists()
    assert git(home.path, "status", "--porcelain") == ""


@pytest.mark.parametrize("operation", [PutFile(f"a\nb\n{SECRET}\n".encode()), AppendEntry(None, SECRET)])
def test_w3_a_planted_secret_reaches_no_object_and_the_refusal_names_the_line(home: Home, operation: Operation) -> None:
    before = sorted((home.path / ".git/objects").rglob("*"))
    refused = change(home, "MEMORY.md", operation)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.path, refused.line) == ("secret", "MEMORY.md", 3)
    assert SECRET not in repr(refused)
    assert sorted((home.path / ".git/objects").rglob("*")) == before
    assert not any(
        SECRET.encode() in place.read_bytes() for place in (home.path / ".git").rglob("*") if place.is_file()
    )


def test_w3_an_invalid_version_changes_nothing(home: Home) -> None:
    before = _everything(home)
    for raw in (b"", b"\0", b"---\nopen: header\n", b"x" * 2_000_000):
        assert isinstance(change(home, "MEMORY.md", PutFile(raw)), Refused)
    assert _everything(home) == before


STEPS = ["objects", "prepared", "intent", "index", "branch", "unlocked", "file"]


@pytest.mark.parametrize("dirty", [False, True], ids=["clean", "dirty"])
@pytest.mark.parametrize("finisher", ["commit", "pin"])
@pytest.mark.parametrize("step", STEPS)
def test_w2_killed_at_any_step_the_next_call_recovers(home: Home, step: str, finisher: str, dirty: bool) -> None:
    if dirty:
        with (home.path / "MEMORY.md").open("a") as file:
            file.write("- of the user\n")
    _staged_other(home)
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from a_home import open_door, remember
from harnessd.home.layout import Home
remember(open_door(Home(Path(sys.argv[1])), reach=lambda step: step == {step!r} and os._exit(9)), "killed")
"""
    assert subprocess.run([sys.executable, "-c", program, str(home.path)], check=False).returncode == 9
    happened = STEPS.index(step) >= STEPS.index("branch")
    if finisher == "commit":
        assert isinstance(remember(open_door(home), "next"), Committed)
    else:
        from a_home import judge

        from harnessd.home.pin import Pinner

        Pinner(home, invalid=judge).pin()
    text, committed = (home.path / "MEMORY.md").read_text(), git(home.path, "show", "HEAD:MEMORY.md")
    assert (text.count("killed"), committed.count("killed")) == (happened, happened)
    assert text.count("of the user") == dirty
    assert "of the user" not in committed
    expected = ["M  notes.txt"] + ([" M MEMORY.md"] if dirty else [])
    assert sorted(git(home.path, "status", "--porcelain").splitlines()) == sorted(expected)
    left = {
        name
        for name in (place.name for place in (home.path / ".git").iterdir())
        if name.startswith(("harnessd", "index."))
    }
    assert left <= ({"harnessd.lock", "harnessd-prepared"} if step == "prepared" else {"harnessd.lock"})
    assert not list(home.path.glob("**/.harnessd-*"))


@pytest.mark.parametrize("since", ["other branch", "later commit"])
def test_w2_what_the_user_did_since_a_kill_is_not_undone(home: Home, since: str) -> None:
    class KilledError(BaseException): ...

    def kill(step: str) -> None:
        if step == "branch":
            raise KilledError

    with pytest.raises(KilledError):
        remember(open_door(home, reach=kill), "killed")
    (home.path / ".git/index.lock").unlink()
    if since == "other branch":
        git(home.path, "switch", "-q", "--discard-changes", "-c", "other", "HEAD~1")
    else:
        put(home.path / "MEMORY.md", "of the user\n")
        git(home.path, "commit", "-qam", "of the user")
    before = (home.path / "MEMORY.md").read_text()
    assert isinstance(remember(open_door(home), "next"), Committed)
    assert (home.path / "MEMORY.md").read_text() == f"{before}- next\n"
    assert git(home.path, "status", "--porcelain") == ""


def _everything(home: Home) -> dict[str, bytes]:
    """Every file of the home and of its branch, not what the lock and the object store hold."""
    kept = {}
    for place in sorted(home.path.rglob("*")):
        name = place.relative_to(home.path).as_posix()
        if place.is_file() and not name.startswith((".git/objects", ".git/harnessd")):
            kept[name] = place.read_bytes()
    return kept


def _work_of_user(home: Home) -> tuple[str, ...]:
    entries = git(home.path, "ls-files", "-s", "-v", "--debug").split("\n\n")
    flat = git(home.path, "ls-files", "-s", "-v").splitlines()
    others = [line for line in flat if not line.endswith("MEMORY.md")]
    stats = git(home.path, "ls-files", "--debug", "--", ":!MEMORY.md")
    assert entries
    return (*others, stats, git(home.path, "diff", "--", ":!MEMORY.md"), git(home.path, "ls-files", "-o"))
