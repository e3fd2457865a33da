"""Which trials are made: every scenario once undisturbed, then with a kill at a sample of its points, two at a time."""

import shutil
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from harnessd.cli.conformance.daemon import Build
from harnessd.cli.conformance.evidence import Finding
from harnessd.cli.conformance.judges import judge
from harnessd.cli.conformance.points import Point, every_point, spread
from harnessd.cli.conformance.scenarios import Scenario
from harnessd.cli.conformance.trial import NEVER, Tried, try_point

AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Size:
    """How much is tried: at most so many points of each scenario, and how many random instants there are among all."""

    points: int
    instants: int


QUICK, USUAL, FULL = Size(1, 8), Size(8, 8), Size(30, 12)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A point that was tried. `status`: passed, failed, or skipped with the reason in `said`.

    `died_at` tells where in the journal's writing the daemon was; `kept` is the folder that was kept for a look;
    `stop_took` the seconds until each stop was acknowledged.
    """

    scenario: Scenario
    point: Point
    status: Literal["passed", "failed", "skipped"]
    findings: tuple[Finding, ...] = ()
    died_at: str = ""
    said: str = ""
    seconds: float = 0.0
    kept: Path | None = None
    stop_took: tuple[float, ...] = ()

    @property
    def where(self) -> str:
        """The crash point, as exactly as it is known."""
        return f"{self.point}: {self.died_at}" if self.died_at else str(self.point)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to try. `seed` makes the random instants; it all happens in `folder`, and what is kept goes to `keep`.

    Without `keep` only what failed stays, in `folder`.
    """

    build: Build
    scenarios: Sequence[Scenario]
    size: Size
    seed: str
    folder: Path
    keep: Path | None
    sandbox: bool


async def try_all(plan: Plan, tell: Callable[[Outcome], None], expect: Callable[[int], None]) -> list[Outcome]:
    """Tries everything in the plan. `tell` hears of each trial that is over, `expect` of how many are to come."""
    done: list[Outcome] = []
    seats = anyio.CapacityLimiter(AT_ONCE)

    def over(outcome: Outcome) -> None:
        done.append(outcome)
        tell(outcome)

    async def one(scenario: Scenario, point: Point, seconds: float) -> None:
        async with seats:
            over((await _try(plan, scenario, point, seconds))[0])

    async def whole(scenario: Scenario) -> None:
        missing = _missing(plan, scenario)
        if missing:
            over(Outcome(scenario, NEVER, "skipped", said=missing))
            return
        async with seats:
            outcome, tried = await _try(plan, scenario, NEVER, 0.0)
        over(outcome)
        if tried is None or outcome.status != "passed":
            return
        points = _sample(plan, scenario, tried)
        expect(len(points))
        async with anyio.create_task_group() as tasks:
            for point in points:
                tasks.start_soon(one, scenario, point, tried.extent.seconds)

    expect(len(plan.scenarios))
    async with anyio.create_task_group() as tasks:
        for scenario in plan.scenarios:
            tasks.start_soon(whole, scenario)
    return done


def _sample(plan: Plan, scenario: Scenario, tried: Tried) -> tuple[Point, ...]:
    size = plan.size
    seed = f"{plan.seed}/{scenario.name}"
    points = every_point(tried.extent, seed=seed, instants=size.instants, inside=plan.build.inside)
    return spread(points, size.points, seed=seed)


def _missing(plan: Plan, scenario: Scenario) -> str:
    if scenario.sandbox and not plan.sandbox:
        return "commands can't be run in a sandbox on this machine (harnessd doctor says more)"
    return ""


async def _try(plan: Plan, scenario: Scenario, point: Point, seconds: float) -> tuple[Outcome, Tried | None]:
    folder = plan.folder / f"{scenario.name}-{point.name}"
    folder.mkdir(parents=True)
    try:
        tried = await try_point(plan.build, scenario, point, folder, seconds=seconds)
    except Exception as error:  # noqa: BLE001 - a trial that breaks is a finding, and the others go on
        told = "".join(traceback.format_exception(error))
        (folder / "kit.log").write_text(told, encoding="utf-8")
        finding = Finding("the kit itself", "a trial that comes to an end", _cause(error))
        return Outcome(scenario, point, "failed", (finding,), kept=folder), None
    absent = _not_offered(tried)
    findings = () if absent else judge(tried.evidence)
    kept = await anyio.to_thread.run_sync(_put_by, folder, plan.keep, bool(findings))
    if absent:
        return Outcome(scenario, point, "skipped", said=absent, seconds=tried.seconds), None
    status: Literal["passed", "failed"] = "failed" if findings else "passed"
    return Outcome(scenario, point, status, findings, tried.died_at, "", tried.seconds, kept, tried.stop_took), tried


def _put_by(folder: Path, keep: Path | None, failed: bool) -> Path | None:
    """Where the trial's folder is kept; None if it is not. Blocks."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(folder, keep / folder.name))
    if failed:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _cause(error: BaseException) -> str:
    """What broke first, when tasks that ran side by side broke together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _not_offered(tried: Tried) -> str:
    """Which built-in tool the scenario needs and this build does not have."""
    offered = tried.evidence.offered
    absent = [name for name in tried.evidence.scenario.needs if offered and name not in offered]
    return f"this build has no tool {', '.join(absent)}" if absent else ""
