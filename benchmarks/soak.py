"""Does harnessd hold under load: many sessions at once, many runs, many homes, long idling, stops in the middle?

`python -m benchmarks.soak [--json] [--quick]`. Whether something piles up is seen from a tenth of the runs on, when the
process is warm.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.homes import make_home
from benchmarks.server import ModelServer, model_server
from benchmarks.turns import Driver, Row, table

LATENCY = 0.05
TOOL_TURNS = 5


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    sessions: int = 200
    repeats: int = 3
    runs: int = 10_000
    homes: int = 1000
    idle: int = 100
    streams: int = 50


QUICK = Size(sessions=40, repeats=1, runs=200, homes=20, idle=10, streams=10)


def main() -> int:
    """Prints the table; exit code 1 if a value is worse than wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="What harnessd does under load.")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--quick", action="store_true", help="less of everything; no figure to rely on")
    parser.add_argument("--folder", help="where the homes lie, and so which disk is synced")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="harnessd-soak-", dir=options.folder) as folder:
        rows = measure(Path(folder), QUICK if options.quick else Size())
    print(json.dumps([asdict(row) for row in rows], indent=2) if options.json else table(rows))
    return int(any(row.missed for row in rows))


def measure(folder: Path, size: Size) -> list[Row]:
    """Every row of the table."""
    home = make_home(folder / "homes" / "main")
    many = make_home(folder / "many", notes=1)
    for number in range(size.homes):
        shutil.copytree(many, folder / "homes" / f"many-{number:04}")
    with model_server(latency=LATENCY) as slow, model_server() as quick:
        soak = Soak(folder, home, size, slow, quick)
        return [*soak.crowd(), *soak.runs(), *soak.homes(), *soak.idle(), *soak.stops()]


@dataclass(frozen=True)
class Soak:
    """The questions, each to a fresh process; `slow` is a model with latency, `quick` one without."""

    folder: Path
    home: Path
    size: Size
    slow: ModelServer
    quick: ModelServer

    def crowd(self) -> list[Row]:
        """All sessions at once, beside the bare loop; the best of some tries, each next to the other's."""
        turns = TOOL_TURNS + 1
        size = f"{self.size.sessions}x{turns}"
        tries = [
            (self._ask(self.slow, "bare", size), self._ask(self.slow, "crowd", size)) for _ in range(self.size.repeats)
        ]
        bare, full = min((one for one, _ in tries), key=_wall), min((one for _, one in tries), key=_wall)
        name = f"{self.size.sessions} sessions of {TOOL_TURNS} tool turns"
        return [
            Row(f"{name}: ideal", turns * LATENCY, "s"),
            Row("bare loop: wall time", bare["wall"], "s"),
            Row("harnessd: wall time", full["wall"], "s"),
            Row("bare loop: turns in a second", bare["rate"], "1/s"),
            Row("harnessd: turns in a second", full["rate"], "1/s", 600, at_least=True),
            Row("harnessd / bare loop", full["rate"] / bare["rate"], "x", 1 / 3, at_least=True),
            Row("bare loop: processor time of a turn", bare["cpu_ms"], "ms"),
            Row("harnessd: processor time of a turn", full["cpu_ms"], "ms"),
        ]

    def runs(self) -> list[Row]:
        """What piles up over many runs."""
        answer = self._ask(self.quick, "runs", self.size.runs)
        early, late, after = (answer[name] for name in ("early", "late", "after"))
        return [
            Row(f"{self.size.runs} runs: in a second", answer["rate"], "1/s"),
            Row("processor time of a run", answer["cpu_ms"], "ms"),
            Row("memory at a tenth", early["mb"], "MB"),
            Row("memory at the end / at a tenth", late["mb"] / early["mb"], "x", 1.1),
            Row("open files at the end beyond a tenth", late["fds"] - early["fds"], "", 20),
            Row("open files once all is let go", after["fds"], ""),
            Row("threads at the end beyond a tenth", late["threads"] - early["threads"], "", 8),
        ]

    def homes(self) -> list[Row]:
        """Many homes under one process."""
        answer = self._ask(self.quick, "homes", self.size.homes)
        return [
            Row(f"{answer['homes']:.0f} homes: to list them", answer["list_ms"], "ms"),
            Row("first run in a home", answer["first_ms"], "ms"),
            Row("second run in a home", answer["second_ms"], "ms"),
            Row("memory for a home", answer["kb"], "kB"),
            Row("open files for a home", answer["fds"], ""),
            Row("more threads for all of them", answer["threads"], "", 8),
        ]

    def idle(self) -> list[Row]:
        """Many sessions that are open and do nothing."""
        answer = self._ask(self.quick, "idle", self.size.idle)
        before, held, later, after = (answer[name] for name in ("before", "held", "later", "after"))
        return [
            Row(f"{self.size.idle} idle sessions: processor time in a second", answer["cpu_ms_a_second"], "ms", 10),
            Row("memory for each", (held["mb"] - before["mb"]) * 1000 / self.size.idle, "kB"),
            Row("open files for each", (held["fds"] - before["fds"]) / self.size.idle, ""),
            Row("memory that idling adds", later["mb"] - held["mb"], "MB", 1),
            Row("open files that stay when they are let go", after["fds"] - before["fds"], "", 4),
        ]

    def stops(self) -> list[Row]:
        """How fast a stop is acknowledged, and how fast the run ends."""
        answer = self._ask(self.quick, "stops", self.size.streams)
        told, ended = answer["told"], answer["ended"]
        return [
            Row(f"{self.size.streams} streams: stop acknowledged, median", _at(told, 0.5), "ms"),
            Row("stop acknowledged, 99 of 100", _at(told, 0.99), "ms", 100),
            Row("stop to the end of the run, 99 of 100", _at(ended, 0.99), "ms"),
        ]

    def _ask(self, server: ModelServer, question: str, argument: int | str) -> dict[str, Any]:
        return Driver(server, self.folder / "state", "benchmarks.crowd").ask(question, self.home, argument)


def _wall(answer: dict[str, Any]) -> float:
    seconds: float = answer["wall"]
    return seconds


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    sys.exit(main())
