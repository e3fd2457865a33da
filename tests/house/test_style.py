"""Does the code read as STYLE wants it, as far as a program can tell?"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT, modules

VAGUE = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "base_classes", "shared"}
LONGEST = 900
"""Lines. A file on the way there wants to be two; the number only stops what nobody noticed."""


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_ruff_has_nothing_to_say(command: list[str]) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "."],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_each_module_answers_its_question_in_its_first_line() -> None:
    silent = [str(path.relative_to(ROOT)) for path in modules() if not _first_line(path).endswith((".", "?", ":"))]
    assert silent == [], "the first docstring line must be a whole sentence"


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    names = {path: {part.removesuffix(".py") for part in path.relative_to(ROOT).parts} for path in modules()}
    assert {str(path): found for path, parts in names.items() if (found := parts & VAGUE)} == {}


def test_no_file_needs_a_table_of_contents() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_bytes().splitlines()) for path in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST} == {}


def test_importing_a_module_runs_nothing() -> None:
    """A call that stands alone at the top of a module is an effect of importing it."""
    effects = [
        f"{path.relative_to(ROOT)}:{statement.lineno}"
        for path in modules()
        if path.name != "__main__.py"
        for statement in ast.parse(path.read_bytes()).body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call | ast.Await)
    ]
    assert effects == []


def test_no_test_patches_our_own_code() -> None:
    """monkeypatch is for the environment and the working directory; a patch of our code is a missing parameter."""
    guilty = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if _patches(node)
    ]
    assert guilty == []


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0].strip()


def _patches(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module in {"unittest.mock", "mock"}
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "monkeypatch"
        and node.func.attr in {"setattr", "delattr"}
    )
