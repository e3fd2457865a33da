"""Does the probe say what does not hold on a machine, and what would mend it?"""

import shutil
from pathlib import Path
from shlex import quote

import pytest

from harnessd.sandbox.gate import landlock_version
from harnessd.sandbox.outcome import Limits
from harnessd.sandbox.probe import probe


def found(**more: object) -> dict[str, tuple[str, str, str]]:
    return {one.name: (one.status, one.detail, one.fix) for one in probe(Limits(), **more)}  # type: ignore[arg-type]


def fake(folder: Path, said: str) -> str:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\necho {quote('bwrap: ' + said)} >&2; exit 1\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sandbox_is_really_started() -> None:
    said = found()
    assert said["sandbox"][0] == "ok"
    assert (said["landlock"][0] == "ok") == (landlock_version() >= 6)
    assert "4 GB of memory" in said["limits"][1]
    assert (said["limits"][0] == "ok") == (said["limits"][2] == "")


SWITCHES = [
    ("kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0\n", "user.max_user_namespaces="),
    ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor"),
]


@pytest.mark.parametrize(("name", "value", "fix"), SWITCHES)
def test_the_switch_that_stops_it_is_named(tmp_path: Path, name: str, value: str, fix: str) -> None:
    for one, _, _ in SWITCHES:
        (tmp_path / one).parent.mkdir(exist_ok=True)
        (tmp_path / one).write_text("0\n" if "apparmor" in one else "1\n")
    (tmp_path / name).write_text(value)
    said = found(program=fake(tmp_path, "No permissions to create a new namespace"), switches=tmp_path)["sandbox"]
    assert said[0] == "warning"
    assert "No permissions" in said[1]
    assert fix in said[2]


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("Can't mount proc on /newroot/proc: Operation not permitted", "systempaths"),
        ("Creating new namespace failed: Operation not permitted", "RestrictNamespaces"),
    ],
)
def test_a_container_or_unit_that_stops_it_is_named(tmp_path: Path, said: str, fix: str) -> None:
    assert fix in found(program=fake(tmp_path, said), switches=tmp_path)["sandbox"][2]


def test_without_a_sandbox_by_the_operators_choice_it_says_what_that_means() -> None:
    said = found(confined=False)
    assert said["sandbox"][0] == "warning"
    assert "operator" in said["sandbox"][1]
    assert "per process" in said["limits"][1]
