"""The operator's before_tool programs: their answers, their failures, their end."""

import os
import select
import subprocess
import sys
from pathlib import Path

import anyio
import orjson
import pytest

from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.hooks import ProgramHook
from harnessd.permissions.rules import RuleSet
from tests.permissions.calls import READER, WRITER, mcp


def python(code: str, **settings) -> ProgramHook:
    return ProgramHook(command=(sys.executable, "-S", "-c", code), **{"timeout": 20.0, **settings})


@pytest.mark.parametrize(
    ("code", "verdict", "reason"),
    [
        ("", "none", "no objection"),
        ("print('  ')", "none", "no objection"),
        ('print(\'{"decision": "deny", "reason": "not today"}\')', "deny", "not today"),
        ('print(\'{"decision": "allow"}\')', "allow", "allow"),
        ('print(\'{"decision": "ask", "later": 1}\')', "ask", "ask"),
        ('print(\'{"decision": "none"}\')', "none", "none"),
        ('print(\'{"decision": "maybe"}\')', "ask", "answered with something else"),
        ("print('[]')", "ask", "answered with something else"),
        ("print('yes')", "ask", "answered with something else"),
        ("print('x' * 1_000_000)", "ask", "answered with something else"),
        ("import sys; print('never', file=sys.stderr); sys.exit(2)", "deny", "never"),
        ("import sys; sys.exit(2)", "deny", "denies"),
        ('import sys; print(\'{"decision": "allow"}\'); sys.exit(1)', "ask", "exit code 1"),
        ("import os; os.kill(os.getpid(), 9)", "ask", "exit code 137"),
        ("import sys; sys.stdin.close()", "none", "no objection"),
    ],
)
async def test_p1_every_answer_and_failure_of_a_program_is_defined(code, verdict, reason):
    call = mcp("web", "post", text="y" * 200_000)
    answer = await python(code)(call)
    assert (answer.layer, answer.verdict, answer.safety) == ("hooks", verdict, verdict == "ask")
    assert reason in answer.reason


async def test_p1_a_program_sees_the_call_as_json_and_nothing_of_the_environment(tmp_path: Path):
    code = "import os, sys; open('seen', 'w').write(sys.stdin.read()); open('env', 'w').write(repr(sorted(os.environ)))"
    os.environ["CANARY_KEY"] = "canary"
    try:
        await python(code, folder=str(tmp_path), environment={"NAME": "ada"})(WRITER)
    finally:
        del os.environ["CANARY_KEY"]
    seen = orjson.loads((tmp_path / "seen").read_bytes())
    assert (seen["tool"], seen["ownName"], seen["originOfContext"]) == (WRITER.tool, "create_issue", "user")
    assert "NAME" in (tmp_path / "env").read_text()
    assert "CANARY" not in (tmp_path / "env").read_text()


async def test_f5_a_program_that_does_not_answer_is_ended_with_its_children(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # The grandchild holds the fifo open; its end closes it, which is what the test waits for.
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', "
        f"\"import time; f = open({str(fifo)!r}, 'w'); f.write('up'); f.flush(); time.sleep(600)\"])"
    )
    answers = []

    async def ask() -> None:
        answers.append(await python(code, timeout=3.0)(WRITER))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            assert await anyio.Path(fifo).read_text() == "up"
    (answer,) = answers
    assert (answer.verdict, answer.safety) == ("ask", True)
    assert "within 3 s" in answer.reason


ASK = """
import sys, anyio
from harnessd.permissions.hooks import ProgramHook
from tests.permissions.calls import WRITER

anyio.run(ProgramHook(command=("sh", "-c", sys.argv[1]), timeout=60.0), WRITER)
"""
HOLDS = {
    "itself": "exec 9>{fifo}; echo up >&9; exec sleep 600",
    "a child": "sh -c 'exec 9>{fifo}; echo up >&9; sleep 600' & wait",
    "a session of its own": "setsid sh -c 'exec 9>{fifo}; echo up >&9; sleep 600' & wait",
    "an orphan": "(setsid sh -c 'trap \"\" TERM; exec 9>{fifo}; echo up >&9; sleep 600' &) ; sleep 600",
}


@pytest.mark.parametrize("who", HOLDS)
def test_o2_a_killed_daemon_leaves_nothing_of_a_program(tmp_path: Path, who: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    asks = subprocess.Popen([sys.executable, "-c", ASK, HOLDS[who].format(fifo=fifo)], env=env)
    with asks, fifo.open("rb", buffering=0) as held:
        assert held.read(3) == b"up\n"
        asks.kill()
        ended, _, _ = select.select([held], [], [], 3.0)  # its end closes the fifo
        assert ended


async def test_f5_a_program_that_leaves_a_process_behind_is_heard_at_its_own_end() -> None:
    with anyio.fail_after(10):
        hook = ProgramHook(command=("sh", "-c", "setsid sleep 600 & echo no >&2; exit 2"), timeout=20.0)
        answer = await hook(WRITER)
    assert (answer.verdict, answer.reason) == ("deny", "no")


@pytest.mark.parametrize("command", [("/no/such/program",), (), ("\0",)])
async def test_p1_a_program_that_cannot_start_means_ask(command):
    answer = await ProgramHook(command=command)(WRITER)
    assert (answer.verdict, answer.safety) == ("ask", True)


async def test_p1_a_program_is_asked_only_about_what_its_rule_means():
    deny = "import sys; sys.exit(2)"
    assert (await python(deny, matching="mcp__github__*")(WRITER)).verdict == "deny"
    assert (await python(deny, matching="mcp__github__*")(READER)).verdict == "none"
    assert (await python(deny, matching="mcp__github(")(READER)).verdict == "deny"


async def test_p1_a_failing_program_stops_an_allow_rule():
    context = GateContext(rules=(RuleSet(allow=(WRITER.tool,)),), hooks=(python("raise SystemExit(3)"),))
    decision = await decide(WRITER, context)
    assert (decision.verdict, decision.layer) == ("ask", "hooks")
