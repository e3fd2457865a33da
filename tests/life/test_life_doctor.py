"""Does `harnessd doctor` say what is wrong with the daemon, and how it is mended?"""

import os
from pathlib import Path

import pytest

from harnessd import __version__
from harnessd.cli.doctor import Check, examine
from harnessd.daemon.config import NotifyCommand, Settings
from harnessd.daemon.starts import begin
from harnessd.daemon.token import make_token
from harnessd.daemon.whereabouts import Whereabouts, write_whereabouts

NAMES = {"daemon", "token", "starts", "notify"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "state").mkdir()
    return Settings(workspaces=tmp_path / "homes", state_dir=tmp_path / "state", model="offline")


def about(settings: Settings) -> dict[str, Check]:
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return {check.name: check for check in examine(settings, env) if check.name in NAMES}


def running(settings: Settings, **more: object) -> None:
    told = {"pid": os.getpid(), "port": 7, "version": __version__, "workspaces": str(settings.workspaces), **more}
    write_whereabouts(settings.state_dir, Whereabouts.model_validate(told))


def test_all_is_well(settings: Settings) -> None:
    assert {name: check.status for name, check in about(settings).items()} == {"daemon": "ok"}
    make_token(settings.state_dir, {})
    running(settings)
    found = about(settings)
    assert {name: check.status for name, check in found.items()} == {"daemon": "ok"}
    assert f"process {os.getpid()}" in found["daemon"].detail


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"safe_mode": "the last 3 starts ended early"}, "safe mode: the last 3 starts"),
        ({"workspaces": "/elsewhere"}, "/elsewhere"),
        ({"version": "0.0.1"}, "0.0.1"),
    ],
)
def test_an_odd_daemon_is_told(settings: Settings, odd: dict[str, object], said: str) -> None:
    running(settings, **odd)
    found = about(settings)["daemon"]
    assert found.status == "warning"
    assert said in found.detail
    assert found.fix


def test_o2_failed_starts_are_told(settings: Settings) -> None:
    for failed in (1, 2, 3):
        begin(settings.state_dir, f"time {failed}")
        found = about(settings)["starts"]
        assert f"the last {failed} start(s)" in found.detail
        assert ("safe mode" in found.detail) == (failed == 3)


def test_p5_a_token_that_others_read_is_told_and_not_shown(settings: Settings) -> None:
    token = make_token(settings.state_dir, {})
    (settings.state_dir / "token").chmod(0o644)
    found = about(settings)
    assert found["token"].status == "missing"
    assert "chmod 600" in found["token"].fix
    assert token not in str(found)


def test_a_notifier_that_is_missing_is_told(settings: Settings) -> None:
    notify = (NotifyCommand(command=("no-such-program", "x")), NotifyCommand(command=("sh",)))
    found = about(settings.model_copy(update={"notify": notify}))["notify"]
    assert "no-such-program" in found.detail
