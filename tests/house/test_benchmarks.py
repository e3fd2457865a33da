"""Do the benchmarks still run? What they measure is for people to read, not for a test to judge."""

import asyncio
from pathlib import Path

import pytest

from benchmarks import tools
from benchmarks.bare import run_bare
from benchmarks.homes import make_home
from benchmarks.server import Kind, model_server
from benchmarks.soak import Size, measure
from benchmarks.turns import Driver, Row, table

TURNS = 5


@pytest.mark.parametrize("kind", ["lean", "scripted"])
def test_the_bare_loop_takes_as_many_turns_as_it_is_told(kind: Kind, tmp_path: Path) -> None:
    home = make_home(tmp_path / "bare")
    with model_server(kind) as server:
        assert run_bare(server.port, TURNS, home) == TURNS
        assert len(server.arrivals()) == TURNS
        assert server.arrivals() == []


def test_harnessd_takes_as_many_turns_as_it_is_told(tmp_path: Path) -> None:
    home = make_home(tmp_path / "full", skills=3)
    with model_server() as server:
        Driver(server, tmp_path / "state").ask("turns", home, TURNS)
        assert len(server.arrivals()) == TURNS


def test_the_table_shows_what_was_missed() -> None:
    rows = [
        Row("fast", 1, "ms", 2),
        Row("slow", 3, "ms", 2),
        Row("free", 3, "ms"),
        Row("few", 1, "1/s", 2, at_least=True),
    ]
    assert [("MISSED" in line) for line in table(rows).splitlines()[1:]] == [False, True, False, True]


def test_o1_the_soak_holds_its_bounds_that_do_not_hang_on_speed(tmp_path: Path) -> None:
    size = Size(sessions=4, repeats=1, runs=40, homes=3, idle=3, streams=3)
    missed = {row.name for row in measure(tmp_path, size) if row.missed and row.unit == ""}
    assert not missed


def test_the_cost_of_a_tool_call_is_measured(tmp_path: Path) -> None:
    rows = asyncio.run(tools.measure(tmp_path, tools.Size(rounds=1, calls=10, spawns=1)))
    names = " ".join(row.name for row in rows)
    assert all(word in names for word in ("gate and pipeline", "50 readers", "MCP", "sandbox"))
    assert all(row.value > 0 for row in rows)
    overlap = next(row for row in rows if row.name.startswith("50 readers: one by one"))
    assert overlap.value > 2
