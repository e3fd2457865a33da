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


def test_the_demo_runs_without_key_and_network(tmp_path: Path) -> None:
    assert "commit" in run("harnessd demo", tmp_path)
