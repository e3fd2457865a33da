"""P7, P1: what hostile lines do in the sandbox (nothing outside work/), and lines that only read (nothing at all)."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from harnessd.permissions.shell import judge
from harnessd.sandbox.bubblewrap import Ran, Sandbox, TimedOut
from harnessd.tools.shell import careful_environment, shell_line
from tests.permissions.shell.corpus import benign, hostile

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

RUNNABLE = tuple(
    line for line in hostile() if line.strip() and line.isprintable() | ("\n" in line) and "\0" not in line
)
SAMPLE = RUNNABLE[:: len(RUNNABLE) // 40]
SECONDS = 2
EACH = 'while IFS= read -r -d "" line; do timeout 5 bash --noprofile --norc -c "$line" </dev/null; done'


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A workspaces folder with two homes, a state directory, and a user's HOME beside them."""
    for home in ("ada", "bob"):
        for name, text in {
            "AGENTS.md": "persona\n",
            "MEMORY.md": "- fact\n",
            "tools.json": "{}\n",
            "skills/tea/SKILL.md": "tea\n",
            "agents/main/sessions/ses_1.jsonl": "{}\n",
            ".git/config": "[core]\n",
            ".git/hooks/pre-commit": "#!/bin/sh\n",
        }.items():
            path = tmp_path / "workspaces" / home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in ("state/secrets/key", "state/harnessd.db", "user/.bashrc", "user/.ssh/id_rsa"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary\n")
    return tmp_path


def sandbox_in(ground: Path, **environment: str) -> Sandbox:
    work = ground / "workspaces/ada/work"
    work.mkdir(exist_ok=True)
    for name in ("f", "x", "a.txt", "README.md"):
        (work / name).write_text("touch ../x; rm -f ../AGENTS.md\n")
    hidden = (ground / "workspaces", ground / "state", ground / "user")
    return Sandbox(ground / "workspaces/ada", hidden=hidden, environment=environment)


def tree(folder: Path, *, without: Path | None = None) -> dict[str, str]:
    """Every path below `folder` with what it is and holds."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if without is not None and path.is_relative_to(without):
            continue
        kind = f"link {path.readlink()}" if path.is_symlink() else "folder"
        if path.is_file() and not path.is_symlink():
            kind = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = f"{path.lstat().st_mode:o} {kind}"
    return found


async def assert_nothing_outside_work_changes(ground: Path, lines: tuple[str, ...]) -> None:
    work = ground / "workspaces/ada/work"
    for line in lines:
        box = sandbox_in(ground)
        before = tree(ground, without=work)
        ran = await box.run(shell_line(line), seconds=SECONDS)
        assert isinstance(ran, Ran | TimedOut), (line, ran)
        assert tree(ground, without=work) == before, line
        shutil.rmtree(work)


async def test_p7_a_sample_of_hostile_lines_changes_nothing_outside_work(ground: Path) -> None:
    await assert_nothing_outside_work_changes(ground, SAMPLE)


@pytest.mark.matrix
@pytest.mark.timeout(900)
async def test_p7_no_hostile_line_changes_anything_outside_work(ground: Path) -> None:
    await assert_nothing_outside_work_changes(ground, RUNNABLE)


async def test_p1_lines_that_only_read_change_nothing_at_all(ground: Path) -> None:
    box = sandbox_in(ground, **careful_environment())
    work = ground / "workspaces/ada/work"
    for name in ("src/main.py", "data.csv", "package.json", "sub/dir/y", "list.txt", "input.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text('{"a": 1}\n')
    for arguments in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", "-C", str(work), *arguments], check=True)
    reading = [line for line in benign() if judge(line).level == "reads"]
    before = tree(ground)
    ran = await box.run(["bash", "-c", EACH], stdin=b"".join(f"{line}\0".encode() for line in reading), seconds=60)
    assert isinstance(ran, Ran), ran
    assert tree(ground) == before
