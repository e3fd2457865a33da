"""What does a turn cost beside a bare loop, and what do start, many skills, resume and idling cost?

`python -m benchmarks.turns [--json] [--quick]`. Times are medians; a turn is the time from one request's arrival at
the scripted model to the next one's.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare import run_bare
from benchmarks.homes import make_home
from benchmarks.server import ModelServer, model_server

TURNS = 210
EARLY, LATE = slice(14, 24), slice(194, 204)
"""Which gaps between requests count as "the 20th turn" and "the 200th": ten around each."""


@dataclass(frozen=True)
class Row:
    """One line of the table. `wanted` is the most it should be, in the same unit, or the least (`at_least`)."""

    name: str
    value: float
    unit: str
    wanted: float | None = None
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """Whether it is worse than wanted."""
        if self.wanted is None:
            return False
        return self.value < self.wanted if self.at_least else self.value > self.wanted


def main() -> int:
    """Prints the table; exit code 1 if a value is worse than wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description="What a turn costs.")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, a resumed session of 200 turns")
    parser.add_argument("--folder", help="where the homes lie, and so which disk is synced")
    parser.add_argument("--server", choices=["lean", "scripted"], default="lean", help="the model: lean costs least")
    options = parser.parse_args()
    repeats, long, idle = (2, 200, 10) if options.quick else (5, 1000, 50)
    with (
        tempfile.TemporaryDirectory(prefix="harnessd-bench-", dir=options.folder) as folder,
        model_server(options.server) as server,
    ):
        rows = measure(server, Path(folder), repeats=repeats, long=long, idle=idle)
    print(json.dumps([asdict(row) for row in rows], indent=2) if options.json else table(rows))
    return int(any(row.missed for row in rows))


def measure(server: ModelServer, folder: Path, *, repeats: int, long: int, idle: int) -> list[Row]:
    """Every row of the table."""
    # Made first: a file that has only just been written is read again, since its times can't be trusted yet.
    home, skilled = make_home(folder / "plain"), make_home(folder / "skilled", skills=200)
    driver = Driver(server, folder / "state")
    bare: list[Run] = []
    full: list[Run] = []
    for _ in range(repeats):  # one after the other, so that what else the machine does meets both
        bare.append(bare_turns(server, home))
        full.append(driver.turns(home))
    bare_early, bare_late = at(bare, EARLY), at(bare, LATE)
    early, late = at(full, EARLY), at(full, LATE)
    rows = [
        Row("bare loop: turn at 20", bare_early, "ms"),
        Row("bare loop: turn at 200", bare_late, "ms"),
        Row("harnessd: turn at 20", early, "ms"),
        Row("harnessd: turn at 200", late, "ms"),
        Row("turn at 20 / bare loop", early / bare_early, "x", 3.0),
        Row("turn at 200 / bare loop", late / bare_late, "x", 3.0),
        Row("turn at 200 / turn at 20", late / early, "x", 1.5),
        Row("bare loop: processor time of a turn", statistics.median(run.cpu for run in bare), "ms"),
        Row("harnessd: processor time of a turn", statistics.median(run.cpu for run in full), "ms"),
    ]
    rows.append(Row("start to first request", driver.start(home, repeats), "s", 0.7))
    rows.append(Row("200 skills, unchanged: added to a call", driver.added(home, skilled, repeats), "ms", 2.0))
    opened, asked = driver.resumed(home, long)
    rows += [Row(f"resume of {long} turns: open", opened, "ms"), Row("… and to its next request", asked, "ms")]
    memory = driver.ask("resident", home, idle)
    rows += [
        Row("memory after start", memory["started"], "MB", 70.0),
        Row("memory after a first call", memory["first"], "MB"),
        Row("memory per idle session", (memory["idle"] - memory["first"]) * 1000 / idle, "kB"),
    ]
    return rows


@dataclass(frozen=True)
class Run:
    """One long run: the milliseconds from each request's arrival to the next, and of processor time a turn."""

    gaps: tuple[float, ...]
    cpu: float


@dataclass(frozen=True)
class Driver:
    """Asks a fresh harnessd process each question; `module` is the one that knows the answers."""

    server: ModelServer
    state: Path
    module: str = "benchmarks.harness"

    def ask(self, question: str, home: Path, argument: int | str) -> dict[str, Any]:
        """The answer to `question`."""
        command = [sys.executable, "-m", self.module, question, self.server.base]
        command += [str(home), str(self.state), str(argument)]
        outcome = subprocess.run(command, stdout=subprocess.PIPE, env=environment(), check=True)
        answer: dict[str, Any] = json.loads(outcome.stdout)
        return answer

    def turns(self, home: Path) -> Run:
        """One run of `TURNS` turns."""
        self.server.arrivals()
        cpu = self.ask("turns", home, TURNS)["cpu"]
        return Run(gaps(self.server.arrivals()), cpu * 1000)

    def start(self, home: Path, repeats: int) -> float:
        """Seconds from starting the command line to the arrival of the first request."""
        seconds: list[float] = []
        for _ in range(repeats):
            self.server.arrivals()
            command = [sys.executable, "-m", "harnessd", "run", str(home), "Hello"]
            environ = {**environment(), "HARNESSD_STATE": str(self.state), "OPENAI_API_BASE": self.server.base}
            begun = time.monotonic()
            subprocess.run(command, stdout=subprocess.DEVNULL, env=environ, check=True)
            seconds.append(self.server.arrivals()[0] - begun)
        return statistics.median(seconds)

    def added(self, plain: Path, skilled: Path, repeats: int) -> float:
        """Milliseconds that a call in `skilled` takes longer than one in `plain`; both are asked by turns."""
        seconds: dict[Path, list[float]] = {plain: [], skilled: []}
        for _ in range(repeats):
            for home, measured in seconds.items():
                measured += self.ask("calls", home, 30)["seconds"]
        return (statistics.median(seconds[skilled]) - statistics.median(seconds[plain])) * 1000

    def resumed(self, home: Path, turns: int) -> tuple[float, float]:
        """Milliseconds to open a session of `turns` turns in a new process, and from there to its next request."""
        session = self.ask("turns", home, turns)["session"]
        self.server.arrivals()
        answer = self.ask("resume", home, session)
        return answer["open"] * 1000, (self.server.arrivals()[0] - answer["asked"]) * 1000


def bare_turns(server: ModelServer, home: Path) -> Run:
    """The same run by the bare loop."""
    server.arrivals()
    begun = time.process_time()
    run_bare(server.port, TURNS, home)
    cpu = time.process_time() - begun
    return Run(gaps(server.arrivals()), cpu * 1000 / TURNS)


def gaps(arrivals: list[float]) -> tuple[float, ...]:
    """Milliseconds between one arrival and the next."""
    if len(arrivals) < TURNS:
        raise RuntimeError(f"a run of {TURNS} turns ended after {len(arrivals)}")
    return tuple((later - earlier) * 1000 for earlier, later in itertools.pairwise(arrivals))


def at(runs: list[Run], turns: slice) -> float:
    """The median over all runs of the turns in `turns`."""
    return statistics.median(gap for run in runs for gap in run.gaps[turns])


def environment() -> dict[str, str]:
    """The environment without what would change the measurement; the key is a word that no provider takes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HARNESSD_")}
    return {**kept, "OPENAI_API_KEY": "bench"}


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}  {'measured':>12}  wanted"]
    for row in rows:
        bound = ">=" if row.at_least else "<="
        wanted = "" if row.wanted is None else f"{bound} {row.wanted:g}{'   MISSED' if row.missed else ''}"
        lines.append(f"{row.name:{width}}  {row.value:>9.2f} {row.unit:<3} {wanted}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
