"""M1: a hostile MCP server beside a good one costs a call at most its timeout, and loses only its own tools."""

import gc
import time
from pathlib import Path

import anyio
import pytest

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.tools.tool import Outcome
from tests.tools.a_session import text
from tests.tools.mcp_servers import call, hostile, servers_of, tool

SECONDS = 2.0
MEMORY = 50 * 1024 * 1024

LISTS: dict[str, str | None] = {
    "well": None,
    "garbage": None,
    "flood": None,
    "duplicates": "two tools are named 'echo'",
    "no schema": "'odd' is left out",
    "schema is null": "'odd' is left out",
    "array schema": "'odd' is left out",
    "bad schema": "'odd' is left out",
    "deep schema": "'odd' is left out",
    "schema bomb": "'odd' is left out",
    "schema loop": "'odd' is left out",
    "schema elsewhere": "'odd' is left out",
    "huge schema": "'odd' is left out",
    "hidden in schema": "'odd' is left out",
    "description is no text": "'odd' is left out",
    "bad output schema": None,
    "odd annotations": None,
    "entries are no tools": "entry 1 of its list is left out",
    "long description": None,
    "endless pages": "two tools are named 'echo'",
}
"""What the server lists → what is said of it. The tool `echo` can be used all the same."""


async def test_m1_what_can_be_used_of_hostile_servers_is_used(tmp_path: Path) -> None:
    async with servers_of(tmp_path, good=hostile("well"), **{how: hostile(how) for how in LISTS}) as servers:
        notes = dict(reversed(servers.notes()))  # of each its first one
        assert notes.keys() == {how for how, said in LISTS.items() if said is not None}
        for how, said in LISTS.items():
            assert said is None or said in notes[how], (how, notes[how])
            (echo,) = [one for one in servers.tools() if one.server == how]
            assert echo.own_name == "echo"
            assert len(echo.description) < 5000
            assert text(await call(echo)).startswith("pid "), how
        assert text(await call(tool(servers, "mcp__good__echo"))).startswith("pid ")


STARTS = {
    "hangs": "timeout",
    "dies at once": "disconnected",
    "list is no list": "not_mcp",
    "answers with another version": "refused",
}
"""How it starts → why it failed."""


async def test_m1_servers_that_never_connect_cost_only_themselves(tmp_path: Path) -> None:
    bad = {how: hostile(how, SECONDS) for how in STARTS}
    async with servers_of(tmp_path, good=hostile("well"), **bad) as servers:
        assert [one.name for one in servers.tools()] == ["mcp__good__echo"]
        told = servers.status()
        assert isinstance(told.pop("good"), McpConnected)
        assert {how: one.failure.kind for how, one in told.items() if isinstance(one, McpFailed)} == STARTS
        assert text(await call(tool(servers, "echo"))).startswith("pid ")


CALLS: dict[str, tuple[str, ...]] = {
    "never answers": ("timeout",),
    "content is no list": ("not_mcp",),
    "says error": ("tool_error",),
    "crashes": ("disconnected",),
    "closes its output": ("disconnected", "timeout"),
    "a gigabyte": ("refused",),
    "a gigabyte without end": ("timeout",),
    "empty lists": ("refused",),
    "drips": ("timeout",),
    "wrong ids": ("timeout",),
    "notification flood": ("timeout", "disconnected"),
    "log flood": ("timeout", "disconnected"),
    "request flood": ("timeout", "disconnected"),
    "progress flood": ("timeout", "disconnected"),
}
"""What a call of it does → how that call may fail."""


SAMPLE = {"a gigabyte", "crashes", "empty lists", "progress flood"}


@pytest.mark.parametrize(
    "how", [how if how in SAMPLE else pytest.param(how, marks=pytest.mark.matrix) for how in CALLS]
)
async def test_m1_a_call_costs_at_most_its_timeout_and_the_good_one_is_unaffected(tmp_path: Path, how: str) -> None:
    seconds = SECONDS + (4 if how in {"a gigabyte", "empty lists"} else 0)
    done: list[tuple[Outcome, float]] = []
    async with servers_of(tmp_path, bad=hostile(how, seconds), good=hostile("well")) as servers:
        bad, good = tool(servers, "mcp__bad__echo"), tool(servers, "mcp__good__echo")
        gc.collect()
        memory = resident_bytes()

        async def misuse() -> None:
            began = time.monotonic()
            outcome = await call(bad)
            done.append((outcome, time.monotonic() - began))

        slowest = 0.0
        async with anyio.create_task_group() as group:
            group.start_soon(misuse)
            while not done:
                began = time.monotonic()
                assert text(await call(good)).startswith("pid ")
                slowest = max(slowest, time.monotonic() - began)
                await anyio.sleep(0.02)
        outcome, took = done[0]
        assert outcome.failure is not None
        assert outcome.failure.kind in CALLS[how], outcome
        assert took < seconds + 1
        assert slowest < 1.0
        assert resident_bytes() - memory < MEMORY
        assert text(await call(good)).startswith("pid ")


@pytest.mark.matrix
async def test_m1_a_whole_gigabyte(tmp_path: Path) -> None:
    server = hostile("a gigabyte", 60).model_copy(update={"env": {"SIZE": str(1024**3)}})
    async with servers_of(tmp_path, bad=server) as servers:
        memory = resident_bytes()
        outcome = await call(tool(servers, "echo"))
        assert "too large" in text(outcome)
        assert resident_bytes() - memory < MEMORY


async def test_m1_a_server_that_dies_again_and_again_is_started_ever_more_rarely(tmp_path: Path) -> None:
    server = hostile("dies at once")
    async with servers_of(tmp_path, bad=server) as servers:
        for _ in range(40):
            servers.configure({"bad": server})
            await servers.ready(5)
        starts = (tmp_path / "logs/bad.log").read_text().count("cannot find my settings")
        assert 1 <= starts <= 3
        servers.reconnect()
        with anyio.fail_after(10):
            while (tmp_path / "logs/bad.log").read_text().count("cannot find my settings") == starts:
                await anyio.sleep(0.02)


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024
