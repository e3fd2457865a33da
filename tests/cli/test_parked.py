"""Can a person see what was interrupted, and let it go on?"""

import json
import subprocess
from pathlib import Path

import anyio
import pytest

from harnessd.models.script import Answer, Silence
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import Said, harnessd, make, start
from tests.cli.daemon import serving


async def interrupted(server: ScriptedServer) -> str:
    """A run whose process is killed while the model thinks; its id."""
    process = start("run", "ada", "hello", "--json")
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or "turn.started" not in lines[-1]:
        lines.append(await anyio.to_thread.run_sync(process.stdout.readline))
    await server.arrived.wait()
    process.kill()
    await anyio.to_thread.run_sync(process.communicate)
    return str(json.loads(lines[-1])["runId"])


async def say(*args: str) -> Said:
    process = start(*args, stdin=subprocess.DEVNULL)
    out, err = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=60))
    return Said(process.returncode, out, err)


@pytest.mark.parametrize(
    ("served", "word"),
    [(False, "unfinished"), (True, "parked"),
     pytest.param(False, "parked", marks=pytest.mark.matrix),
     pytest.param(True, "unfinished", marks=pytest.mark.matrix)],
)  # fmt: skip
async def test_f10_a_run_that_was_interrupted_goes_on_by_its_id(
    word: str, served: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspaces, state_dir = tmp_path / "workspaces", tmp_path / "state"
    state_dir.mkdir()
    monkeypatch.setenv("HARNESSD_WORKSPACES", str(workspaces))
    monkeypatch.setenv("HARNESSD_STATE", str(state_dir))
    make()
    within = 0 if word == "parked" else 3600
    (state_dir / "harnessd.yaml").write_text(f"resumeWithin: {within}\nmodel: openai/scripted\n")
    async with ScriptedServer([Silence(), Answer("here I am")]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        if not served:
            run_id = await interrupted(server)
            assert harnessd("ps", "--json").records[0]["status"] == "unfinished"
            said = harnessd("ps").out
            assert f"harnessd approve ada {run_id}" in said
            await goes_on(run_id)
        elif word == "parked":
            run_id = await interrupted(server)
            with serving(tmp_path) as daemon:
                [parked] = daemon.ready["parked"]
                [shown] = harnessd("ps", "--json").records
                assert (shown["sessionId"], shown["status"], shown["runId"]) == (parked, "parked", run_id)
                assert f"it goes on with: harnessd approve ada {run_id}" in harnessd("approve").out
                await goes_on(run_id)
        else:
            monkeypatch.setenv("HARNESSD_STATE", str(tmp_path / "other"))
            monkeypatch.setenv("HARNESSD_MODEL", "openai/scripted")
            with serving(tmp_path):
                run_id = await interrupted(server)
                monkeypatch.setenv("HARNESSD_STATE", str(state_dir))
                await goes_on(run_id)
        assert harnessd("ps", "--json").out == ""


async def goes_on(run_id: str) -> None:
    said = await say("approve", "ada", run_id)
    assert said.code == 0, said
    assert said.out == "here I am\n"
    late = await say("approve", "ada", run_id)
    assert late.code == 5, late
    assert "not parked" in late.err


def test_a_run_takes_no_scope_or_arguments() -> None:
    make()
    for option in (["--scope", "session"], ["--note", "x"], ["--argument", "a=1"], ["--arguments", "{}"]):
        said = harnessd("approve", "ada", "run_1", *option)
        assert said.code == 2
        assert "leave the options out" in said.err
