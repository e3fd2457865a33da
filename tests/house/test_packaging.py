"""Is everything in the wheel that a person needs who has only the wheel?"""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.shell import run
from tests.house.tree import PACKAGE, ROOT, WORKSPACES, templates


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the working tree, without build isolation and so without network."""
    folder = tmp_path_factory.mktemp("dist")
    outcome = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_code_prompts_and_homes(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    package = {str(path.relative_to(ROOT)) for path in files_below(PACKAGE)}
    homes = {f"harnessd/workspaces/{path.relative_to(WORKSPACES)}" for path in files_below(WORKSPACES)}
    assert package | homes <= held
    assert "harnessd/py.typed" in held


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"harnessd"}


def test_the_wheel_brings_command_and_licence(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [entry_points] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert "harnessd = harnessd.cli.main:main" in archive.read(entry_points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_the_wheel_alone_makes_each_home_and_shows_the_demo(wheel: Path, tmp_path: Path) -> None:
    """Unpacked somewhere else, so that nothing of the working tree is in reach."""
    code = tmp_path / "code"
    zipfile.ZipFile(wheel).extractall(code)
    where = run("cd / && python3 -c 'import harnessd; print(harnessd.__file__)'", tmp_path, code=code)
    assert where.startswith(str(code))
    for home in templates():
        run(f"harnessd init ./{home.name} --template {home.name}", tmp_path, code=code)
        assert (tmp_path / home.name / "AGENTS.md").read_bytes() == (home / "AGENTS.md").read_bytes()
    run("harnessd demo", tmp_path, code=code)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
