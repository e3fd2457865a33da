"""`edit`: the passages become what was asked, every other byte stays, and what does not fit changes nothing."""

import codecs
import os
import resource
import shutil
import stat
import subprocess
import sys
import time
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.home.layout import Home
from harnessd.tools.diff import show_changes, whole_change
from harnessd.tools.files import EDITED_AT_MOST, file_tools
from harnessd.tools.replace import Edit, Hunk, NoMatch, Replacement, replace_exactly
from harnessd.tools.rooted import Unusable, replace_file
from harnessd.tools.tool import Outcome, Preview, ToolContext
from tests.tools.a_session import a_context, a_home, text, use

READ, WRITE, EDIT = file_tools()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_home(tmp_path_factory.mktemp("template")).path


@pytest.fixture
def home(tmp_path: Path, template: Path) -> Home:
    return Home(shutil.copytree(template, tmp_path / "ada"))


@pytest.fixture
def context(home: Home) -> ToolContext:
    return a_context(home)


async def edited(context: ToolContext, path: str, *edits: tuple[str, str], everywhere: bool = False) -> Outcome:
    more = {"all": True} if everywhere else {}
    return await use(EDIT, context, path=path, edits=[{"old": old, "new": new, **more} for old, new in edits])


# --- every byte outside the span

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
AROUND: dict[str, tuple[bytes, bytes]] = {
    "lf": (b"one\ntwo\n", b"\nthree\n"),
    "crlf": (b"one\r\ntwo\r\n", b"\r\nthree\r\n"),
    "mixed": (b"one\r\ntwo\n", b"\nthree\r\nfour\n"),
    "lone cr": (b"one\rtwo\r", b"\rthree\r"),
    "cr before crlf": (b"one\r\r\n", b"\r\r\nthree"),
    "bom": (codecs.BOM_UTF8 + b"one\n", b"\ntwo\n"),
    "no final newline": (b"one\n", b""),
    "nothing before": (b"", b"\nlast"),
    "nfd": (unicodedata.normalize("NFD", "é ü\n").encode(), unicodedata.normalize("NFD", "\nö").encode()),
    "nfc": ("é ü\n".encode(), "\nö".encode()),
    "emoji": (f"{FAMILY}\n".encode(), f"\n{FAMILY}".encode()),
    "part of a family": ("\U0001f468\u200d".encode(), "\u200d\U0001f467".encode()),
    "invalid": (b"caf\xe9\xff\n\x80", b"\xc3\n\xf0\x9f"),
    "cut character before": (b"a\n\xf0\x9f\x98", b"\n"),
    "nul": (b"a\0b\n", b"\n\0"),
    "form feed and separators": ("a\x0c\u2028b\x85\n".encode(), "\n\u2029\x1c".encode()),
    "very long line": (b"x" * 200_000, b"y" * 200_000),
}
PASSAGES = [("old", "new"), ("old\nlines", "new"), ("o", "a\nb\nc"), ("old", ""), (FAMILY, "x"), ("é", "e\u0301")]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("old", "new"), PASSAGES)
def test_every_byte_outside_the_passage_stays(around: str, old: str, new: str) -> None:
    head, tail = AROUND[around]
    for end in (b"\n", b"\r\n"):
        inside = b"<<" + old.encode().replace(b"\n", end) + b">>"
        done = replace_exactly(head + inside + tail, (Edit(f"<<{old}>>", f"<<{new}>>"),))
        assert isinstance(done, Replacement)
        assert done.data.startswith(head + b"<<")
        assert done.data.endswith(b">>" + tail)
        put = done.data[len(head) + 2 : len(done.data) - len(tail) - 2]
        assert put.replace(b"\r\n", b"\n") == new.encode()
        if "\n" in old:  # what is put in takes the line ends of what it replaces
            assert put.count(b"\r\n") == (new.count("\n") if end == b"\r\n" else 0)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_utf_16_stays_utf_16(encoding: str, end: str) -> None:
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else codecs.BOM_UTF16_BE
    # U+0D00 U+0A00 hold the bytes of a CRLF across their middle; the lone surrogate is no text at all.
    odd = "\u0d00\u0a00\u000d\u0a0d"
    head, tail = (odd.encode(encoding), (odd + "\ud83d").encode(encoding, "surrogatepass"))
    before = mark + head + f"{end}old {FAMILY}{end}line{end}".encode(encoding) + tail
    done = replace_exactly(before, (Edit(f"old {FAMILY}\nline", "new\nä"),))
    assert isinstance(done, Replacement)
    assert done.data == mark + head + f"{end}new{end}ä{end}".encode(encoding) + tail
    assert done.exact is None  # the home's door looks for UTF-8: such a file is put whole


async def test_a_definition_file_in_utf_16_is_edited_as_such(tmp_path: Path) -> None:
    home = a_home(tmp_path, {"skills/tea/SKILL.md": "---\nname: tea\n---\nBoil it.\n".encode("utf-16")})
    context = a_context(home)
    outcome = await edited(context, "skills/tea/SKILL.md", ("Boil", "Heat"))
    assert outcome.commit, text(outcome)
    assert (home.path / "skills/tea/SKILL.md").read_bytes().decode("utf-16").endswith("Heat it.\n")


pieces = st.lists(
    st.sampled_from(
        [
            b"\n",
            b"\r\n",
            b"\r",
            b"a",
            b"old",
            b"ol",
            b"d",
            b"\xff",
            b"\xf0\x9f",
            "é".encode(),
            "e\u0301".encode(),
            b"\0",
        ]
    ),
    max_size=14,
)
edits = st.lists(st.tuples(st.text("aold\n\ré", min_size=1, max_size=4), st.text("axy\n\r", max_size=3)), max_size=4)


def slowly(data: bytes, one: Edit) -> bytes | None:
    """What the edit means, said in the plainest way: over pairs of a shown character and its bytes."""
    shown: list[bytes] = []
    at = 0
    while at < len(data):
        step = 2 if data[at : at + 2] == b"\r\n" else 1
        shown.append(data[at : at + step])
        at += step
    plain = [b"\n" if unit == b"\r\n" else unit for unit in shown]

    def places(passage: bytes) -> list[int]:
        return [n for n in range(len(plain)) if plain[n : n + len(passage)] == [bytes([b]) for b in passage]]

    old = one.old.encode()
    found = places(old)
    if not found:
        old = old.replace(b"\r\n", b"\n")
        found = places(old)
    new = one.new.replace("\r\n", "\n").encode()
    if not found or old == new or (len(found) > 1 and not one.everywhere):
        return None
    if one.everywhere:
        kept: list[int] = []
        for place in found:
            if not kept or place >= kept[-1] + len(old):
                kept.append(place)
        found = kept
    result, at = b"", 0
    for place in found:
        inside, behind = shown[place : place + len(old)], shown[place + len(old) :]
        ends = [u for u in inside if u.endswith(b"\n")] or [u for u in behind if u.endswith(b"\n")]
        ends = ends or [u for u in reversed(shown[:place]) if u.endswith(b"\n")] or [b"\n"]
        result += b"".join(shown[at:place]) + new.replace(b"\n", ends[0])
        at = place + len(old)
    return result + b"".join(shown[at:])


@given(pieces, edits, st.booleans())
@settings(max_examples=400)
def test_edits_mean_what_they_say_one_after_another(
    parts: list[bytes], asked: list[tuple[str, str]], all_: bool
) -> None:
    data = b"".join(parts)
    wanted: bytes | None = data
    several = tuple(Edit(old, new, all_) for old, new in asked)
    for number, edit in enumerate(several, 1):
        after = slowly(wanted, edit)
        if after is None:
            found = replace_exactly(data, several)
            assert isinstance(found, NoMatch)
            assert found.number == number
            return
        wanted = after
    done = replace_exactly(data, several)
    assert isinstance(done, Replacement)
    assert done.data == wanted
    assert_hunks(done)
    if done.exact is not None:
        assert len(done.exact) == len(several)


def assert_hunks(done: Replacement) -> None:
    """The hunks are in order, and outside them both texts are the same."""
    old_at = new_at = 0
    for hunk in done.hunks:
        kept = done.old[old_at : hunk.start]
        assert hunk.start >= old_at
        assert done.new[new_at : new_at + len(kept)] == kept
        old_at, new_at = hunk.end, new_at + len(kept) + hunk.length
    assert done.old[old_at:] == done.new[new_at:]


# --- several edits, and why one does not apply


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        ("a b c", [("a", "1"), ("c", "3")], "1 b 3"),
        ("a b c", [("c", "3"), ("a", "1")], "1 b 3"),
        ("a b c", [("a b", "b"), ("b c", "d")], "d"),  # the second spans what the first put in and what it left
        ("a b", [("a", "b2"), ("b2 b", "c")], "c"),
        ("ab", [("a", "b"), ("bb", "a")], "a"),
        ("x\ny\nz\n", [("x\n", ""), ("y", "Y\nY"), ("z\n", "")], "Y\nY\n"),
    ],
)
def test_edits_are_made_one_after_another(before: str, asked: list[tuple[str, str]], after: str) -> None:
    done = replace_exactly(before.encode(), tuple(Edit(*one) for one in asked))
    assert isinstance(done, Replacement)
    assert done.data == after.encode()
    assert_hunks(done)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([("one", "1"), ("none", "2")], ["Edit 2 of 2", "not in the file"]),
        ([("one", "1"), ("one", "2")], ["Edit 2 of 2", "before the edits that come first"]),
        ([("one", "1"), ("same", "2"), ("x", "y")], ["Edit 2 of 3", "lines 4, 5"]),
        ([("one", "same"), ("two\nsame", "2"), ("same", "x")], ["Edit 2 of 3", "first line is at line 2"]),
        (
            [("two\nthree", "2"), ("same\n same", "3")],
            ["Edit 2 of 2", "differs only in spaces or line ends is at line 3"],
        ),
        ([("one", "2"), ("two", "2"), ("2", "3")], ["Edit 3 of 3", "lines 1, 2"]),
    ],
)
async def test_the_edit_that_fails_is_named_with_its_line_and_nothing_is_written(
    home: Home, context: ToolContext, asked: list[tuple[str, str]], told: list[str]
) -> None:
    place = home.work / "a.txt"
    place.write_text("one\ntwo\nthree\nsame\nsame\n")
    before = place.stat()
    outcome = await edited(context, "work/a.txt", *asked)
    assert outcome.failure is not None
    assert outcome.failure.kind == "no_match"
    for word in (*told, "Nothing was changed"):
        assert word in text(outcome)
    assert place.read_text() == "one\ntwo\nthree\nsame\nsame\n"
    assert (place.stat().st_ino, place.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_all_replaces_each_place_with_its_own_line_ends(home: Home, context: ToolContext) -> None:
    (home.work / "a.txt").write_bytes(b"x a\r\nx a\nx a")
    assert (await edited(context, "work/a.txt", ("a\nx", "b\ny"), everywhere=True)).status == "ok"
    assert (home.work / "a.txt").read_bytes() == b"x b\r\ny b\ny a"
    await use(WRITE, context, path="skills/tea/SKILL.md", content="---\nname: tea\n---\nBoil. Boil.\n")
    outcome = await edited(context, "skills/tea/SKILL.md", ("Boil", "Heat"), everywhere=True)
    assert outcome.commit, text(outcome)
    assert (home.path / "skills/tea/SKILL.md").read_text().endswith("Heat. Heat.\n")


# --- a file that is not what it was


def by_another_session(home: Home) -> None:
    replace_file(str(home.work / "a.txt"), b"then", expected=b"this")


def by_a_command(home: Home) -> None:
    subprocess.run(["sh", "-c", "echo then > a.txt"], cwd=home.work, check=True)


def with_its_old_time(home: Home) -> None:
    place = home.work / "a.txt"
    before = place.stat()
    place.write_text("thus")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def with_another_file(home: Home) -> None:
    (home.work / "b.txt").write_text("that")
    (home.work / "b.txt").rename(home.work / "a.txt")


def deleted(home: Home) -> None:
    (home.work / "a.txt").unlink()


def made_a_folder(home: Home) -> None:
    (home.work / "a.txt").unlink()
    (home.work / "a.txt").mkdir()


def made_a_link(home: Home) -> None:
    (home.work / "a.txt").rename(home.work / "b.txt")
    (home.work / "a.txt").symlink_to("b.txt")


def made_a_pipe(home: Home) -> None:
    (home.work / "a.txt").unlink()
    os.mkfifo(home.work / "a.txt")


CHANGES = (by_another_session, by_a_command, with_its_old_time, with_another_file, deleted, made_a_folder, made_a_pipe)


@pytest.mark.parametrize("how", CHANGES, ids=lambda how: how.__name__)
@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_what_changed_since_it_was_read_is_not_overwritten(
    home: Home, context: ToolContext, how: object, tool: str
) -> None:
    place = home.work / "a.txt"
    place.write_text("this")
    await use(READ, context, path="work/a.txt")
    how(home)  # type: ignore[operator]
    before = look_at(place)
    if tool == "edit":
        outcome = await edited(context, "work/a.txt", ("th", "TH"))
    else:
        outcome = await use(WRITE, context, path="work/a.txt", content="mine")
    if how is deleted and tool == "write":
        assert outcome.status == "ok"  # a new file; there is nothing to lose
        return
    assert outcome.status == "error"
    assert outcome.failure is not None
    assert outcome.failure.kind in {"stale", "not_found", "unusable"}
    assert look_at(place) == before


def look_at(place: Path) -> tuple[int, bytes] | None:
    if not place.exists():
        return None
    return (place.stat().st_ino, place.read_bytes() if place.is_file() else b"")


@pytest.mark.parametrize("how", [*CHANGES, made_a_link], ids=lambda how: how.__name__)
def test_p2_a_change_between_reading_and_replacing_is_seen(home: Home, how: object) -> None:
    """The last look is at the moment of the replacement, whatever was decided before."""
    place = home.work.resolve() / "a.txt"
    place.write_text("this")
    how(home)  # type: ignore[operator]
    before = look_at(place)
    with pytest.raises(Unusable):
        replace_file(str(place), b"mine", expected=b"this")
    assert look_at(place) == before
    assert not list(home.work.glob(".*.tmp"))


async def test_a_read_only_file_is_left_alone(home: Home, context: ToolContext) -> None:
    place = home.work / "a.txt"
    place.write_text("this")
    place.chmod(0o444)
    outcome = await edited(context, "work/a.txt", ("this", "that"))
    assert "read-only (mode 0444)" in text(outcome)
    assert place.read_text() == "this"
    assert [name.name for name in home.work.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into any folder")
async def test_a_read_only_folder_is_said(home: Home, context: ToolContext) -> None:
    (home.work / "a.txt").write_text("this")
    home.work.chmod(0o555)
    outcome = await edited(context, "work/a.txt", ("this", "that"))
    home.work.chmod(0o755)
    assert "permission denied" in text(outcome)
    assert (home.work / "a.txt").read_text() == "this"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o4755, 0o2770, 0o222, 0o1666])
async def test_the_mode_is_kept(home: Home, context: ToolContext, mode: int) -> None:
    place = home.work / "a.txt"
    place.write_text("this")
    place.chmod(mode)
    if os.geteuid() != 0 and not mode & 0o400:
        return
    assert (await edited(context, "work/a.txt", ("this", "that"))).status == "ok"
    assert stat.S_IMODE(place.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_owner_and_group_are_kept(home: Home, context: ToolContext) -> None:
    place = home.work / "a.txt"
    place.write_text("this")
    os.chown(place, 1234, 4321)
    place.chmod(0o4750)
    outcome = await edited(context, "work/a.txt", ("this", "that"))
    assert "Note" not in text(outcome)
    status = place.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 4321, 0o4750)


async def test_attributes_are_kept(home: Home, context: ToolContext) -> None:
    place = home.work / "a.txt"
    place.write_text("this")
    try:
        os.setxattr(place, "user.origin", b"mia")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    await edited(context, "work/a.txt", ("this", "that"))
    assert os.getxattr(place, "user.origin") == b"mia"


async def test_a_hard_link_is_told(tmp_path: Path, home: Home, context: ToolContext) -> None:
    (tmp_path / "other.txt").write_text("this")
    os.link(tmp_path / "other.txt", home.work / "a.txt")
    assert "hard links" in text(await edited(context, "work/a.txt", ("this", "that")))
    assert (tmp_path / "other.txt").read_text() == "this"
    assert "hard links" not in text(await edited(context, "work/a.txt", ("that", "these")))


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    code = """
import os
from harnessd.tools.rooted import Unusable, replace_file
open("/small/a.txt", "wb").write(b"this")
try:
    replace_file("/small/a.txt", b"x" * 2_000_000, expected=b"this")
except Unusable as error:
    print(error)
print(os.listdir("/small"), open("/small/a.txt", "rb").read())
"""
    small = ["bwrap", "--bind", "/", "/", "--size", "1000000", "--tmpfs", "/small", sys.executable, "-c", code]
    done = subprocess.run(small, capture_output=True, text=True, check=False)
    if "bwrap:" in done.stderr:
        pytest.skip("no bubblewrap, so no small disk")
    assert done.stdout == "the disk is full; a.txt is unchanged\n['a.txt'] b'this'\n", done.stderr


# --- 100 MB


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
async def test_a_file_of_100_mb_is_edited_in_bounded_time_and_memory(
    home: Home, context: ToolContext, end: bytes
) -> None:
    place, line = home.work / "big.txt", b"x" * 98 + end
    many = line * 10_000
    with place.open("wb") as file:
        for _ in range(50):
            file.write(many)
        file.write(f"needle {FAMILY}".encode() + end + b"more\xff" + end)
        for _ in range(50):
            file.write(many)
    size = place.stat().st_size
    assert 99_000_000 < size < EDITED_AT_MOST
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = text(await use(READ, context, path="work/big.txt", offset=500_001, limit=2))
    assert shown.startswith(f"needle {FAMILY}\nmore\ufffd\n[lines 500,001 to 500,002 of 1,000,002;")
    arguments = {"path": "work/big.txt", "edits": [{"old": f"needle {FAMILY}\nmore", "new": "pin\nless"}]}
    preview = EDIT.preview(context.decided(EDIT.targets(context, arguments), approved=False, base=None), arguments)
    assert isinstance(preview, Preview)
    assert "@@ -499998,8 +499998,8 @@" in preview.diff
    assert len(preview.diff) < 1500
    del preview
    outcome = await use(EDIT, context, **arguments)
    assert outcome.status == "ok", text(outcome)
    assert time.monotonic() - begun < 20  # about 2.5 s where nothing else runs
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 450_000  # kB
    with place.open("rb") as file:
        for _ in range(50):
            assert file.read(len(many)) == many
        changed = b"pin" + end + b"less\xff" + end
        assert file.read(len(changed)) == changed
        for _ in range(50):
            assert file.read(len(many)) == many
        assert file.read() == b""


async def test_what_is_larger_than_can_be_edited_is_said(home: Home, context: ToolContext) -> None:
    with (home.work / "big.txt").open("wb") as file:
        file.truncate(EDITED_AT_MOST + 1)
    assert "only files of up to" in text(await edited(context, "work/big.txt", ("a", "b")))
    assert "a binary file" in text(await use(READ, context, path="work/big.txt"))


# --- the diff for a person


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=40), st.data())
@settings(max_examples=150)
def test_the_diff_is_one_that_patch_would_take(lines: list[str], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(["", "\n"]))
    old = "\n".join(lines).encode() + end.encode()
    new = bytearray(old)
    hunks: list[Hunk] = []
    for place in sorted(data.draw(st.sets(st.integers(0, len(old)), max_size=3)), reverse=True):
        upto = min(len(old), place + data.draw(st.integers(0, 3)))
        if hunks and upto > hunks[0].start:
            continue
        put = data.draw(st.sampled_from([b"", b"x", b"y\n", b"\n", b"z\nz"]))
        new[place:upto] = put
        hunks.insert(0, Hunk(place, upto, len(put)))
    for told in (hunks, whole_change(old, bytes(new))):
        assert patched(old, show_changes(old, bytes(new), told, ("a", "b"))) == bytes(new)


def patched(old: bytes, diff: str) -> bytes:
    """`old` after a unified diff: what every line of it says is checked."""
    lines = old.decode().splitlines(keepends=True)
    result: list[str] = []
    at = 0
    shown = diff.split("\n")[2:-1]
    for number, line in enumerate(shown):
        ends = "" if number + 1 < len(shown) and shown[number + 1].startswith("\\") else "\n"
        if line.startswith("@@"):
            begin, _, count = line.split()[1][1:].partition(",")
            first = int(begin) - (count != "0")
            result += lines[at:first]
            at = first
        elif line.startswith(("-", " ")):
            assert lines[at] == line[1:] + ends
            result += [lines[at]] if line[0] == " " else []
            at += 1
        elif line.startswith("+"):
            result.append(line[1:] + ends)
    return "".join(result + lines[at:]).encode()


def test_a_change_within_an_endless_line_is_shown() -> None:
    old = b"x" * 5_000_000 + b"old" + b"y" * 5_000_000
    done = replace_exactly(old, (Edit("old", "new"),))
    assert isinstance(done, Replacement)
    diff = show_changes(done.old, done.new, done.hunks, ("a", "b"))
    assert len(diff) < 10_000
    assert "-[…]xxx" in diff
    assert "xoldy" in diff
    assert "xnewy" in diff


def test_a_diff_that_is_cut_says_so() -> None:
    old = b"".join(b"%d\n" % number for number in range(100_000))
    diff = show_changes(old, b"other\n" * 100_000, whole_change(old, b"other\n" * 100_000), ("a", "b"))
    assert len(diff) < 201_000
    assert "the diff is cut here, in change 1 of 1" in diff


async def test_an_edit_that_a_person_allowed_is_made_of_what_was_shown(home: Home, context: ToolContext) -> None:
    place = home.work / "a.txt"
    place.write_text("this\n")
    arguments = {"path": "work/a.txt", "edits": [{"old": "this", "new": "that"}]}
    allowed = replace(context, approved=True).decided(EDIT.targets(context, arguments), approved=True, base="0" * 40)
    assert "changed since this was approved" in text(await EDIT.run(allowed, arguments))  # type: ignore[arg-type]
    assert place.read_text() == "this\n"
