"""kill -9 while a server's question is open, or while its answer is on its way: nothing is asked or done twice."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings
from harnessd.facts.control import Resume
from harnessd.facts.state import State
from harnessd.journal.peek import peek
from harnessd.models.script import Answer, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import call, events, make_home, make_settings, results
from tests.daemon.test_asking import ASKING, HOLDING, effects, tools_json

CHILD = Path(__file__).parent / "mortal_asked.py"
ENV = {"OPENAI_API_KEY": "test-key"}


@dataclass(frozen=True)
class Way:
    """A tool that asks, and whether its call may be made anew when it was cut off."""

    name: str
    server: Path
    tool: str
    repeats: bool


WAYS = (
    Way("2026 writer", ASKING, "brew", False),
    Way("2026 reader", ASKING, "peek", True),
    Way("2025 writer", HOLDING, "pour", False),
    Way("2025 reader", HOLDING, "peek", True),
    Way("2025 idempotent", HOLDING, "pour_again", True),
)


def scripted(way: Way) -> ScriptedServer:
    def script(request: Request) -> Answer:
        done = any(message["role"] == "tool" for message in request.body["messages"])
        return Answer("done") if done else call(f"mcp__tea__{way.tool}")

    return ScriptedServer(script)


def start(base: Path, url: str, point: int) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(base), url, str(point)], stdout=subprocess.PIPE, text=True, env=env
    )


def prepare(base: Path, url: str, way: Way) -> Settings:
    settings = make_settings(base, url)
    make_home(settings, **{"tools.json": tools_json(base, way.server)})
    return settings


async def go_on(settings: Settings) -> tuple[State, list[str]]:
    """Takes up what the dead process left and answers what is asked; the state, and the approvals there were."""
    async with Runtime.open(settings, ENV) as runtime:
        home = runtime.home("ada")
        (journal,) = home.sessions("main").glob("*.jsonl")
        session = await runtime.session(home, journal.stem)
        session.recover()
        state = await session.idle()
        while state.pending_approvals:
            asked = state.pending_approvals[0]
            await session.control(Resume(approval_id=asked.id, decision="allow", arguments={"cups": 3}))
            state = await session.idle()
        asked_for = [one.approval.id for one in events(session) if one.type == "tool.approval_required"]
        return state, asked_for


QUICK = {"2026 writer", "2025 writer", "2025 reader"}
EACH = [pytest.param(way, id=way.name, marks=[pytest.mark.matrix] * (way.name not in QUICK)) for way in WAYS]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", EACH)
async def test_f1_f2_killed_while_a_question_is_open(tmp_path: Path, way: Way) -> None:
    async with scripted(way) as server:
        settings = prepare(tmp_path, server.url, way)
        with start(tmp_path, server.url, 0) as child:
            assert child.stdout is not None
            assert await anyio.to_thread.run_sync(child.stdout.readline) == "asked\n"
            child.send_signal(signal.SIGKILL)
        home = settings.workspaces / "ada" / "agents" / "main"
        (journal,) = (home / "sessions").glob("*.jsonl")
        left = peek(journal, home / "context" / journal.stem / "state.json")
        assert len(left.pending_approvals) == 1
        state, asked_for = await go_on(settings)
    assert asked_for == [left.pending_approvals[0].id], "it is asked once, under one id"
    assert state.last_run is not None
    assert state.last_run.run_id == left.active_run.run_id
    ((status, _),) = results(state)
    if way.server == HOLDING and not way.repeats:
        assert status == "outcome_unknown"
        assert effects(tmp_path) == []
    else:
        assert status == "ok"
        assert len(effects(tmp_path)) == 1
        assert "3" in effects(tmp_path)[0]


async def _killed_at(base: Path, way: Way, point: int) -> bool:
    """Whether there was such a point; then all is as it must be after it."""
    async with scripted(way) as server:
        settings = prepare(base, server.url, way)
        with start(base, server.url, point) as child:
            said, _ = await anyio.to_thread.run_sync(child.communicate)
        if child.returncode == 0:
            return False
        assert child.returncode == -signal.SIGKILL
        if not list((settings.workspaces / "ada/agents/main/sessions").glob("*.jsonl")):
            return True
        before = effects(base)
        state, asked_for = await go_on(settings)
    if state.last_run is None:
        return True  # it died before the message was on disk
    assert state.last_run.reason == "completed"
    ((status, text),) = results(state)
    assert len(asked_for) == 1 or (asked_for == [] and status == "outcome_unknown" and not way.repeats)
    done = effects(base)
    answered = said.split()
    if not way.repeats:
        assert len(done) <= 1
        assert before == [] or done == before
        assert bool(done) or status == "outcome_unknown"
    if status == "ok" and answered:
        assert "2" in text, "what a person was told to be recorded counts"
    return True


SAMPLE = {way.name: points for way, points in zip(WAYS, [(34,), (), (31,), (31,), ()], strict=True)}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("way", "point"), [(way, point) for way in WAYS for point in SAMPLE[way.name]], ids=lambda v: getattr(v, "name", v)
)
async def test_f2_killed_while_the_answer_is_on_its_way(tmp_path: Path, way: Way, point: int) -> None:
    await _killed_at(tmp_path, way, point)


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_f2_killed_at_every_step_of_a_question(tmp_path: Path, way: Way) -> None:
    point = 1
    while await _killed_at(tmp_path / str(point), way, point):
        point += 1
    assert point > 30
