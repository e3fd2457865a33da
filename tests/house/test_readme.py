"""Do the commands of the README run?"""

import re
from pathlib import Path

from tests.house.shell import run
from tests.house.tree import ROOT, fenced_after

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_two_commands_are_one_line_each() -> None:
    for mark in ("command: demo", "command: tests"):
        [block] = fenced_after(mark, README)
        assert len(block.splitlines()) == 1


def test_the_ci_runs_the_command_of_the_readme() -> None:
    assert "readme_command tests" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_each_block_that_calls_harnessd_runs_here_or_needs_a_key() -> None:
    blocks = re.findall(r"(<!-- [^\n]* -->\n)?```sh\n(.*?)```", README, re.DOTALL)
    unmarked = [body for mark, body in blocks if not mark and "harnessd" in body]
    assert all("_API_KEY" in body for body in unmarked)


def test_the_five_minutes_run(tmp_path: Path) -> None:
    blocks = fenced_after("runs", README)
    assert len(blocks) >= 5
    said = run("\necho ----\n".join(blocks), tmp_path).split("----\n")
    assert "Ahoy" not in said[0]
    assert "Ahoy" in said[1], "an edit is in force with the next call"
    assert "tea" in said[2], "what was learned is in the history"
    [allowed] = [text for text in said if "waits for an approval" in text]
    assert "ask, by mode" in allowed
    assert "Allow execute(mkdir plans)" in allowed


def test_the_daemon_runs_and_the_commands_find_it(tmp_path: Path) -> None:
    [serve] = fenced_after("daemon", README)
    beside = fenced_after("beside the daemon", README)
    ready = "until [ -s state/daemon.json ]; do kill -0 %1; sleep 0.1; done"
    steps = "echo ----\n".join(beside)
    script = f"export HARNESSD_PORT=0 HARNESSD_STATE=$PWD/state\n{serve.strip()} &\n{ready}\n{steps}kill %1\nwait %1"
    before, _, after = run(script, tmp_path).partition("----\n")
    assert "ready" in before
    assert "exit code 3" in before
    assert "waiting" in before
    assert "completed" in after
    assert "stopped" in after


def test_the_demo_runs_without_key_and_network(tmp_path: Path) -> None:
    assert "commit" in run("harnessd demo", tmp_path)
