"""Does `doctor` name what is missing, with a fix, and no secret?"""

import os
from pathlib import Path

import pytest

from harnessd.cli.doctor import examine
from harnessd.daemon.config import Settings, load_settings
from tests.cli.command_line import harnessd, make, write


def checks(env: dict[str, str] | None = None, **flags: object) -> dict[str, tuple[str, str, str]]:
    found = examine(load_settings(flags), {**os.environ, **(env or {})})
    return {one.name: (one.status, one.detail, one.fix) for one in found}


def test_this_machine_is_ready() -> None:
    said = harnessd("doctor", "--json")
    assert said.code == 0
    assert {one["name"] for one in said.records} >= {"python", "git", "workspaces", "state", "sandbox", "keys", "model"}
    assert all(one["fix"] for one in said.records if one["status"] == "missing")
    assert "ready" in harnessd("doctor").out


def test_without_git_it_says_so_and_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert checks({"PATH": str(tmp_path)})["git"][0] == "missing"
    monkeypatch.setenv("PATH", str(tmp_path))
    said = harnessd("doctor")
    assert said.code == 5
    assert "install git" in said.out


def test_keys_are_named_and_never_shown() -> None:
    found = checks({"ANTHROPIC_API_KEY": "sk-ant-canary", "OPENAI_API_KEY": "sk-canary"})
    assert found["keys"][1] == "ANTHROPIC_API_KEY, OPENAI_API_KEY"
    assert found["model"][:2] == ("ok", "auto is anthropic/claude-sonnet-4-5")
    assert "canary" not in str(found)


def test_a_model_that_cannot_answer_is_a_warning_with_the_fix() -> None:
    status, detail, fix = checks(model="openai/x")["model"]
    assert status == "warning"
    assert "OPENAI_API_KEY" in detail + fix


def test_a_folder_that_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    settings = Settings(workspaces=tmp_path / "file", state_dir=tmp_path / "file" / "state")
    found = {one.name: one.status for one in examine(settings, os.environ)}
    assert (found["workspaces"], found["state"]) == ("missing", "missing")


def test_servers_whose_command_is_not_there_are_named() -> None:
    home = make()
    write(home, "tools_json", '{"mcpServers": {"a": {"command": "no-such-program"}, "b": {"command": "sh"}}}')
    said = harnessd("doctor", "--json")
    assert said.code == 0
    [warned] = [one for one in said.records if "no-such-program" in one["detail"]]
    assert warned["status"] == "warning"
    assert str(home / "tools.json") in warned["fix"]


def test_secrets_that_others_may_read(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("A=canary\n")
    (tmp_path / "secrets").chmod(0o644)
    status, detail, fix = checks(state_dir=tmp_path)["secrets"]
    assert status == "missing"
    assert "chmod 600" in fix
    assert "canary" not in detail
