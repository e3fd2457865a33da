"""Artifacts over HTTP: the recorded bytes, whole or in part, or a problem; never anything else."""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harnessd.facts.event import ArtifactCreated
from harnessd.facts.run import ArtifactRef
from harnessd.ids import new_id
from harnessd.models.script import Answer
from tests.api.served import Reply, Served, served
from tests.daemon.living import call

CONTENT = bytes(range(256)) * 41 + b"end"
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("artifacts")) as open_door:
        yield open_door


class Produced:
    """A session with one artifact, made as the runtime makes it."""

    def __init__(self, door: Served, session_id: str) -> None:
        self.door = door
        self.session_id = session_id
        self.folder = door.living.home.artifacts("main", session_id)

    async def record(self, name: str = "tea.bin", content: bytes = CONTENT, **other: object) -> str:
        artifact_id = new_id("art")
        path = self.folder / artifact_id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        ref = ArtifactRef(
            id=artifact_id,
            title=name,
            content_ref=path.relative_to(self.door.living.home.path).as_posix(),
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        ).model_copy(update=other)
        async with self.door.living.runtime.visit(self.door.living.home, self.session_id) as session:
            session._ledger.record(ArtifactCreated(artifact=ref))
            await session._ledger.barrier()
        return artifact_id

    def place(self, artifact_id: str, name: str = "tea.bin") -> Path:
        return self.folder / artifact_id / name

    async def get(self, artifact_id: str, method: str = "GET", **headers: str) -> Reply:
        path = f"/api/agents/ada/sessions/{self.session_id}/artifacts/{artifact_id}"
        return await self.door.ask(method, path, headers={name.replace("_", "-"): one for name, one in headers.items()})


@pytest.fixture
async def made(door: Served) -> Produced:
    return Produced(door, await door.session())


async def test_an_artifact_comes_whole_with_its_hash_as_etag(made: Produced) -> None:
    artifact = await made.record(media_type="application/zip")
    reply = await made.get(artifact)
    assert (reply.status, reply.body) == (200, CONTENT)
    assert reply.headers["etag"] == f'"{SHA}"'
    assert reply.headers["content-type"] == "application/zip"
    assert reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in reply.headers["content-security-policy"]
    head = await made.get(artifact, "HEAD", Range="bytes=0-1")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(CONTENT)))


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-0", 0, 1), ("bytes=5-", 5, None), ("bytes=-3", -3, None), ("bytes=100-10000000", 100, None)],
)
async def test_a_part_is_206_with_its_place(made: Produced, asked: str, start: int, end: int | None) -> None:
    artifact = await made.record()
    reply = await made.get(artifact, Range=asked)
    assert (reply.status, reply.body) == (206, CONTENT[start:end])
    first = start % len(CONTENT)
    assert reply.headers["content-range"] == f"bytes {first}-{first + len(reply.body) - 1}/{len(CONTENT)}"


async def test_odd_ranges_give_the_whole_and_impossible_ones_416(made: Produced) -> None:
    artifact = await made.record()
    for asked in ("bytes=2-1", "lines=1-2", "bytes=0-1,3-4", "nonsense"):
        assert (await made.get(artifact, Range=asked)).status == 200
    reply = await made.get(artifact, Range=f"bytes={len(CONTENT)}-")
    assert (reply.status, reply.kind) == (416, "range-not-satisfiable")
    assert reply.headers["content-range"] == f"bytes */{len(CONTENT)}"


async def test_validators_decide_what_is_sent(made: Produced) -> None:
    artifact = await made.record()
    etag = f'"{SHA}"'
    for value in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        reply = await made.get(artifact, If_None_Match=value)
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
    for value in ('"other"', "", SHA):
        assert (await made.get(artifact, If_None_Match=value)).status == 200
    assert (await made.get(artifact, Range="bytes=0-1", If_Range=etag)).status == 206
    for value in ('"other"', f"W/{etag}", "Mon, 30 Nov 2026 22:31:38 GMT"):
        assert (await made.get(artifact, Range="bytes=0-1", If_Range=value)).status == 200


async def test_an_empty_artifact_is_sent(made: Produced) -> None:
    reply = await made.get(await made.record(content=b""))
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")


async def test_p5_a_changed_file_is_not_served(made: Produced) -> None:
    longer, other, gone = [await made.record() for _ in range(3)]
    made.place(longer).write_bytes(CONTENT + b"x")
    changed = bytearray(CONTENT)
    changed[77] ^= 1
    made.place(other).write_bytes(changed)
    made.place(gone).unlink()
    for artifact, kind, said in (
        (longer, "artifact-altered", "bytes"),
        (other, "artifact-altered", "other bytes"),
        (gone, "artifact-gone", "no longer there"),
    ):
        for asked in ({}, {"Range": "bytes=0-1"}, {"If_None_Match": f'"{SHA}"'}):
            reply = await made.get(artifact, **asked)
            assert (reply.status, reply.kind) == (410, kind)
            assert said in reply.json["detail"]


async def test_p5_no_link_is_followed(made: Produced, tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_bytes(CONTENT)
    linked = await made.record()
    made.place(linked).unlink()
    made.place(linked).symlink_to(outside)
    folder = await made.record()
    real = tmp_path / "folder"
    made.place(folder).parent.rename(real)
    (made.folder / folder).symlink_to(real)
    pipe = await made.record()
    made.place(pipe).unlink()
    os.mkfifo(made.place(pipe))
    for artifact in (linked, folder, pipe):
        assert (await made.get(artifact)).status == 410


@pytest.mark.parametrize(
    "where",
    [
        "AGENTS.md",
        "/etc/passwd",
        "../outside",
        "agents/main/sessions/{session}.jsonl",
        "agents/main/artifacts/{session}",
        "agents/main/artifacts/{session}/../../sessions/{session}.jsonl",
        "agents/main/artifacts/{session}/./../{session}/x",
        "agents/main/artifacts/ses_01kbc3fqz-7h2m9xw/x",
        "agents/explore/artifacts/{session}/x",
        "",
        "agents/main/artifacts/{session}/a\0b",
    ],
)
async def test_p5_a_reference_out_of_the_sessions_folder_is_not_followed(made: Produced, where: str) -> None:
    artifact = await made.record(content_ref=where.replace("{session}", made.session_id))
    reply = await made.get(artifact)
    assert (reply.status, reply.kind) == (410, "artifact-gone")


@pytest.mark.parametrize(
    "name", ["a b.txt", "ü.txt", 'q"u;ote.txt', "a\nb.txt", "技能.md", "x" * 200, "%41.txt", "'.html"]
)
async def test_p5_a_files_name_can_break_no_header(made: Produced, name: str) -> None:
    reply = await made.get(await made.record(name))
    assert reply.status == 200
    disposition = [value for key, value in reply.repeated if key == "content-disposition"]
    assert len(disposition) == 1
    assert disposition[0].isascii()
    assert disposition[0].count('"') == 2


@pytest.mark.parametrize(
    ("recorded", "sent", "shown"),
    [
        ("image/png", "image/png", True),
        ("text/plain", "text/plain; charset=utf-8", True),
        ("text/html", "text/html; charset=utf-8", False),
        ("image/svg+xml", "image/svg+xml", False),
        ("application/javascript", "application/javascript", False),
        ("Text/Plain; charset=x", "text/plain; charset=utf-8", True),
        ("text/html\r\nX-A: b", "application/octet-stream", False),
        ("", "application/octet-stream", False),
        ("nonsense", "application/octet-stream", False),
    ],
)
async def test_p5_only_harmless_kinds_are_shown_by_a_browser(
    made: Produced, recorded: str, sent: str, shown: bool
) -> None:
    reply = await made.get(await made.record(media_type=recorded))
    assert reply.headers["content-type"] == sent
    assert reply.headers["content-disposition"].startswith("inline" if shown else "attachment")
    assert "x-a" not in reply.headers


async def test_an_unknown_artifact_is_404(made: Produced) -> None:
    for name in ("art_01kbc3fqz-7h2m9xw", "..", "%2e%2e", "x", "tea.bin"):
        assert (await made.get(name)).status == 404


async def test_what_an_agent_publishes_can_be_had(tmp_path: Path) -> None:
    script = [
        call("artifact", path="work/tea.md", title="About tea"),
        Answer("Here it is."),
    ]
    async with served(tmp_path, script) as door:
        (door.living.home.path / "work" / "tea.md").write_text("# Tea\n")
        session_id = await door.session()
        await door.say(session_id, "Publish what there is about tea.")
        path = f"/api/agents/ada/sessions/{session_id}"
        (ref,) = (await door.ask("GET", path)).json["state"]["artifactRefs"]
        reply = await door.ask("GET", f"{path}/artifacts/{ref['id']}")
        assert (reply.status, reply.body) == (200, b"# Tea\n")
        assert reply.headers["etag"] == f'"{ref["sha256"]}"'
        told = (await door.ask("GET", f"{path}/transcript")).json["messages"]
        (made,) = [one for item in told for entry in item.get("calls", ()) for one in entry["artifacts"]]
        assert made["id"] == ref["id"]
