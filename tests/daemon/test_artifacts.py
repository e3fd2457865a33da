"""Artifacts in whole runs: on record, on disk, once, and kept whatever becomes of the run."""

import json
import os
import sys
from pathlib import Path

import pytest

from harnessd.daemon.session import Accepted
from harnessd.facts.control import Invoke, Stop
from harnessd.facts.event import ArtifactCreated, Event, ToolCallCompleted, ToolCallRunning
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.models.script import Answer, Call
from harnessd.tools.artifact_content import Content, KnownHashes, open_artifact
from tests.daemon.living import Living, call, events, living, results

PRODUCING = Path(__file__).parent.parent / "tools" / "producing_server.py"
PUBLISH = call("artifact", path="work/report.md", title="The report")
DONE = Answer(text="Done.")


def with_report(agent: Living) -> None:
    (agent.home.work / "report.md").write_text("# Report\n")


def read_back(home: Home, state: State) -> list[bytes]:
    """The content of every artifact of the session, as the door hands it out."""
    read = []
    for ref in state.artifact_refs:
        found = open_artifact(home, state.agent_id, state.session_id, ref, KnownHashes())
        assert isinstance(found, Content), found
        with os.fdopen(found.fd, "rb") as file:
            read.append(file.read())
    return read


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits", "auto"])
async def test_a_file_is_published_without_asking(tmp_path: Path, mode: str) -> None:
    """It changes nothing but the session's own record."""
    agents = f"---\nmode: {mode}\n---\n# Ada\n"
    async with living(tmp_path, [PUBLISH, DONE], **{"AGENTS.md": agents}) as agent:
        with_report(agent)
        session, state = await agent.say("publish it")
        assert [status for status, _ in results(state)] == ["ok"]
        (ref,) = state.artifact_refs
        assert ref.title == "The report"
        assert read_back(agent.home, state) == [b"# Report\n"]
        assert ref.id in agent.said_to()
        assert ref.content_ref in agent.said_to()
        order = [event.type for event in events(session)]
        assert order.index("artifact.created") < order.index("tool.call.completed")


async def test_what_was_published_is_there_after_a_restart_and_can_be_renewed(tmp_path: Path) -> None:
    async with living(tmp_path, [PUBLISH, DONE]) as agent:
        with_report(agent)
        session, first = await agent.say("publish it")
        ref = first.artifact_refs[0]
    again = call("artifact", path="work/report.md", id=ref.id)
    async with living(tmp_path, [again, DONE]) as agent:
        (agent.home.work / "report.md").write_text("# Report, second edition\n")
        session = await agent.runtime.session(agent.home, first.session_id)
        assert session.state.artifact_refs == (ref,)
        _, state = await agent.say("renew it", session)
        assert [one.id for one in state.artifact_refs] == [ref.id]
        assert read_back(agent.home, state) == [b"# Report, second edition\n"]
        assert (agent.home.path / ref.content_ref).read_bytes() == b"# Report\n"


async def test_another_sessions_artifact_cannot_be_published_or_renewed(tmp_path: Path) -> None:
    async with living(tmp_path, [PUBLISH, DONE]) as agent:
        with_report(agent)
        _, first = await agent.say("publish it")
    ref = first.artifact_refs[0]
    tries = [call("artifact", path=ref.content_ref), call("artifact", path="work/report.md", id=ref.id), DONE]
    async with living(tmp_path, tries) as agent:
        _, state = await agent.say("publish theirs")
        assert [status for status, _ in results(state)] == ["denied", "error"]
        assert state.artifact_refs == ()


async def test_f5_a_stop_keeps_what_is_finished(tmp_path: Path) -> None:
    slow = Answer(text="still thinking", ends="hang")
    async with living(tmp_path, [PUBLISH, slow]) as agent:
        with_report(agent)
        session = await agent.runtime.session(agent.home)
        started = await session.control(Invoke(input="publish it"))
        assert isinstance(started, Accepted)
        async for event in session.subscribe():
            if isinstance(event, ToolCallCompleted):
                break
        assert isinstance(await session.control(Stop(run_id=started.run_id or "")), Accepted)
        state = await session.idle()
        assert read_back(agent.home, state) == [b"# Report\n"]


async def test_a_picture_of_a_server_is_a_file_and_not_in_the_journal(tmp_path: Path) -> None:
    servers = {"producing": {"command": sys.executable, "args": [str(PRODUCING)], "trust": "local"}}
    tools = json.dumps({"mcpServers": servers, "allow": ["mcp__producing__make"]})
    script = [call("mcp__producing__make", what="image"), DONE]
    async with living(tmp_path, script, **{"tools.json": tools}) as agent:
        session, state = await agent.say("draw it")
        (ref,) = state.artifact_refs
        assert (ref.type, ref.media_type) == ("image", "image/png")
        assert read_back(agent.home, state)[0].startswith(b"\x89PNG")
        journal = agent.home.journal("main", session.session_id).read_text()
        assert "base64" not in journal
        assert "iVBOR" not in journal
        assert ref.content_ref in agent.said_to()


async def test_several_in_one_turn_are_several(tmp_path: Path) -> None:
    paths = [f"work/{number}.txt" for number in range(5)]
    both = Answer(calls=tuple(Call("artifact", {"path": path}) for path in paths))
    async with living(tmp_path, [both, DONE]) as agent:
        for path in paths:
            (agent.home.path / path).write_text(path)
        _, state = await agent.say("publish all")
        assert sorted(read_back(agent.home, state)) == [path.encode() for path in paths]
        assert len({ref.id for ref in state.artifact_refs}) == 5


@pytest.mark.parametrize("point", ["running", "created"])
async def test_f2_a_run_that_ended_around_the_fact_goes_on_to_one_artifact(tmp_path: Path, point: str) -> None:
    """The journal ends after the intent, with the file already there, or after the fact and before the result."""
    async with living(tmp_path, [PUBLISH, DONE]) as agent:
        with_report(agent)
        session, first = await agent.say("publish it")
        recorded = events(session)
    cut_after(agent.home, first.session_id, recorded, ToolCallRunning if point == "running" else ArtifactCreated)
    async with living(tmp_path, [DONE]) as agent:
        await agent.runtime.recover()
        async with agent.runtime.visit(agent.home, first.session_id) as session:
            state = await session.idle()
            assert [ref.id for ref in state.artifact_refs] == [first.artifact_refs[0].id]
            assert read_back(agent.home, state) == [b"# Report\n"]
            assert [status for status, _ in results(state)] == ["ok"]
        folder = agent.home.artifacts("main", first.session_id)
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 1


def cut_after(home: Home, session_id: str, recorded: list[Event], kind: type[Event]) -> None:
    """Leaves the journal as it was when the process ended right after the first fact of that kind."""
    last = next(number for number, event in enumerate(recorded, 1) if isinstance(event, kind))
    journal = home.journal("main", session_id)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:last]))
    home.checkpoint("main", session_id).unlink(missing_ok=True)
