"""P7, P6, F5: what a command in the sandbox can reach, and that nothing of it is left."""

import os
import shutil
import time
from pathlib import Path

import pytest

from harnessd.sandbox.bubblewrap import Ran, Sandbox, TimedOut

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
pytestmark = needs_bubblewrap


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "workspaces" / "ada"
    for name in ("agents/main/sessions", ".git", "work", "skills/tea"):
        (home / name).mkdir(parents=True)
    (home / "AGENTS.md").write_text("Ada\n")
    (home / "agents/main/sessions/ses_x.jsonl").write_text("journal\n")
    (home / ".git/config").write_text("[core]\n")
    (home / "skills/tea/SKILL.md").write_text("tea\n")
    other = tmp_path / "workspaces" / "bob"
    other.mkdir()
    (other / "AGENTS.md").write_text("Bob\n")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "secrets").write_text("KEY=hush\n")
    return home


def sandbox(home: Path, **more: object) -> Sandbox:
    hidden = (home.parent, home.parent.parent / "state")
    return Sandbox(home, hidden=hidden, **more)  # type: ignore[arg-type]


async def sh(box: Sandbox, script: str, seconds: float = 20) -> Ran | TimedOut:
    ran = await box.run(["sh", "-c", script], seconds=seconds)
    assert isinstance(ran, Ran | TimedOut), ran
    return ran


@pytest.mark.parametrize(
    "script",
    [
        "echo x >> ../AGENTS.md",
        "echo x > ../KNOWLEDGE.md",
        "rm ../AGENTS.md",
        "mkdir ../subagents",
        "echo x > ../skills/tea/SKILL.md",
        "mv ../skills ../work/",
        "ln -s /etc ../skills/link",
        "touch ../../bob/AGENTS.md",
    ],
)
async def test_p7_nothing_in_the_home_but_work_can_be_changed(home: Path, script: str) -> None:
    before = snapshot(home.parent)
    ran = await sh(sandbox(home), script)
    assert isinstance(ran, Ran)
    assert ran.status != 0, ran.output
    assert snapshot(home.parent) == before


@pytest.mark.parametrize(
    "script", ["cat ../agents/main/sessions/*", "cat ../.git/config", "cat ../../bob/AGENTS.md", "cat ../../../state/*"]
)
async def test_p7_journals_git_other_homes_and_the_state_directory_are_not_there(home: Path, script: str) -> None:
    ran = await sh(sandbox(home), script)
    assert isinstance(ran, Ran)
    assert ran.status != 0
    assert not {"journal", "core", "Bob", "hush"} & set(ran.output.split())


async def test_work_is_writable_and_the_rest_of_the_home_readable(home: Path) -> None:
    ran = await sh(sandbox(home), "cat ../AGENTS.md > copy.txt && cat copy.txt")
    assert ran == Ran(0, "Ada\n")
    assert (home / "work/copy.txt").read_text() == "Ada\n"


async def test_p6_the_environment_holds_only_what_is_granted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "hush-hush")
    ran = await sh(sandbox(home, environment={"GREETING": "hello"}), "env")
    assert isinstance(ran, Ran)
    assert "hush-hush" not in ran.output
    assert "GREETING=hello" in ran.output


async def test_there_is_no_network_unless_it_is_granted(home: Path) -> None:
    ran = await sh(sandbox(home), "cat /proc/net/dev | tail -n +3 | grep -v '^ *lo:' | wc -l")
    assert ran == Ran(0, "0\n")


@pytest.mark.parametrize("hide", ["", "setsid ", "trap '' TERM; "])
async def test_f5_a_timeout_ends_the_whole_tree(home: Path, hide: str) -> None:
    """A grandchild that hides in a session of its own, ignores TERM and holds the output."""
    mark = f"sandbox-{os.getpid()}-{time.monotonic_ns()}"
    began = time.monotonic()
    ran = await sh(sandbox(home), f"({hide}exec -a {mark} sleep 300) & echo begun; sleep 300", seconds=0.5)
    assert isinstance(ran, TimedOut)
    assert time.monotonic() - began < 10
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if mark.encode() in command]


async def test_endless_output_is_bounded(home: Path) -> None:
    ran = await sh(sandbox(home), "head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    assert isinstance(ran, Ran)
    assert len(ran.output) <= 64_000
    assert ran.output.endswith("end\n")


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, but those of `work/`."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "work" not in path.parts)
    return {str(path): path.read_bytes() for path in files}
