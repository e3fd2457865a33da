"""Pictures, sounds and other files that a call brings along become artifacts; a real server sends them."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harnessd.facts.event import ArtifactCreated
from harnessd.facts.message import FilePart, ImagePart, TextPart
from harnessd.facts.run import ArtifactRef
from harnessd.home.tools_file import StdioServer
from harnessd.ids import new_id
from harnessd.tools.artifact_produced import BYTES_AT_MOST, FILES_AT_MOST, keep_produced
from harnessd.tools.servers import open_servers
from harnessd.tools.tool import Outcome, Produced, ToolContext
from tests.tools.a_session import a_context, a_home
from tests.tools.producing_server import CONTENT, PNG, WAV
from tests.tools.surroundings import surroundings

SERVER = Path(__file__).with_name("producing_server.py")


def context_of(base: Path) -> ToolContext:
    given = {"session_id": new_id("ses"), "run_id": new_id("run"), "call_id": "call_1", "idempotency_key": "key-1"}
    return replace(a_context(a_home(base)), **given)  # type: ignore[arg-type]


@asynccontextmanager
async def producing(base: Path) -> AsyncIterator[tuple[ToolContext, object]]:
    context = context_of(base)

    async with open_servers(surroundings(base), logs=base / "logs") as opened:
        opened.configure({"producing": StdioServer(command=sys.executable, args=(str(SERVER),))})
        await opened.ready(30)
        (tool,) = opened.tools()

        async def make(what: str) -> Outcome:
            return await tool.run(context, {"what": what})

        yield context, make


async def made(base: Path, what: str) -> tuple[ToolContext, Outcome]:
    """What the call leaves once its files are kept."""
    async with producing(base) as (context, make):
        return context, await keep_produced(context, await make(what))  # type: ignore[operator]


def refs(outcome: Outcome) -> list[ArtifactRef]:
    return [event.artifact for event in outcome.events if isinstance(event, ArtifactCreated)]


def texts(outcome: Outcome) -> str:
    return "\n".join(part.text for part in outcome.parts if isinstance(part, TextPart))


async def test_a_picture_stands_between_its_texts_and_is_a_file(tmp_path: Path) -> None:
    context, outcome = await made(tmp_path, "image")
    before, picture, after = outcome.parts
    (ref,) = refs(outcome)
    assert (before, after) == (TextPart(text="before"), TextPart(text="after"))
    assert picture == ImagePart(media_type="image/png", content_ref=ref.content_ref)
    assert (context.home.path / ref.content_ref).read_bytes() == PNG
    assert ref.content_ref == f"agents/main/artifacts/{context.session_id}/{ref.id}/image-2.png"
    assert (ref.type, ref.owner_run_id, ref.created_by_tool_call_id) == ("image", context.run_id, "call_1")
    assert "base64" not in outcome.__repr__()


@pytest.mark.parametrize(
    ("what", "data", "kind", "name"),
    [
        ("audio", WAV, "audio/wav", "audio-1.wav"),
        ("blob", b"\0\1\2" * 99, "application/octet-stream", "Q3 plan.bin"),
        ("big text", b"# Long\n" + b"word " * 20_000, "text/markdown", "two.md"),
        ("a page as a picture", b"<!doctype html><script>steal()</script>", "text/plain", "image-1.png"),
        ("escaping", b"gotcha", "text/markdown", "_.._.._AGENTS.md"),
        ("dots", b"gotcha", "text/plain", "file"),
        ("no name", b"gotcha", "text/plain", "memo_"),
    ],
)
async def test_p5_other_files_are_kept_under_safe_names(
    tmp_path: Path, what: str, data: bytes, kind: str, name: str
) -> None:
    context, outcome = await made(tmp_path, what)
    (ref,) = refs(outcome)
    assert (Path(ref.content_ref).name, ref.media_type) == (name, kind)
    assert (context.home.path / ref.content_ref).read_bytes() == data
    assert (context.home.path / "AGENTS.md").read_text() == "# Ada\n"
    assert outcome.parts == (
        FilePart(path=ref.content_ref, media_type=ref.media_type, size=len(data), content_ref=ref.content_ref),
    )


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("small text", "[resource memo://one]\na short memo"),
        ("link", "[resource tea at https://tea.example: on tea]"),
        ("garbled", "no valid base64"),
    ],
)
async def test_what_is_no_file_is_text(tmp_path: Path, what: str, says: str) -> None:
    _, outcome = await made(tmp_path, what)
    assert outcome.status == "ok"
    assert says in texts(outcome)
    assert refs(outcome) == []


async def test_an_odd_media_type_changes_nothing_but_the_name(tmp_path: Path) -> None:
    context, outcome = await made(tmp_path, "odd type")
    (ref,) = refs(outcome)
    assert ref.media_type == "image/png"
    assert Path(ref.content_ref).name == "image-1.passwd"
    assert (context.home.path / ref.content_ref).parent.parent.name == context.session_id


async def test_a_failed_call_keeps_its_files_too(tmp_path: Path) -> None:
    _, outcome = await made(tmp_path, "error")
    assert outcome.status == "error"
    assert len(refs(outcome)) == 1


async def test_the_files_of_a_call_are_bounded_and_the_rest_is_said(tmp_path: Path) -> None:
    _, outcome = await made(tmp_path, "many")
    assert len(refs(outcome)) == FILES_AT_MOST
    assert len({ref.id for ref in refs(outcome)}) == FILES_AT_MOST
    assert texts(outcome).count("not kept") == len(CONTENT["many"]) - FILES_AT_MOST


async def test_the_bytes_of_a_call_are_bounded_and_a_smaller_file_still_fits(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    half = BYTES_AT_MOST // 2 + 1
    files = tuple(Produced(f"{number}.bin", bytes(size)) for number, size in enumerate((half, half, 10)))
    outcome = await keep_produced(context, Outcome(files=files))
    assert [ref.size for ref in refs(outcome)] == [half, 10]
    assert "1.bin" in texts(outcome)


async def test_f2_a_rerun_makes_the_same_artifacts(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    outcome = Outcome(files=(Produced("a.txt", b"a"), Produced("a.txt", b"b")))
    first = await keep_produced(context, outcome)
    assert refs(first) == refs(await keep_produced(context, outcome))
    assert [(context.home.path / ref.content_ref).read_bytes() for ref in refs(first)] == [b"a", b"b"]


async def test_f9_a_folder_that_refuses_costs_the_file_and_not_the_result(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    (context.home.path / "agents/main").mkdir()
    (context.home.path / "agents/main/artifacts").write_text("in the way")
    outcome = Outcome(parts=(TextPart(text="the answer"),), files=(Produced("a.txt", b"a"),))
    kept = await keep_produced(context, outcome)
    assert kept.status == "ok"
    assert "the answer" in texts(kept)
    assert "a.txt, 1 bytes; not kept" in texts(kept)


@pytest.mark.parametrize("at", [-5, 0, 1, 2, 99])
async def test_a_reference_stands_where_its_file_was(tmp_path: Path, at: int) -> None:
    parts = (TextPart(text="0"), TextPart(text="1"))
    outcome = await keep_produced(context_of(tmp_path), Outcome(parts=parts, files=(Produced("a", b"\0", at=at),)))
    where = next(n for n, part in enumerate(outcome.parts) if isinstance(part, FilePart))
    assert where == min(max(at, 0), 2)
    assert len(outcome.parts) == 3
