"""F5, O2: whatever ends `harnessd run`, no process of it outlives it: no MCP server, no worker."""

import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.abc import Process

from harnessd.models.script import Silence
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import make, write
from tests.e2e.lanes import DIRECT, LANES, PATIENCE_S, WORKER, Lane, descendants, harnessd, of_type, starting

TOOLS = {"mcpServers": {"time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]}}}


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
ALWAYS = ((DIRECT, signal.SIGINT), (WORKER, signal.SIGKILL))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("lane", "number"),
    [
        pytest.param(lane, one, id=f"{lane.name}-{one.name}", marks=() if (lane, one) in ALWAYS else pytest.mark.matrix)
        for lane in LANES
        for one in SIGNALS
    ],
)
async def test_f5_a_signal_while_the_model_is_silent(lane: Lane, number: signal.Signals) -> None:
    async with ScriptedServer([Silence()]) as server:
        await _interrupted(lane, server, number, lambda _: server.arrived.wait())


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, id="SIGINT"), pytest.param(signal.SIGKILL, id="SIGKILL", marks=pytest.mark.matrix)],
)
async def test_f5_a_signal_while_the_worker_starts(number: signal.Signals) -> None:
    async def worker_started(process: Process) -> None:
        while not any("litellm_worker.py" in one for one in descendants(process.pid).values()):
            await anyio.sleep(0.01)

    async with ScriptedServer([Silence()]) as server:
        await _interrupted(WORKER, server, number, worker_started)
        assert not server.requests


async def _interrupted(
    lane: Lane, server: ScriptedServer, number: signal.Signals, ready: Callable[[Process], Awaitable[object]]
) -> None:
    """Starts a run, sends the signal when it is `ready`; ends as designed, leaves nothing, and the session opens."""
    home = make()
    write(home, "tools_json", json.dumps(TOOLS))
    async with starting("run", "ada", "hi", "--model", lane.model, env=lane.env(server)) as process:
        with anyio.fail_after(PATIENCE_S):
            await ready(process)
            below = descendants(process.pid)
            [command] = [pid for pid, line in below.items() if "-m harnessd run" in line]
            assert any("mcp_server_time" in line for line in below.values())
            os.kill(command, number)
            code = await process.wait()
    assert code == (-signal.SIGKILL % 256 if number == signal.SIGKILL else 130)
    [session] = (await harnessd("sessions", "ada", "--json")).records
    assert session["status"] == ("unfinished" if number == signal.SIGKILL else "stopped")
    shown = await harnessd("show", "ada", "--json")
    endings = [one["reason"] for one in of_type(shown.records, "run.finished")]
    assert endings == ([] if number == signal.SIGKILL else ["stopped"])
