"""`read`, `write`, `edit`: what is shown, what is changed, what is refused."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.layout import Home
from harnessd.permissions.paths import resolve_target
from harnessd.tools.files import file_tools
from harnessd.tools.replace import Edit, NoMatch, Replacement, replace_exactly
from harnessd.tools.rooted import Unusable, read_file, replace_file
from harnessd.tools.tool import Outcome, Preview, ToolContext
from tests.tools.a_session import a_context, a_home, text, use

READ, WRITE, EDIT = file_tools()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return a_home(
        tmp_path, {"MEMORY.md": "# Memory\n- likes tea\n", "skills/tea/SKILL.md": "---\nname: tea\n---\nBoil.\n"}
    )


@pytest.fixture
def context(home: Home) -> ToolContext:
    return a_context(home)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def log(home: Home) -> list[str]:
    done = subprocess.run(["git", "log", "--format=%s"], cwd=home.path, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


# --- read


async def test_a_file_is_read_as_it_is(context: ToolContext) -> None:
    assert text(await use(READ, context, path="MEMORY.md")) == "# Memory\n- likes tea\n"


async def test_a_long_file_comes_in_parts_that_say_so(home: Home, context: ToolContext) -> None:
    (home.work / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    first = text(await use(READ, context, path="work/long.txt"))
    assert first.startswith("line 1\nline 2\n")
    assert first.endswith("\n[lines 1 to 2,000 of 5,000; go on with offset 2001]")
    part = text(await use(READ, context, path="work/long.txt", offset=4999, limit=10))
    assert part == "line 4999\nline 5000\n[lines 4,999 to 5,000 of 5,000]"
    beyond = text(await use(READ, context, path="work/long.txt", offset=9000))
    assert beyond == "[the file has 5,000 lines; there is no line 9,000]"


async def test_h4_a_very_long_line_is_cut_visibly(home: Home, context: ToolContext) -> None:
    (home.work / "wide.txt").write_text("x" * 10_000)
    assert "[… 6,000 characters of this line left out]" in text(await use(READ, context, path="work/wide.txt"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "a PNG image"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
        (b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n", "a PDF document"),
        (b"PK\x03\x04\x14\0\0\0", "a zip archive"),
        (b"a\0b", "a binary file"),
        (bytes(range(128, 256)) * 4, "another encoding"),
    ],
)
async def test_what_is_no_text_is_named(home: Home, context: ToolContext, content: bytes, told: str) -> None:
    (home.work / "it").write_bytes(content)
    outcome = await use(READ, context, path="work/it")
    assert outcome.status == "error"
    assert told in text(outcome)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "[the file is empty]"),
        (b"\xef\xbb\xbfbom\n", "bom\n"),
        ("sixteen\n".encode("utf-16"), "sixteen\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"caf\xe9\n", "caf\ufffd\n"),
        (b"BM is how this text begins", "BM is how this text begins"),
        (b"no end", "no end"),
    ],
)
async def test_odd_text_is_read(home: Home, context: ToolContext, content: bytes, shown: str) -> None:
    (home.work / "it").write_bytes(content)
    assert text(await use(READ, context, path="work/it")) == shown


async def test_a_folder_is_listed_without_what_is_hidden(home: Home, context: ToolContext) -> None:
    assert text(await use(READ, context, path=".")).splitlines() == [
        ".gitignore  16 bytes",
        "AGENTS.md  6 bytes",
        "MEMORY.md  21 bytes",
        "skills/",
        "work/",
    ]
    for number in range(600):
        (home.work / f"{number:03}").touch()
    listed = text(await use(READ, context, path="work")).splitlines()
    assert len(listed) == 501
    assert "not shown" in listed[-1]


@pytest.mark.parametrize("path", ["work/none.txt", "none/none.txt"])
async def test_what_is_not_there_is_said(context: ToolContext, path: str) -> None:
    assert text(await use(READ, context, path=path)) == f"There is no file or folder {path}."


async def test_a_pipe_or_device_is_refused_and_nothing_hangs(home: Home, context: ToolContext) -> None:
    os.mkfifo(home.work / "pipe")
    assert "a pipe, not a file" in text(await use(READ, context, path="work/pipe"))


# --- write


async def test_a_new_file_in_work_is_made_with_its_folders(home: Home, context: ToolContext) -> None:
    outcome = await use(WRITE, context, path="work/a/b/note.txt", content="hi\n")
    assert (outcome.status, outcome.changed, outcome.commit) == ("ok", True, None)
    assert (home.work / "a/b/note.txt").read_bytes() == b"hi\n"
    assert log(home) == ["begin"]
    assert [name.name for name in (home.work / "a/b").iterdir()] == ["note.txt"]


async def test_a_definition_file_becomes_a_commit(home: Home, context: ToolContext) -> None:
    outcome = await use(WRITE, context, path="skills/coffee/SKILL.md", content="---\nname: coffee\n---\nGrind.\n")
    assert outcome.status == "ok"
    assert outcome.commit
    assert len(log(home)) == 2
    again = await use(EDIT, context, path="skills/coffee/SKILL.md", edits=[{"old": "Grind.", "new": "Grind fine."}])
    assert again.status == "ok"
    assert (home.path / "skills/coffee/SKILL.md").read_text().endswith("Grind fine.\n")
    assert len(log(home)) == 3


async def test_w4_a_tier_that_asks_is_not_written_without_an_approval(home: Home, context: ToolContext) -> None:
    edits = [{"old": "# Ada", "new": "# Eve"}]
    outcome = await use(EDIT, context, path="AGENTS.md", edits=edits)
    assert outcome.status == "error"
    assert "approval" in text(outcome)
    assert (home.path / "AGENTS.md").read_text() == "# Ada\n"
    allowed = await use(EDIT, replace(context, approved=True), path="AGENTS.md", edits=edits)
    assert allowed.status == "ok"
    assert (home.path / "AGENTS.md").read_text() == "# Eve\n"


@pytest.mark.parametrize("path", [".git/config", ".gitignore", "agents/main/x", "README.md"])
async def test_w4_what_is_locked_stays_as_it_is_even_with_an_approval(
    home: Home, context: ToolContext, path: str
) -> None:
    before = (home.path / path).read_bytes() if (home.path / path).exists() else None
    context.seen.note(str(home.path / path), before or b"")
    outcome = await use(WRITE, replace(context, approved=True), path=path, content="mine")
    assert outcome.status == "error"
    assert ((home.path / path).read_bytes() if (home.path / path).exists() else None) == before


async def test_a_file_that_was_not_read_or_changed_since_is_not_overwritten(home: Home, context: ToolContext) -> None:
    note = home.work / "note.txt"
    note.write_text("theirs")
    unread = await use(WRITE, context, path="work/note.txt", content="mine")
    assert unread.failure is not None
    assert unread.failure.kind == "unread"
    await use(READ, context, path="work/note.txt")
    note.write_text("theirs, newer")
    for stale in (
        await use(WRITE, context, path="work/note.txt", content="mine"),
        await use(EDIT, context, path="work/note.txt", edits=[{"old": "theirs", "new": "mine"}]),
    ):
        assert stale.failure is not None
        assert stale.failure.kind == "stale"
    assert note.read_text() == "theirs, newer"
    await use(READ, context, path="work/note.txt")
    assert (await use(WRITE, context, path="work/note.txt", content="mine")).status == "ok"
    assert (await use(WRITE, context, path="work/note.txt", content="mine again")).status == "ok"
    same = await use(WRITE, context, path="work/note.txt", content="mine again")
    assert (same.status, same.changed) == ("ok", False)


async def test_the_mode_of_a_file_is_kept(home: Home, context: ToolContext) -> None:
    script = home.work / "run.sh"
    script.write_text("echo 1\n")
    script.chmod(0o750)
    await use(EDIT, context, path="work/run.sh", edits=[{"old": "1", "new": "2"}])
    assert script.stat().st_mode & 0o777 == 0o750


async def test_a_hard_link_is_replaced_not_written_through(tmp_path: Path, home: Home, context: ToolContext) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs")
    os.link(outside, home.work / "link.txt")
    await use(EDIT, context, path="work/link.txt", edits=[{"old": "theirs", "new": "mine"}])
    assert outside.read_text() == "theirs"


async def test_a_workdir_is_written_too(tmp_path: Path, home: Home) -> None:
    project = tmp_path / "project"
    project.mkdir()
    outcome = await use(WRITE, a_context(home, workdirs=(str(project),)), path=f"{project}/x.py", content="x = 1\n")
    assert outcome.status == "ok"
    assert (project / "x.py").read_text() == "x = 1\n"


def test_a_preview_shows_the_diff_and_what_it_was_made_from(home: Home, context: ToolContext) -> None:
    def preview(path: str, old: str, new: str) -> Preview | Outcome | None:
        arguments = {"path": path, "edits": [{"old": old, "new": new}]}
        return EDIT.preview(context.decided(EDIT.targets(context, arguments), approved=False, base=None), arguments)

    (home.work / "a.txt").write_text("one\n")
    for path, old in (("work/a.txt", "one"), ("AGENTS.md", "# Ada")):
        shown = preview(path, old, "two")
        assert isinstance(shown, Preview)
        assert f"-{old}\n" in shown.diff
        assert "+two\n" in shown.diff
        assert shown.base is not None
        assert len(shown.base) == 40
    assert isinstance(preview("work/a.txt", "three", "two"), Outcome)


# --- P2: paths at the moment of use


@pytest.mark.parametrize("where", ["leaf", "ancestor", "far ancestor"])
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
async def test_p2_a_link_that_is_slipped_in_after_the_decision_is_not_followed(
    tmp_path: Path, home: Home, context: ToolContext, where: str, tool: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (outside / "b/secret.txt").write_text("secret")
    (outside / "secret.txt").write_text("secret")
    inside = home.work / "a" / "b"
    inside.mkdir(parents=True)
    (inside / "secret.txt").write_text("mine")
    path = "work/a/b/secret.txt"
    target = resolve_target(context.roots, path, "read" if tool == "read" else "write")
    swapped = {"leaf": inside / "secret.txt", "ancestor": inside, "far ancestor": home.work / "a"}[where]
    goal = {"leaf": outside / "secret.txt", "ancestor": outside / "b", "far ancestor": outside}[where]
    swapped.rename(tmp_path / "moved")
    swapped.symlink_to(goal)
    arguments = {
        "read": {"path": path},
        "write": {"path": path, "content": "overwritten"},
        "edit": {"path": path, "edits": [{"old": "secret", "new": "overwritten"}]},
    }[tool]
    decided = context.decided((target,), approved=True, base=None)
    outcome = await {"read": READ, "write": WRITE, "edit": EDIT}[tool].run(decided, arguments)
    assert outcome.status == "error"
    assert "secret" not in text(outcome).replace("secret.txt", "")
    assert {p.read_text() for p in outside.rglob("*.txt")} == {"secret"}
    assert sorted(p.name for p in outside.rglob("*")) == ["b", "secret.txt", "secret.txt"]


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "/etc/hostname",
        "/proc/self/environ",
        "work/../../outside.txt",
        ".git/config",
        "agents/main/x",
        "dangling",
        "out/x",
    ],
)
@pytest.mark.parametrize("tool", [READ, WRITE, EDIT])
async def test_p2_nothing_outside_is_touched_even_if_the_gate_were_wrong(
    tmp_path: Path, home: Home, context: ToolContext, path: str, tool: object
) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    (home.path / "agents/main").mkdir()
    (home.path / "agents/main/x").write_text("secret")
    (home.path / "dangling").symlink_to(tmp_path / "made.txt")
    (home.path / "out").symlink_to(tmp_path)
    before = names_in(tmp_path)
    arguments = {"content": "overwritten"} if tool is WRITE else {}
    if tool is EDIT:
        arguments["edits"] = [{"old": "secret", "new": "overwritten"}]  # type: ignore[assignment]
    outcome = await use(tool, replace(context, approved=True), path=path, **arguments)  # type: ignore[arg-type]
    assert outcome.status == "error"
    assert "secret" not in text(outcome)
    assert names_in(tmp_path) == before
    assert (tmp_path / "outside.txt").read_text() == "secret"


def test_p2_a_file_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path.resolve() / "new.txt"
    place.write_text("somebody's")
    with pytest.raises(Unusable, match="meanwhile"):
        replace_file(str(place), b"mine", expected=None)
    with pytest.raises(Unusable, match="changed since"):
        replace_file(str(place), b"mine", expected=b"something else")
    with pytest.raises(Unusable, match="gone"):
        replace_file(f"{place}.gone", b"mine", expected=b"x")
    assert place.read_text() == "somebody's"
    assert list(tmp_path.iterdir()) == [place]


def test_a_file_larger_than_the_bound_is_refused(tmp_path: Path) -> None:
    place = tmp_path.resolve() / "big"
    place.write_bytes(b"x" * 101)
    with pytest.raises(Unusable, match="101 bytes"):
        read_file(str(place), at_most=100)


# --- edit: bytes outside the span


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "x", b"a\nx\nc\n"),
        (b"a\nb\nc", "c", "x", b"a\nb\nx"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b", "x\ny", b"a\r\nx\ny\nc\r\n"),
        (b"a\r\nb\nc\r\nd", "c\nd", "x\ny", b"a\r\nb\nx\r\ny"),
        (b"a\r\nb\nc", "c", "x\ny", b"a\r\nb\nx\ny"),
        (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),
        ("ä\nö\n".encode("utf-16"), "ö", "ü\nx", "ä\nü\nx\n".encode("utf-16")),
        (b"caf\xe9 old\n", "old", "new", b"caf\xe9 new\n"),
        (b"a\rb\rc", "b", "x", b"a\rx\rc"),
        (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
        (b"a\r\nb\r\n", "\nb", "", b"a\r\n"),
        (b"one", "one", "", b""),
        (b"a\r\nb", "a\r\nb", "x\r\ny", b"x\r\ny"),
    ],
)
def test_bytes_outside_the_span_stay(before: bytes, old: str, new: str, after: bytes) -> None:
    done = replace_exactly(before, (Edit(old, new),))
    assert isinstance(done, Replacement)
    assert done.data == after


@pytest.mark.parametrize(
    ("before", "edits", "told"),
    [
        (b"a\na\n", [("a", "b")], "lines 1, 2"),
        (b"aaa", [("aa", "b")], "lines 1, 1"),
        (b"a\n" * 20, [("a", "b")], "and more"),
        (b"a\n", [("x", "b")], "not in the file"),
        (b"if  x:\n\ty\n", [("if x:\n    y", "b")], "differs only in spaces"),
        (b"a", [("", "b")], "empty"),
        (b"a", [("a", "a")], "the same"),
        (b"a\nb\n", [("a", "b"), ("b", "c")], "lines 1, 2"),
    ],
)
def test_a_missing_or_ambiguous_match_changes_nothing(before: bytes, edits: list[tuple[str, str]], told: str) -> None:
    done = replace_exactly(before, tuple(Edit(*edit) for edit in edits))
    assert isinstance(done, NoMatch)
    assert told in done.message
    assert done.number == len(edits)


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_any_bytes_around_a_passage_stay(head: bytes, tail: bytes, mark: bytes) -> None:
    data = mark + head + b"<<passage>>" + tail
    done = replace_exactly(data, (Edit("<<passage>>", "put\nin"),))
    if isinstance(done, NoMatch):
        assert data[:2] in {b"\xff\xfe", b"\xfe\xff"}
        return
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return
    assert done.data.startswith(mark + head)
    assert done.data.endswith(tail)
    assert done.data[len(mark + head) : len(done.data) - len(tail)] in {b"put\nin", b"put\r\nin"}


@given(st.text("ab\r\n", min_size=1, max_size=30), st.data())
def test_a_passage_as_shown_is_found_whatever_the_line_ends(raw: str, data: st.DataObject) -> None:
    shown = raw.replace("\r\n", "\n")
    start = data.draw(st.integers(0, len(shown) - 1))
    passage = shown[start : data.draw(st.integers(start + 1, len(shown)))]
    done = replace_exactly(raw.encode(), (Edit(passage, "Z"),))
    if isinstance(done, Replacement):
        assert done.data.decode().replace("\r\n", "\n") == shown.replace(passage, "Z")
        ((taken, put),) = done.exact
        # A lone CR may occur once as shown and twice in the file; the door then refuses the pair as ambiguous.
        assert raw.count(taken) > 1 or raw.replace(taken, put).encode() == done.data
