"""P7, P6, F5: what a command in the sandbox can reach, and that nothing of it is left."""

import shutil
import time
from pathlib import Path

import anyio
import pytest

from harnessd.sandbox.bubblewrap import Ran, Sandbox, TimedOut, Unavailable
from tests.sandbox.boxes import CANARY, alive, commands, descriptors, sandbox, sh, sleeper, snapshot

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
pytestmark = needs_bubblewrap


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
    assert CANARY not in ran.output


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


HIDING = ["", "setsid ", "trap '' TERM; ", "trap '' TERM; setsid -f setsid "]


@pytest.mark.parametrize("hide", HIDING)
async def test_f5_a_timeout_ends_the_whole_tree(home: Path, hide: str) -> None:
    """A grandchild that hides in a session of its own, ignores TERM and holds the output."""
    began = time.monotonic()
    ran = await sh(
        sandbox(home), f"({hide}{sleeper(home)}) & echo begun; {hide}{sleeper(home)}; sleep 300", seconds=0.5
    )
    assert ran == TimedOut(0.5, "begun\n")
    assert time.monotonic() - began < 0.5 + 1
    assert not alive(home)


@pytest.mark.parametrize("hide", HIDING)
async def test_f5_what_a_command_leaves_in_the_background_ends_with_it(home: Path, hide: str) -> None:
    assert await sh(sandbox(home), f"({hide}{sleeper(home)}) & echo begun; exit 3") == Ran(3, "begun\n")
    assert not alive(home)


@pytest.mark.parametrize("after", [0.0, 0.001, 0.003, 0.01, 0.03])
async def test_f5_a_stop_at_any_moment_of_the_start_leaves_nothing(home: Path, after: float) -> None:
    with anyio.move_on_after(after) as scope:
        await sandbox(home).run(["sh", "-c", f"{sleeper(home)} & sleep 300"], seconds=60)
    assert scope.cancelled_caught
    assert not alive(home)
    assert not [command for command in commands() if b"bwrap" in command and bytes(home) in command]


async def test_o1_descriptors_are_flat_over_all_ways_to_end(home: Path) -> None:
    async def each_way() -> None:
        for confined in (True, False):
            box = sandbox(home, confined=confined)
            assert await sh(box, "echo x") == Ran(0, "x\n")
            assert isinstance(await sh(box, "sleep 300", seconds=0.05), TimedOut)
            assert isinstance(await box.run(["no-such-program"], seconds=9), Unavailable)
            with anyio.move_on_after(0.002):
                await box.run(["true"], seconds=9)
        assert isinstance(await Sandbox(home, workdirs=(home / "gone",)).run(["true"], seconds=9), Unavailable)

    await each_way()
    before = descriptors()
    for _ in range(5):
        await each_way()
    assert descriptors() == before


async def test_p2_a_folder_that_cannot_be_mounted_is_a_refusal_that_names_it(home: Path) -> None:
    ran = await Sandbox(home, workdirs=(home / "gone",)).run(["true"], seconds=9)
    assert isinstance(ran, Unavailable)
    assert str(home / "gone") in ran.message


async def test_a_program_that_is_not_there_is_named(home: Path) -> None:
    ran = await sandbox(home).run(["no-such-program"], seconds=9)
    assert isinstance(ran, Unavailable)
    assert "no-such-program" in ran.message


@pytest.mark.parametrize("does", ["echo 'bwrap: No permissions to create a new namespace' >&2; exit 1", "exit 1"])
async def test_p2_a_sandbox_that_cannot_be_made_is_a_refusal(home: Path, tmp_path: Path, does: str) -> None:
    """A kernel that allows no namespaces: bubblewrap ends before it has made a first process."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    ran = await Sandbox(home, program=str(program)).run(["true"], seconds=9)
    assert isinstance(ran, Unavailable)
    assert ("No permissions" in ran.message) == ("No permissions" in does)
    assert "doctor" in ran.hint


async def test_endless_output_is_bounded(home: Path) -> None:
    ran = await sh(sandbox(home), "head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    assert isinstance(ran, Ran)
    assert len(ran.output) <= 64_000
    assert ran.output.endswith("end\n")
