"""Do the examples of docs/tools.md load, and does `lint` find nothing in them?"""

import json
import re

import pytest

from harnessd.home.files_in_memory import FilesInMemory
from harnessd.home.lint import lint_files
from harnessd.permissions.rules import unreadable
from harnessd.tools.arguments import BadSchema, Invalid, check_arguments, compile_schema
from harnessd.tools.connect_schema import SCHEMA
from harnessd.tools.connect_server import server_of
from harnessd.tools.tool import Outcome
from tests.house.tree import ROOT

TEXT = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_is_what_it_seems(example: str) -> None:
    value = json.loads(example)
    if "action" in value:
        check = compile_schema(SCHEMA)
        assert not isinstance(check, BadSchema)
        assert not isinstance(check_arguments(value, check), Invalid)
        assert not isinstance(server_of(value), Outcome)
        return
    files = {
        "AGENTS.md": b"You are Ada.\n",
        "tools.json": example.encode(),
        "skills/sales/scripts/sales.py": b"print()\n",
    }
    found = lint_files(FilesInMemory(files), unreadable=unreadable)
    assert [problem for problem in found if problem.code != "not-run-yet"] == []


def test_the_actions_of_connect_are_told() -> None:
    told = re.findall(
        r"^\| `(\w+)` \|.*\|.*\|$", TEXT.partition("## connect")[2].partition("## Scripts")[0], re.MULTILINE
    )
    assert told == SCHEMA["properties"]["action"]["enum"]


def test_the_findings_that_are_named_exist() -> None:
    code = (ROOT / "harnessd" / "home" / "lint_descriptions.py").read_text(encoding="utf-8")
    code += (ROOT / "harnessd" / "home" / "lint_tools.py").read_text(encoding="utf-8")
    named = re.findall(r"else `([a-z-]+)`", TEXT)
    assert len(named) == 3
    assert all(f'"{one}"' in code for one in named)
