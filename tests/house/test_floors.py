"""Do imports go down only, floor by floor?"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import PACKAGE, ROOT

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
FLOORS, PURE = "Floors: imports go down only", "Facts are pure"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def copy_of_house(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "harnessd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_imports_keep_the_floors() -> None:
    outcome = lint_imports(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("facts/planted.py", "import harnessd.home.layout", FLOORS),
        ("home/planted.py", "import harnessd.journal", FLOORS),
        ("facts/planted.py", "import asyncio", PURE),
        ("planted.py", "", FLOORS),
    ],
    ids=["upwards", "sideways", "impure facts", "a module on no floor"],
)
def test_the_gate_sees_what_breaks_the_floors(tmp_path: Path, module: str, line: str, contract: str) -> None:
    house = copy_of_house(tmp_path)
    (house / "harnessd" / module).write_text(f'"""Planted."""\n{line}\n', encoding="utf-8")
    outcome = lint_imports(house)
    assert outcome.returncode != 0, outcome.stdout
    assert f"{contract} BROKEN" in outcome.stdout
    assert "planted" in outcome.stdout
