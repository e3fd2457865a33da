"""P7: the second wall alone, with no mounts around it: what the kernel refuses even where a mount was wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harnessd.sandbox.gate import READY, landlock_version
from harnessd.sandbox.outcome import Limits
from harnessd.sandbox.plan import Plan, gate_command
from tests.sandbox.boxes import snapshot

pytestmark = pytest.mark.skipif(landlock_version() == 0, reason="this kernel has no Landlock")


def behind_the_wall(home: Path, script: str, *, writable: tuple[tuple[str, bool], ...] | None) -> list[str]:
    plan = Plan(("/bin/sh", "-c", script), {"PATH": os.environ["PATH"]}, Limits(), writable, confined=True)
    ran = subprocess.run(
        gate_command(), input=plan.message(), stdout=-1, stderr=-2, timeout=20, cwd=home / "work", check=False
    )
    assert ran.stdout[:1] == READY, ran.stdout
    return ran.stdout[1:].decode().splitlines()


ACTS = [
    "echo x >> ../AGENTS.md",
    "echo x > ../AGENTS.md",
    "truncate -s 0 ../AGENTS.md",
    "echo x > ../new",
    "mkdir ../newdir",
    "ln -s /etc ../newlink",
    "mkfifo ../newpipe",
    "rm ../AGENTS.md",
    "rm -r ../skills",
    "mv ../AGENTS.md taken",
    "mv ../skills ../other",
    "ln ../AGENTS.md hard && echo x > hard",
    "ln -s ../AGENTS.md soft; echo x > soft",
    "echo x > mine; mv mine ../AGENTS.md",
    "mount -t tmpfs none ..",
    "mount --bind work ..",
]


@pytest.mark.parametrize("act", ACTS)
def test_p7_the_wall_alone_holds(home: Path, act: str) -> None:
    before = snapshot(home)
    said = behind_the_wall(home, f"({act}) 2>/dev/null && echo DONE; echo y > f; cat f", writable=writable(home))
    assert snapshot(home) == before
    assert said == ["y"]


def test_p7_a_place_for_files_only_takes_no_new_ones(home: Path) -> None:
    """As /dev is: what is there can be written to."""
    (home / "work/there").write_text("")
    said = behind_the_wall(home, "echo x > there; echo x > new; cat there", writable=((str(home / "work"), False),))
    assert said[-1] == "x"
    assert not (home / "work/new").exists()


@pytest.mark.skipif(landlock_version() < 6, reason="this kernel keeps no signals apart")
@pytest.mark.parametrize("files", [True, False])
def test_p7_nothing_outside_the_wall_can_be_signalled_or_traced(home: Path, files: bool) -> None:
    traced = "import ctypes, sys; print(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None))"
    with subprocess.Popen(["sleep", "60"]) as outside:
        script = f"kill -9 {outside.pid} 2>/dev/null || echo refused; {sys.executable} -c '{traced}' {outside.pid}"
        assert behind_the_wall(home, script, writable=writable(home) if files else None) == ["refused", "-1"]
        assert outside.poll() is None
        outside.kill()


def test_without_its_plan_the_gate_begins_nothing() -> None:
    for sent in (b"", b"0000", b"00000010abc"):
        ran = subprocess.run(gate_command(), input=sent, capture_output=True, timeout=20, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, b"", b"")


def writable(home: Path) -> tuple[tuple[str, bool], ...]:
    return ((str(home / "work"), True), ("/dev", False))
