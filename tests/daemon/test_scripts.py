"""The home's own tools: what a script is given, what becomes of its output, and when it stays out."""

import json
import shutil
from pathlib import Path

import pytest

from harnessd.facts.event import ToolCallCreated
from harnessd.models.script import Answer, Call
from tests.daemon.living import call, events, living, results

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def home(*scripts: dict[str, object], **more: object) -> dict[str, str]:
    names = [str(script["name"]) for script in scripts]
    tools = {"scripts": [{"description": "Counts.", "inputSchema": SCHEMA, **one} for one in scripts], "allow": names}
    return {"tools.json": json.dumps({**tools, **more})}


ANSWERS = [
    ("cat", "ok", '{"n":1}'),
    ("true", "ok", "(no output)"),
    ("pwd | sed 's:.*/::'", "ok", "work"),
    ('test -n "$HARNESSD_IDEMPOTENCY_KEY" && echo given', "ok", "given"),
    ("echo noise >&2; echo result", "ok", "result"),
    ("echo reason >&2; echo half; exit 3", "error", "exit 3\nreason\nhalf"),
    ("printf '\\033[1mbold\\033[0m'", "ok", "bold"),
    ("touch ../AGENTS.md && echo wrote", "error", "exit 1"),
    ("sleep 300 & echo left", "ok", "left"),
    ("head -c 3 && sleep 0", "ok", '{"n'),
]


@pytest.mark.parametrize(("command", "status", "shown"), ANSWERS)
async def test_a_script_gets_its_arguments_and_its_output_is_the_result(
    tmp_path: Path, command: str, status: str, shown: str
) -> None:
    script = [call("count", n=1), Answer("done")]
    async with living(tmp_path, script, **home({"name": "count", "command": command})) as one:
        _, state = await one.say("go")
        ((got, said),) = results(state)
        assert (got, said[: len(shown)]) == (status, shown)


async def test_a_script_that_takes_too_long_is_ended_and_what_it_said_is_shown(tmp_path: Path) -> None:
    slow = {"name": "count", "command": "echo begun >&2; sleep 300", "timeout": 0.4}
    async with living(tmp_path, [call("count", n=1), Answer("done")], **home(slow)) as one:
        _, state = await one.say("go")
        ((status, said),) = results(state)
        assert status == "timeout"
        assert "begun" in said


async def test_l1_arguments_that_do_not_fit_the_declared_schema_run_nothing(tmp_path: Path) -> None:
    script = [call("count", n="one"), Answer("done")]
    async with living(tmp_path, script, **home({"name": "count", "command": "touch ran"})) as one:
        _, state = await one.say("go")
        assert results(state)[0][0] == "invalid"
        assert not (one.home.path / "work/ran").exists()


MARKS = [
    ({}, ("write", False, False)),
    ({"readOnly": True}, ("read", False, False)),
    ({"idempotent": True}, ("write", True, False)),
    ({"concurrencySafe": True}, ("write", False, True)),
]


@pytest.mark.parametrize(("marks", "recorded"), MARKS)
async def test_the_marks_of_a_script_are_those_of_its_calls(
    tmp_path: Path, marks: dict[str, object], recorded: tuple[str, bool, bool]
) -> None:
    script = [call("count", n=1), Answer("done")]
    async with living(tmp_path, script, **home({"name": "count", "command": "true", **marks})) as one:
        session, _ = await one.say("go")
        (made,) = (event for event in events(session) if isinstance(event, ToolCallCreated))
        assert (made.effect, made.idempotent, made.concurrency_safe) == recorded


async def test_a_result_of_json_is_selected_from(tmp_path: Path) -> None:
    wanted = {"results": {"count": {"select": "a.b"}}}
    files = home({"name": "count", "command": 'echo \'{"a": {"b": 7, "c": 8}}\''}, **wanted)
    async with living(tmp_path, [call("count", n=1), Answer("done")], **files) as one:
        _, state = await one.say("go")
        assert results(state) == [("ok", "7")]


async def test_of_two_tools_with_one_name_the_first_is_offered_and_the_other_reported(tmp_path: Path) -> None:
    taken = {"name": "read", "command": "touch ran"}
    twice = ({"name": "count", "command": "echo first"}, {"name": "count", "command": "echo second"})
    script = [Answer(calls=(Call("read", {"path": "AGENTS.md"}), Call("count", {"n": 1}))), Answer("done")]
    async with living(tmp_path, script, **home(taken, *twice)) as one:
        _, state = await one.say("go")
        assert not (one.home.path / "work/ran").exists()
        assert results(state)[1] == ("ok", "first")
        told = [problem.message for problem in state.problems if problem.code == "script-name-taken"]
        assert len(told) == 2
        assert one.tools().count("read") == one.tools().count("count") == 1


async def test_h9_the_scripts_of_a_home_that_is_not_trusted_stay_out_until_it_is(tmp_path: Path) -> None:
    script = [call("count", n=1), Answer("done")]
    files = home({"name": "count", "command": "touch ran"})
    async with living(tmp_path, script, **files) as one:
        one.runtime.trust.now_foreign(one.home, "of something else")
        session, state = await one.say("go")
        assert "count" not in one.tools()
        assert not (one.home.path / "work/ran").exists()
        assert [problem.code for problem in state.problems].count("scripts-inert") == 1
        one.runtime.trust_home(one.home)
        await one.say("again", session)
        assert "count" in one.tools()
        (one.home.path / "tools.json").write_text(files["tools.json"].replace("touch ran", "touch theirs"))
        await one.say("and again", session)
        assert "count" not in one.tools()
