"""O2: whatever ends the daemon, no command that it began outlives it, in a sandbox or in none, and no control group."""

import shutil
import signal
from pathlib import Path

import anyio
import pytest

from harnessd.models.script import Answer, Call, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings
from tests.life.daemons import Daemon, daemon
from tests.life.test_life_serve import SCRIPTED, operator

FREE = "---\nmode: bypassPermissions\n---\n# Ada\n"
HIDES = """setsid sh -c 'trap "" TERM; mktemp up-XXXXXX; sleep 600' & wait"""
SESSIONS = 20
WITH_JOBS = 8


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "sandbox",
    [
        pytest.param("bubblewrap", marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")),
        "none",
    ],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_o2_no_job_outlives_the_daemon(tmp_path: Path, number: signal.Signals, sandbox: str) -> None:
    def script(request: Request) -> Answer:
        last = request.body["messages"][-1]
        if last["role"] == "user" and "job" in str(last["content"]):
            return Answer(calls=(Call("execute", {"command": HIDES, "background": True}),))
        return Answer("done")

    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings, **{"AGENTS.md": FREE})
        operator(settings, graceSeconds=2, sandbox=sandbox, ceiling={"mode": "bypassPermissions"})
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as one:
            await one.hears()
            pid = one.pid
            async with anyio.create_task_group() as tasks:
                for at in range(SESSIONS):
                    tasks.start_soon(_say, one, "a job" if at < WITH_JOBS else "nothing")
            with anyio.fail_after(40):
                while len(list((home.path / "work").glob("up-*"))) < WITH_JOBS:
                    await anyio.sleep(0.02)
            assert await one.stops(number) == (0 if number == signal.SIGTERM else -signal.SIGKILL % 256)
        assert one.outlived == []
        assert list(Path("/sys/fs/cgroup").rglob(f"harnessd-{pid}-*")) == []


async def _say(one: Daemon, text: str) -> None:
    await one.says(text)
