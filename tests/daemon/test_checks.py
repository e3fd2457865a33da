"""The home's declared checks, in their plain form: findings go back to the model, a failing one sends it back."""

import json
import shutil
from pathlib import Path

import pytest

from harnessd.facts.message import text_of
from harnessd.models.script import Answer
from tests.daemon.living import call, living, results

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def tools(*checks: dict[str, object]) -> str:
    return json.dumps({"checks": list(checks), "allow": ["write(work/**)"]})


async def test_findings_after_a_write_go_back_to_the_model(tmp_path: Path) -> None:
    check = {"after": "write(work/**/*.txt)", "command": "grep -q good *.txt"}
    script = [
        call("write", path="work/a.txt", content="bad\n"),
        call("write", path="work/b.md", content="not checked\n"),
        Answer("done"),
    ]
    async with living(tmp_path, script, **{"tools.json": tools(check)}) as one:
        _, state = await one.say("write")
        (_, first), (_, second) = results(state)
        assert "`grep -q good *.txt` failed" in first
        assert "failed" not in second


async def test_a_failing_check_before_the_finish_sends_the_agent_back_until_it_passes(tmp_path: Path) -> None:
    check = {"before": "finish", "command": "ls | grep -q don"}
    script = [Answer("I am done."), call("write", path="work/done.txt", content="x"), Answer("Now I am.")]
    async with living(tmp_path, script, **{"tools.json": tools(check)}) as one:
        _, state = await one.say("finish it")
        assert state.last_run is not None
        assert state.last_run.reason == "completed"
        assert text_of(state.messages[-1]) == "Now I am."
        assert "You are not done yet" in one.said_to(1)


async def test_a_check_that_never_passes_sends_it_back_three_times_at_most(tmp_path: Path) -> None:
    check = {"before": "finish", "command": "false"}
    async with living(tmp_path, [Answer("done")], **{"tools.json": tools(check)}) as one:
        _, state = await one.say("finish it")
        assert len(one.requests) == 4
        assert state.last_run is not None
        assert (state.last_run.reason, state.last_run.detail) == ("completed", "The check `false` failed (exit 1)")
