"""Which lines are daily work: not harmless, but left to the mode or the classifier instead of being asked about?"""

import pytest

from harnessd.permissions.shell import judge

DAILY = [
    "mkdir -p out/a && cp a.txt out/",
    "mv a b",
    "touch notes.txt",
    "echo hi > out.txt",
    "sort a | tee sorted.txt",
    "pytest -q tests/test_a.py::test_b",
    "python -m pytest -q",
    "go test ./...",
    "go build ./...",
    "cargo build",
    "npm test",
    "npm run build",
    "ruff check .",
    "git add . && git commit -m 'Say more'",
]
ASKED = [
    "rm -r build",
    "curl -s localhost",
    "python -c 'print(1)'",
    "make",
    "./run.sh",
    "touch .bashrc",
    "touch .../.bashrc",
    "cp a .git/hooks/pre-commit",
    "echo hi > ../AGENTS.md",
    "git push",
]


@pytest.mark.parametrize("command", DAILY)
def test_daily_work_is_left_to_the_mode(command: str) -> None:
    assert judge(command).level == "ordinary"


@pytest.mark.parametrize("command", ASKED)
def test_p1_what_may_reach_further_is_asked_about(command: str) -> None:
    assert judge(command).level in {"unknown", "unclear"}
