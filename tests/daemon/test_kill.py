"""F2, F3: a process killed at any write of its journal leaves a session that opens, is right, and goes on."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings
from harnessd.daemon.session import Accepted
from harnessd.facts.control import Invoke
from harnessd.facts.event import TurnFinished
from harnessd.facts.message import text_of
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.journal.records import read_events
from harnessd.models.script import Answer, Call, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings

TALLY = Path(__file__).with_name("tally_server.py")
CHILD = Path(__file__).with_name("mortal.py")
SAMPLE = range(1, 60, 5)
"""The points that are tried in every test run; `pytest -m matrix` tries all."""


def script(request: Request) -> Answer:
    """Text with a reader; a writer of the home; an MCP call with an effect that can be counted; the answer."""
    told = [message for message in request.body["messages"] if message["role"] == "assistant"]
    steps = (
        Answer("I look.", calls=(Call("read", {"path": "AGENTS.md"}), Call("read", {"path": "MEMORY.md"}))),
        Answer(calls=(Call("remember", {"text": "The sky is blue"}),)),
        Answer(calls=(Call("mcp__tally__add", {"line": "once"}),)),
        Answer("Done."),
    )
    return steps[min(len(told), len(steps) - 1)]


def tools_json(tally: Path) -> str:
    import json

    server = {"command": sys.executable, "args": [str(TALLY), str(tally)], "trust": "local"}
    return json.dumps({"mcpServers": {"tally": server}, "allow": ["mcp__tally__add"]})


async def killed_at(point: int, base: Path) -> None:
    tally = base / "tally.txt"
    async with ScriptedServer(script) as server:
        settings = make_settings(base, server.url)
        home = make_home(settings, **{"tools.json": tools_json(tally)})
        child = await anyio.run_process(
            [sys.executable, str(CHILD), str(base), server.url, str(point)],
            check=False,
            stderr=None,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        acknowledged = [int(line) for line in child.stdout.split()]
        if child.returncode == 0:
            assert point > 20, "the run ended before it could be killed"
            return
        assert child.returncode == -signal.SIGKILL
        sessions = list(home.sessions("main").glob("*.jsonl"))
        if not sessions:
            assert acknowledged == []
            return
        effects = tally.read_text().count("once") if tally.exists() else 0
        state = await resume(settings, sessions[0].stem, max(acknowledged, default=0))
        check(state, tally, effects)


async def resume(settings: Settings, session_id: str, acknowledged: int) -> State:
    async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
        session = await runtime.session(runtime.home("ada"), session_id)
        assert session.state.seq >= acknowledged, "something that was told to somebody is lost"
        before = session.state.active_run
        if before is None and not session.state.queue and session.state.last_run is None:
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
        session.recover()
        state = await session.idle()
        if before is not None and state.last_run is not None:
            assert state.last_run.run_id == before.run_id, "a resumed run is the same run"
        return state


def check(state: State, tally: Path, effects_before: int) -> None:
    assert state.last_run is not None
    assert state.last_run.reason == "completed"
    assert text_of(state.messages[-1]) == "Done."
    calls = [call.id for m in state.messages if m.role == "assistant" for call in m.tool_calls]
    answered = [m.tool_call_id for m in state.messages if m.role == "tool"]
    assert sorted(calls) == sorted(answered)
    unknown = [m for m in state.messages if m.role == "tool" and m.status == "outcome_unknown"]
    effects = tally.read_text().count("once") if tally.exists() else 0
    assert effects <= 1
    if effects == 0:
        assert [m.tool_name for m in unknown] == ["mcp__tally__add"], "a lost effect is told"
    if effects_before:
        assert effects == effects_before


@pytest.mark.timeout(60)
@pytest.mark.parametrize("point", SAMPLE)
async def test_f2_f3_killed_at_a_journal_write_goes_on_where_it_was(tmp_path: Path, point: int) -> None:
    await killed_at(point, tmp_path)


@pytest.mark.matrix
@pytest.mark.timeout(60)
@pytest.mark.parametrize("point", range(1, 75))
async def test_f2_f3_killed_at_every_journal_write(tmp_path: Path, point: int) -> None:
    await killed_at(point, tmp_path)


def delegating(request: Request) -> Answer:
    """The subagent remembers something and answers; the main agent passes its answer on."""
    prompt, *messages = request.body["messages"]
    told = sum(message["role"] == "assistant" for message in messages)
    if "You are a subagent" in prompt["content"]:
        return Answer("Learnt.") if told else Answer(calls=(Call("remember", {"text": "The sky is blue"}),))
    return Answer("Done.") if told else Answer(calls=(Call("delegate", {"agent": "general", "task": "learn"}),))


async def killed_while_delegating(point: int, base: Path) -> None:
    async with ScriptedServer(delegating) as server:
        settings = make_settings(base, server.url)
        home = make_home(settings)
        child = await anyio.run_process(
            [sys.executable, str(CHILD), str(base), server.url, str(point)],
            check=False,
            stderr=None,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        sessions = list(home.sessions("main").glob("*.jsonl"))
        if child.returncode == 0 or not sessions:
            return
        assert child.returncode == -signal.SIGKILL
        acknowledged = [int(line) for line in child.stdout.split()]
        state = await resume(settings, sessions[0].stem, max(acknowledged, default=0))
        assert state.last_run is not None
        assert state.last_run.reason == "completed"
        assert [text_of(m) for m in state.messages if m.role == "tool"] == ["Learnt."]
        assert [ref.status for ref in state.subagents] == ["completed"]
        assert len(list(home.sessions("general").glob("*.jsonl"))) == 1, "a second subagent began the work anew"
        assert (home.path / "MEMORY.md").read_text().count("The sky is blue") <= 1
        spent = sum(turn.usage.input_tokens for turn in turns_of(home))
        assert state.usage.total.input_tokens == spent, "what a subagent spent is counted once"


def turns_of(home: Home) -> list[TurnFinished]:
    paths = (home.path / "agents").glob("*/sessions/*.jsonl")
    return [event for path in paths for event in read_events(path) if isinstance(event, TurnFinished)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("point", range(3, 75, 9))
async def test_f2_killed_while_a_subagent_works_goes_on_with_the_same_one(tmp_path: Path, point: int) -> None:
    await killed_while_delegating(point, tmp_path)


@pytest.mark.matrix
@pytest.mark.timeout(60)
@pytest.mark.parametrize("point", range(1, 90))
async def test_f2_killed_anywhere_while_a_subagent_works(tmp_path: Path, point: int) -> None:
    await killed_while_delegating(point, tmp_path)
