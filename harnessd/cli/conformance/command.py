"""`harnessd conformance`: is what the daemon promises still so when it is killed?"""

import logging
import shlex
import shutil
import tempfile
import time
from pathlib import Path

import anyio
import click

from harnessd.cli.conformance.daemon import Build
from harnessd.cli.conformance.matrix import FULL, QUICK, USUAL, Outcome, Plan, Size, try_all
from harnessd.cli.conformance.nursery import nursery
from harnessd.cli.conformance.report import failed, report
from harnessd.cli.conformance.scenarios import CHECKS, SCENARIOS, Scenario
from harnessd.cli.exits import COMPLETED, FAILED
from harnessd.cli.output import Output
from harnessd.errors import UsageError

SEED = "harnessd"
LONGEST_FOLDER = 48


@click.command("conformance")
@click.option("--quick", "size", flag_value="quick", help="One point of each scenario.")
@click.option("--full", "size", flag_value="full", help="Some hundreds of points.")
@click.option(
    "--points", type=click.IntRange(min=1), help="At most so many points of each scenario; 1000 is all of them."
)
@click.option("--only", multiple=True, metavar="CHECK", help="A check or a scenario; may be given several times.")
@click.option("--list", "listing", is_flag=True, help="Only tell what there is to try.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep everything in this folder, not only failures.")
@click.option("--seed", default=SEED, show_default=True, help="What the random instants are made from.")
@click.option("--command", "other", default="", help="Try the daemon that this command starts, not this build.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def conformance(
    size: str | None,
    points: int | None,
    only: tuple[str, ...],
    listing: bool,
    keep: Path | None,
    seed: str,
    other: str,
    as_json: bool,
) -> int:
    """Kill a daemon at many points of many runs, and see whether it keeps its promises.

    A model that follows a script takes the real one's place, and each daemon lives in a folder of its own: nothing of
    yours is touched. Five checks: approval, resume, stop, artifact, subagent. What fails is kept for a look.
    """
    out = Output(as_json)
    chosen = _chosen(only)
    if listing:
        _list(out, chosen)
        return COMPLETED
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError("this path is in use", where=str(keep), hint="give --keep a new path, or an empty folder")
    if other:
        _check(other)
    folder = _scratch()
    sample = Size(points, USUAL.instants) if points else {"quick": QUICK, "full": FULL}.get(size or "", USUAL)
    began = time.monotonic()
    outcomes = anyio.run(_play, other, chosen, sample, seed, folder, keep, _Progress(out))
    if keep is not None or not failed(outcomes):
        shutil.rmtree(folder, ignore_errors=True)
    report(out, outcomes, time.monotonic() - began)
    return FAILED if failed(outcomes) else COMPLETED


async def _play(
    other: str,
    chosen: tuple[Scenario, ...],
    size: Size,
    seed: str,
    folder: Path,
    keep: Path | None,
    progress: "_Progress",
) -> list[Outcome]:
    sandbox = shutil.which("bwrap") is not None
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # the model's clients are killed, and it says so

    def plan(build: Build) -> Plan:
        return Plan(build, chosen, size, seed, folder, keep, sandbox)

    try:
        if other:
            return await try_all(plan(Build(command=other)), progress.tell, progress.expect)
        async with nursery() as own:
            return await try_all(plan(Build(own)), progress.tell, progress.expect)
    finally:
        progress.end()


def _chosen(only: tuple[str, ...]) -> tuple[Scenario, ...]:
    names = {*CHECKS, *(scenario.name for scenario in SCENARIOS)}
    for name in only:
        if name not in names:
            raise UsageError(f"there is no check {name!r}", where="--only", hint=f"there are {', '.join(CHECKS)}")
    return tuple(one for one in SCENARIOS if not only or {one.name, one.check} & set(only))


def _scratch() -> Path:
    """A folder for the trials; short, since the path of a daemon's socket has a limit."""
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    if len(str(folder)) > LONGEST_FOLDER:
        folder.rmdir()
        raise UsageError("the path is too long for a socket", where="TMPDIR", hint="set TMPDIR to a shorter folder")
    return folder


def _check(command: str) -> None:
    """Whether there is such a program, before dozens of trials say that there is not."""
    try:
        program = next(iter(shlex.split(command)), "")
    except ValueError as error:
        raise UsageError(f"can't be split into words: {error}", where="--command", hint="close the quotes") from None
    if shutil.which(program) is None:
        raise UsageError(f"there is no program {program!r}", where="--command", hint="give its path")


def _list(out: Output, chosen: tuple[Scenario, ...]) -> None:
    for scenario in chosen:
        if out.as_json:
            out.record({"check": scenario.check, "scenario": scenario.name, "says": scenario.says})
        else:
            out.line(f"{scenario.check:<10}{out.style.bold(f'{scenario.name:<20}')}{scenario.says}")


class _Progress:
    """How far it is, on a terminal in a line that replaces itself; else a line for each check's failures only."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._expected = 0
        self._done = 0
        self._failed = 0

    def expect(self, more: int) -> None:
        """More trials will come."""
        self._expected += more

    def tell(self, outcome: Outcome) -> None:
        """One trial is over."""
        self._done += 1
        if outcome.status == "failed":
            self._failed += 1
        if self._out.is_terminal:
            said = f"{self._done} of {self._expected}, {self._failed} failed: {outcome.scenario.name}, {outcome.where}"
            self._out.note_piece("\r\x1b[K" + self._out.side.dim(said[:110]))
        elif self._done % 50 == 0 or outcome.status == "failed":
            self._out.note(f"{self._done} of {self._expected}, {self._failed} failed")

    def end(self) -> None:
        """Nothing more comes."""
        if self._out.is_terminal:
            self._out.note_piece("\r\x1b[K")
