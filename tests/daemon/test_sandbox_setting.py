"""The operator's setting `sandbox`: what it may say, and what is told of what it may not."""

import shutil
from pathlib import Path

import pytest

from harnessd.daemon.config import Settings, load_settings
from harnessd.errors import UsageError
from harnessd.models.script import Answer
from harnessd.sandbox.outcome import Limits
from tests.daemon.living import call, living, results


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/harnessd.yaml").write_text(text)
    places = {"HARNESSD_STATE": str(tmp_path / "state"), "HARNESSD_WORKSPACES": str(tmp_path / "workspaces")}
    return load_settings(env={**places, "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "kind", "limits"),
    [
        ("", "bubblewrap", Limits()),
        ("sandbox: bubblewrap", "bubblewrap", Limits()),
        ("sandbox: none", "none", Limits()),
        ("sandbox: {kind: none}", "none", Limits()),
        (
            "sandbox: {memory: 1GiB, processes: 100, fileSize: 1000000}",
            "bubblewrap",
            Limits(memory=1024**3, processes=100, file_size=1_000_000),
        ),
        ("sandbox: {memory: 2000000000}", "bubblewrap", Limits(memory=2_000_000_000)),
    ],
)
def test_what_the_operator_may_say(tmp_path: Path, text: str, kind: str, limits: Limits) -> None:
    found = settings(tmp_path, text).sandbox
    assert (found.kind, found.limits) == (kind, limits)


def test_readable_folders_are_absolute(tmp_path: Path) -> None:
    assert settings(tmp_path, "sandbox: {readable: [/opt/tools]}").sandbox.readable == (Path("/opt/tools"),)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("sandbox: docker", "sandbox.kind"),
        ("sandbox: {kind: off}", "sandbox.kind"),
        ("sandbox: {memory: much}", "sandbox.memory"),
        ("sandbox: {memory: 1000}", "sandbox.memory"),
        ("sandbox: {processes: 1}", "sandbox.processes"),
        ("sandbox: {fileSize: 0}", "sandbox.fileSize"),
        ("sandbox: {readable: [tools]}", "sandbox.readable"),
        ("sandbox: {readable: ~/tools}", "sandbox.readable"),
        ("sandbox: {netwrok: true}", "sandbox.netwrok"),
        ("sandbox: [none]", "sandbox"),
        ("sandbox: ~", "sandbox"),
    ],
)
def test_what_it_may_not_say_is_named(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(UsageError) as told:
        settings(tmp_path, text)
    assert f"harnessd.yaml: {field}" in str(told.value.where)


AGENTS = "---\nmode: bypassPermissions\n---\n# Ada\n"
FREE: dict[str, object] = {"rules": {"allow": ["execute"]}, "ceiling": {"mode": "bypassPermissions"}}


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_p7_a_command_reads_its_own_sessions_results_and_nothing_else_of_it(tmp_path: Path) -> None:
    script = [
        call("execute", command="seq 60000"),
        call(
            "execute", command="ls ../agents/main ../agents/main/sessions; cat ../agents/main/evicted/*/* | tail -n 1"
        ),
        Answer("done"),
    ]
    async with living(tmp_path, script, settings=FREE, **{"AGENTS.md": AGENTS}) as one:
        _, state = await one.say("go")
        told = results(state)[1][1]
        assert "60000" in told
        assert "No such file" in told
        assert "context" not in told
        assert "jsonl" not in told


async def test_without_a_sandbox_commands_run_as_the_operator_chose(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside\n")
    script = [call("execute", command=f"cat {tmp_path}/outside; ulimit -n; pwd"), Answer("done")]
    chosen = {**FREE, "sandbox": {"kind": "none"}}
    async with living(tmp_path, script, settings=chosen, **{"AGENTS.md": AGENTS}) as one:
        _, state = await one.say("go")
        assert results(state) == [("ok", f"outside\n4096\n{one.home.path}/work")]
