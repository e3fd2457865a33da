"""The tool `artifact`: what may be published, as what, and that it happens once."""

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.facts.event import ArtifactCreated, ArtifactUpdated
from harnessd.facts.message import FilePart
from harnessd.facts.run import ArtifactRef
from harnessd.ids import ID, derived_id, new_id
from harnessd.permissions.paths import find_roots
from harnessd.tools.artifact import artifact_tool
from harnessd.tools.artifact_media import media_type
from harnessd.tools.artifact_store import keep_bytes, keep_file, place_of, safe_name
from harnessd.tools.rooted import Unusable
from harnessd.tools.tool import Outcome, ToolContext
from tests.tools.a_session import a_context, a_home, text, use

TOOL = artifact_tool()


def context_of(base: Path, **more: object) -> ToolContext:
    """The context of a call in a new home that may read its own session's folders and a granted one."""
    (base / "granted").mkdir()
    home = a_home(base)
    context = a_context(home)
    session, run = new_id("ses"), new_id("run")
    roots = find_roots(
        home.path,
        lambda _: "ask",
        workdirs=(base / "granted",),
        visible=(home.artifacts("main", session), home.evicted("main", session)),
    )
    given = {"session_id": session, "run_id": run, "call_id": "call_1", "idempotency_key": "key-1", "roots": roots}
    return replace(context, **(given | more))  # type: ignore[arg-type]


def ref_in(outcome: Outcome) -> ArtifactRef:
    assert outcome.status == "ok", text(outcome)
    (event,) = outcome.events
    assert isinstance(event, ArtifactCreated | ArtifactUpdated)
    return event.artifact


def content(context: ToolContext, ref: ArtifactRef) -> bytes:
    return (context.home.path / ref.content_ref).read_bytes()


def kept_files(context: ToolContext) -> list[Path]:
    folder = context.home.artifacts(context.agent_id, context.session_id)
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


# --- what may be published

Source = Callable[[Path, ToolContext], str]


def _plain(name: str, data: bytes) -> Source:
    def make(base: Path, context: ToolContext) -> str:
        (context.home.work / name).write_bytes(data)
        return f"work/{name}"

    return make


def _granted(base: Path, context: ToolContext) -> str:
    (base / "granted/data.csv").write_text("a,b\n1,2\n")
    return str(base / "granted/data.csv")


def _hard_link(base: Path, context: ToolContext) -> str:
    (context.home.work / "one.txt").write_text("one")
    os.link(context.home.work / "one.txt", context.home.work / "two.txt")
    return "work/two.txt"


def _link_inside(base: Path, context: ToolContext) -> str:
    (context.home.work / "real.txt").write_text("real")
    (context.home.work / "link.txt").symlink_to("real.txt")
    return "work/link.txt"


def _evicted(base: Path, context: ToolContext) -> str:
    folder = context.home.evicted("main", context.session_id)
    folder.mkdir(parents=True)
    (folder / "call_0.txt").write_text("a long result")
    return f"agents/main/evicted/{context.session_id}/call_0.txt"


def _sparse(base: Path, context: ToolContext) -> str:
    with (context.home.work / "sparse.img").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
        file.seek(50 * 1024 * 1024)
        file.write(b"middle")
    return "work/sparse.img"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (_plain("report.md", b"# Report\n"), "text/markdown"),
        (_plain("empty.txt", b""), "text/plain"),
        (_plain("Übersicht 2026 – 报告 🐈.md", "über".encode()), "text/markdown"),
        (_plain("no ending", b"\0\1"), "application/octet-stream"),
        (_plain(".hidden", b"x"), "text/plain"),
        (_plain("a\nb\t.txt", b"x"), "text/plain"),
        (_granted, "text/csv"),
        (_hard_link, "text/plain"),
        (_link_inside, "text/plain"),
        (_evicted, "text/plain"),
    ],
)
async def test_a_file_is_kept_as_it_is(tmp_path: Path, source: Source, kind: str) -> None:
    context = context_of(tmp_path)
    path = source(tmp_path, context)
    data = (context.home.path / path).read_bytes()
    outcome = await use(TOOL, context, path=path)
    ref = ref_in(outcome)
    assert content(context, ref) == data
    assert (ref.size, ref.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (ref.media_type, ref.status) == (kind, "ready")
    assert (ref.owner_run_id, ref.created_by_tool_call_id) == (context.run_id, "call_1")
    folder, name = ref.content_ref.rsplit("/", 1)
    assert folder == f"agents/main/artifacts/{context.session_id}/{ref.id}"
    assert name == safe_name(name)
    assert ID.fullmatch(ref.id)
    assert kept_files(context) == [context.home.path / ref.content_ref]
    assert isinstance(outcome.parts[1], FilePart)
    assert outcome.parts[1].content_ref == ref.content_ref
    assert outcome.changed


async def test_holes_of_a_large_file_stay_holes(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    ref = ref_in(await use(TOOL, context, path=_sparse(tmp_path, context)))
    with (context.home.work / "sparse.img").open("rb") as file:
        assert ref.sha256 == hashlib.file_digest(file, "sha256").hexdigest()
    assert (context.home.path / ref.content_ref).stat().st_blocks * 512 < 10 * 1024 * 1024


def _outside(base: Path, context: ToolContext) -> str:
    (base / "secret.txt").write_text("secret")
    return str(base / "secret.txt")


def _climbing(base: Path, context: ToolContext) -> str:
    return "work/../../" + Path(_outside(base, context)).name


def _link_out(base: Path, context: ToolContext) -> str:
    (context.home.work / "out").symlink_to(_outside(base, context))
    return "work/out"


def _folder_link_out(base: Path, context: ToolContext) -> str:
    _outside(base, context)
    (context.home.work / "up").symlink_to(base)
    return "work/up/secret.txt"


def _dangling(base: Path, context: ToolContext) -> str:
    (context.home.work / "gone").symlink_to("nothing")
    return "work/gone"


def _folder(base: Path, context: ToolContext) -> str:
    (context.home.work / "site").mkdir()
    return "work/site"


def _fifo(base: Path, context: ToolContext) -> str:
    os.mkfifo(context.home.work / "pipe")
    return "work/pipe"


def _socket(base: Path, context: ToolContext) -> str:
    here = os.open(context.home.work, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{here}/socket")  # a path of a test is too long for a socket
    os.close(here)
    return "work/socket"


def _other_session(base: Path, context: ToolContext) -> str:
    other = context.home.artifacts("main", new_id("ses"))
    other.mkdir(parents=True)
    (other / "theirs.txt").write_text("theirs")
    return str(other.relative_to(context.home.path) / "theirs.txt")


def _journal(base: Path, context: ToolContext) -> str:
    journal = context.home.journal("main", context.session_id)
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n")
    return str(journal)


def _too_large(base: Path, context: ToolContext) -> str:
    with (context.home.work / "huge.bin").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    return "work/huge.bin"


@pytest.mark.parametrize(
    "source",
    [
        _outside,
        _climbing,
        _link_out,
        _folder_link_out,
        _dangling,
        _folder,
        _fifo,
        _socket,
        _other_session,
        _journal,
        _too_large,
        lambda base, context: "/dev/zero",
        lambda base, context: "/proc/self/environ",
        lambda base, context: ".git/config",
        lambda base, context: "work/nothing.txt",
        lambda base, context: "work",
        lambda base, context: "work/\0.txt",
        lambda base, context: "work/" + "x" * 5000,
    ],
)
async def test_p2_what_is_no_file_of_the_agents_is_refused_and_leaves_nothing(tmp_path: Path, source: Source) -> None:
    context = context_of(tmp_path)
    with anyio.fail_after(5):
        outcome = await use(TOOL, context, path=source(tmp_path, context))
    assert outcome.status == "error", outcome
    assert outcome.failure is not None
    assert outcome.failure.message
    assert outcome.events == ()
    assert kept_files(context) == []


async def test_p2_a_link_slipped_in_after_the_check_is_not_followed(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.txt").write_text("mine")
    checked = context.decided(TOOL.targets(context, {"path": "work/a.txt"}), approved=False, base=None)
    (context.home.work / "a.txt").unlink()
    (context.home.work / "a.txt").symlink_to(_outside(tmp_path, context))
    outcome = await TOOL.run(checked, {"path": "work/a.txt"})
    assert outcome.status == "error"
    assert kept_files(context) == []


@pytest.mark.parametrize("step", [0, 1])
async def test_p2_a_link_in_the_place_of_an_artifact_is_not_followed(tmp_path: Path, step: int) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.txt").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own = derived_id("art", context.run_id, "key-1")
    folder = context.home.artifacts("main", context.session_id) / own
    if step == 0:
        folder.parent.mkdir(parents=True)
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir(parents=True)
        (folder / "a.txt").symlink_to(elsewhere / "victim")
    outcome = await use(TOOL, context, path="work/a.txt")
    assert outcome.status == ("error" if step == 0 else "ok")
    assert list(elsewhere.iterdir()) == []


# --- a source that changes


async def test_a_file_that_changes_once_is_kept_as_it_is_afterwards(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    source = context.home.work / "log.bin"
    source.write_bytes(b"old" * 1_000_000)
    changes = iter([b"new" * 1_000_000])

    def heed() -> None:
        for data in changes:
            source.write_bytes(data)

    kept = keep_file(str(source), place_of(context.home, "main", context.session_id, new_id("art")), heed=heed)
    assert kept.sha256 == hashlib.sha256(b"new" * 1_000_000).hexdigest()
    assert (context.home.path / kept.content_ref).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("grows", [True, False])
async def test_a_file_that_never_rests_is_refused(tmp_path: Path, grows: bool) -> None:
    context = context_of(tmp_path)
    source = context.home.work / "log.bin"
    source.write_bytes(b"x" * 2_000_000)

    def heed() -> None:
        with source.open("ab" if grows else "r+b") as file:
            file.write(b"y")

    with pytest.raises(Unusable, match="keeps changing"):
        keep_file(str(source), place_of(context.home, "main", context.session_id, new_id("art")), heed=heed)
    assert kept_files(context) == []


def test_what_a_writer_in_another_thread_makes_is_never_kept_half(tmp_path: Path) -> None:
    """It changes letter by letter from the front, so a copy whose front is older than its end was never the file."""
    context = context_of(tmp_path)
    source = context.home.work / "letters"
    source.write_bytes(b"a" * 300_000)
    over = threading.Event()
    before_it = {b"a": b"c", b"b": b"a", b"c": b"b"}

    def write() -> None:
        with source.open("r+b", buffering=0) as file:
            while not over.is_set():
                for letter in b"abc":
                    file.seek(0)
                    for _ in range(3):
                        file.write(bytes([letter]) * 100_000)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(10):
            try:
                kept = keep_file(str(source), place_of(context.home, "main", context.session_id, new_id("art")))
            except Unusable:
                continue
            data = (context.home.path / kept.content_ref).read_bytes()
            newer = data[:1]
            older = before_it[newer]
            assert data.lstrip(newer).strip(older) == b"", "its front is older than its end"
    finally:
        over.set()
        thread.join()


def test_a_copy_is_bounded(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    source = context.home.work / "x.bin"
    source.write_bytes(b"x" * 100)
    place = place_of(context.home, "main", context.session_id, new_id("art"))
    with pytest.raises(Unusable, match=r"x\.bin has 100 bytes; an artifact has up to 99"):
        keep_file(str(source), place, at_most=99)
    with pytest.raises(Unusable, match="up to 99"):
        keep_bytes(b"x" * 100, "x.bin", place, at_most=99)
    assert keep_file(str(source), place, at_most=100).size == 100


# --- once


async def test_f2_a_rerun_before_the_fact_makes_one_artifact(tmp_path: Path) -> None:
    """The process ended after the file was there and before its fact; the half copy of another crash lies beside."""
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    first = ref_in(await use(TOOL, context, path="work/a.md"))
    half = (context.home.path / first.content_ref).parent / f".{new_id('tmp')}.tmp"
    half.write_text("# ")
    again = ref_in(await use(TOOL, context, path="work/a.md"))
    assert again == first
    assert kept_files(context) == [context.home.path / first.content_ref]


async def test_f2_a_rerun_after_the_fact_publishes_nothing_new(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    first = await use(TOOL, context, path="work/a.md")
    context = replace(context, artifacts=(ref_in(first),))
    (context.home.work / "a.md").write_text("# A, changed since\n")
    again = await use(TOOL, context, path="work/a.md")
    assert again.events == ()
    assert again.parts == first.parts
    assert content(context, ref_in(first)) == b"# A\n"


async def test_f2_a_rerun_whose_file_was_lost_makes_it_again(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    first = ref_in(await use(TOOL, context, path="work/a.md"))
    (context.home.path / first.content_ref).unlink()
    again = ref_in(await use(TOOL, replace(context, artifacts=(first,)), path="work/a.md"))
    assert again == first
    assert content(context, again) == b"# A\n"


async def test_two_calls_at_once_make_two(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    refs: list[ArtifactRef] = []

    async def publish(number: int) -> None:
        one = replace(context, call_id=f"call_{number}", idempotency_key=f"key-{number}")
        refs.append(ref_in(await use(TOOL, one, path="work/a.md")))

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(publish, number)
    assert len({ref.id for ref in refs}) == 8
    assert len(kept_files(context)) == 8


# --- a new version


async def test_a_new_version_keeps_the_id_and_the_old_content(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    first = ref_in(await use(TOOL, context, path="work/a.md", title="The report", type="report"))
    (context.home.work / "a.md").write_text("# B\n")
    later = replace(context, call_id="call_2", idempotency_key="key-2", artifacts=(first,))
    outcome = await use(TOOL, later, path="work/a.md", id=first.id)
    second = ref_in(outcome)
    assert isinstance(outcome.events[0], ArtifactUpdated)
    assert (second.id, second.title, second.type) == (first.id, "The report", "report")
    assert second.created_by_tool_call_id == "call_2"
    assert (content(context, first), content(context, second)) == (b"# A\n", b"# B\n")
    rerun = await use(TOOL, replace(later, artifacts=(second,)), path="work/a.md", id=first.id)
    assert rerun.events == ()
    assert rerun.parts == outcome.parts


async def test_the_same_content_again_is_no_new_version(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    first = ref_in(await use(TOOL, context, path="work/a.md"))
    later = replace(context, call_id="call_2", idempotency_key="key-2", artifacts=(first,))
    outcome = await use(TOOL, later, path="work/a.md", id=first.id)
    assert (outcome.status, outcome.events, outcome.changed) == ("ok", (), False)
    assert kept_files(context) == [context.home.path / first.content_ref]
    renamed = await use(TOOL, later, path="work/a.md", id=first.id, title="Another title")
    assert ref_in(renamed).title == "Another title"


@pytest.mark.parametrize("wrong", ["art_01kbc3fqz-7h2m9xw", "../../x", "", "\0"])
async def test_an_unknown_id_is_refused_and_the_known_ones_named(tmp_path: Path, wrong: str) -> None:
    context = context_of(tmp_path)
    (context.home.work / "a.md").write_text("# A\n")
    known = ArtifactRef(id=new_id("art"), title="The report")
    outcome = await use(TOOL, replace(context, artifacts=(known,)), path="work/a.md", id=wrong)
    assert outcome.status == "error"
    assert known.id in text(outcome)
    assert "The report" in text(outcome)
    assert kept_files(context) == []


# --- a stop


async def test_f5_a_stop_in_the_middle_of_a_copy_leaves_nothing(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    source = context.home.work / "large.bin"
    source.write_bytes(b"x" * 3_000_000)
    place = place_of(context.home, "main", context.session_id, new_id("art"))
    begun = threading.Event()

    def heed() -> None:
        begun.set()
        while True:
            anyio.from_thread.check_cancelled()

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, lambda: keep_file(str(source), place, heed=heed))
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    assert kept_files(context) == []


# --- names and kinds


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_p5_a_safe_name_is_one_harmless_step(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= 120
    assert safe not in {".", ".."}
    assert not safe.startswith(".")
    assert not set(safe) & set("/\\\0\n\r\"'<>:|?*")
    assert safe.isprintable()
    assert safe_name(safe) == safe


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "_._etc_passwd"),
        ("..", "file"),
        ("", "file"),
        (".bashrc", "bashrc"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("日本語 レポート.md", "日本語 レポート.md"),
        ("x" * 300 + ".tar", "x" * 116 + ".tar"),
        ("é" * 200, "é" * 60),
    ],
)
def test_names_stay_as_near_as_is_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe


PAGE = b"<!DOCTYPE html>\n<p>hello"
PNG = b"\x89PNG\r\n\x1a\n\0\0"


@pytest.mark.parametrize(
    ("name", "head", "claimed", "kind"),
    [
        ("a.png", PNG, "", "image/png"),
        ("a.txt", PNG, "", "image/png"),
        ("a.html", PNG, "text/html", "image/png"),
        ("a.png", PAGE, "", "text/plain"),
        ("a.png", PAGE, "image/png", "text/plain"),
        ("a.txt", PAGE, "", "text/plain"),
        ("a.html", PAGE, "", "text/html"),
        ("a.html", b"\xef\xbb\xbf\n <HTML>", "", "text/html"),
        ("a.html", b"<!-- note --><html>", "", "text/html"),
        ("a.html", b"alert(1)", "", "text/plain"),
        ("a.html", b"\0<html>", "", "application/octet-stream"),
        ("a", PAGE, "text/html; charset=utf-8", "text/html"),
        ("a.svg", b"<svg xmlns=''>", "", "image/svg+xml"),
        ("a.svg", b"<?xml version='1.0'?><svg>", "", "image/svg+xml"),
        ("a.txt", b"<svg onload=alert(1)>", "", "text/plain"),
        ("a.svg", PAGE, "", "text/plain"),
        ("a.js", b"alert(1)", "text/javascript", "text/plain"),
        ("a.css", b"p {}", "text/css", "text/plain"),
        ("a.xml", b"<?xml version='1.0'?><a/>", "text/xml", "text/plain"),
        ("a.md", "# ü".encode(), "", "text/markdown"),
        ("a.md", ("x" + "ü" * 2048).encode()[:4096], "", "text/markdown"),
        ("a.md", b"\xff\xfe\xfa", "", "application/octet-stream"),
        ("a.csv", b"", "", "text/csv"),
        ("a.json", b"{}", "", "application/json"),
        ("BMW.txt", b"BMW is a car", "", "text/plain"),
        ("a.bmp", b"BM\x10\0\0\0", "", "image/bmp"),
        ("a.docx", b"PK\x03\x04..", "", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.jar", b"PK\x03\x04..", "application/java-archive", "application/zip"),
        ("a.html", b"PK\x03\x04..", "", "application/zip"),
        ("a.wav", b"RIFF....WAVE\0", "", "audio/wav"),
        ("a.aac", b"\0\1", "audio/aac", "audio/aac"),
        ("a.png", b"\0\1", "image/png", "application/octet-stream"),
        ("a", b"\0\1", "image/svg+xml", "application/octet-stream"),
        ("a.mp4", b"\0\0\0\x18ftypmp42", "", "video/mp4"),
        ("a", b"\0\1", "x/y; q\r\nSet-Cookie: a=b", "application/octet-stream"),
        ("a", b"x", "text/html\r\nX: y/z", "text/plain"),
    ],
)
def test_p5_a_page_is_called_one_only_if_name_and_content_agree(
    name: str, head: bytes, claimed: str, kind: str
) -> None:
    assert media_type(name, head, claimed) == kind


@settings(max_examples=60)
@given(st.text(max_size=20), st.binary(max_size=64), st.text(max_size=20))
def test_p5_a_media_type_is_always_one(name: str, head: bytes, claimed: str) -> None:
    kind = media_type(name, head, claimed)
    assert kind.isascii()
    assert kind.count("/") == 1
    assert kind.isprintable()
    assert " " not in kind


def test_derived_ids_are_the_same_for_the_same_call_and_sort_with_their_run() -> None:
    early, late = new_id("run"), new_id("run")
    assert derived_id("art", early, "a") == derived_id("art", early, "a") != derived_id("art", early, "b")
    assert derived_id("art", early, "zz")[4:13] == early[4:13] <= derived_id("art", late, "aa")[4:13]
    assert ID.fullmatch(derived_id("art", "run_1", "a"))
