"""Does the demo show the main job with no key and no network, and leave nothing behind?"""

import json
from pathlib import Path

from tests.cli.command_line import harnessd, start


def test_the_demo_shows_the_change_and_what_was_learned() -> None:
    said = harnessd("demo")
    assert said.code == 0
    assert said.err == ""
    before, after = said.out.split("You edit AGENTS.md")
    assert "Ahoy" not in before
    assert "ada › Ahoy!" in after
    assert "Remember: my tea is black" in after
    assert "Add skill brew-tea" in after
    assert "commit " in after
    assert "Harness-Run: run_" in after
    assert "harnessd init ada" in after
    learnt, unlearnt = after.split("git revert", 1)
    assert "black, without sugar" in learnt
    assert "black, without sugar" not in unlearnt
    assert max(len(line) for line in said.out.splitlines()) <= 100


def test_nothing_stays_and_no_setting_of_the_machine_matters(tmp_path: Path, isolated_home: Path) -> None:
    process = start("demo", env={"TMPDIR": str(tmp_path), "HARNESSD_MODEL": "anthropic/none"})
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert list(isolated_home.iterdir()) == []


def test_the_home_can_be_kept_and_lived_in(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    assert harnessd("demo", "--keep", home).code == 0
    assert "Ahoy!" in harnessd("run", home, "say hi").out
    assert len(harnessd("sessions", home, "--json").records) == 6
    assert harnessd("demo", "--keep", home).code == 2


def test_json_is_one_object_a_line() -> None:
    said = harnessd("demo", "--json")
    assert said.code == 0
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines[-1]["ok"] is True
    assert next(one["title"] for one in lines if "act" in one) == "A home"
