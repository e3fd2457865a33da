"""Is each command there, quick to list, and does it end as designed?"""

import json
import subprocess
import sys

import pytest

from harnessd.cli.main import COMMANDS, commands
from tests.cli.command_line import ROOT, harnessd, make, start

DESIGNED = {"init", "run", "chat", "sessions", "show", "log", "why", "lint", "schema", "doctor", "demo", "trust",
            "approve", "deny", "stop", "ps"}  # fmt: skip


def test_the_commands_of_the_design_are_there() -> None:
    assert set(COMMANDS) >= DESIGNED


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_loads_and_takes_json(name: str) -> None:
    said = harnessd(name, "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: harnessd {name}")
    assert "--json" in said.out
    command = commands.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.name == name


def test_help_lists_each_command_and_the_exit_codes() -> None:
    said = harnessd("--help")
    assert said.code == 0
    assert all(f"  {name} " in said.out for name in COMMANDS)
    assert all(code in said.out for code in ("0 completed", "2 wrong usage", "3 waiting", "4 ended", "5", "130"))


def test_help_imports_click_and_nothing_else_that_costs() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom harnessd.cli.main import run\nrun(['--help'])\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(outcome.stdout.splitlines()[-1].replace("'", '"')) == ["click", "harnessd"]


@pytest.mark.parametrize(
    "args",
    [["frob"], ["run"], ["run", "ada"], ["run", "ada", "hi", "--nonsense"], ["run", "ada", "hi", "--mode", "wild"],
     ["deny", "ada"], ["stop"], ["approve", "ada", "apr_1", "--arguments", "[]"],
     ["log", "ada", "--limit", "0"], ["schema", "nonsense"], ["init", "Ada!"],
     ["init", "ada", "--template", "nonsense"], ["run", "ada", "  "], []],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_wrong_usage_ends_with_2_and_a_way_out(args: list[str], as_json: bool) -> None:
    make()
    said = harnessd(*args, *(["--json"] if as_json else []))
    assert said.code == 2
    assert said.out == ""
    if as_json:
        assert said.problem["exitCode"] == 2
        assert said.problem["type"].startswith("urn:harnessd:problem:")
    else:
        assert said.err


def test_a_reader_that_goes_away_is_no_fault() -> None:
    process = start("schema")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait(20)


def test_the_version_is_told() -> None:
    assert harnessd("--version").out.startswith("harnessd, version ")
