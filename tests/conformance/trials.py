"""What the tests of the conformance kit share: trials of this build, really made."""

from pathlib import Path

import anyio

from harnessd.cli.conformance.daemon import Build
from harnessd.cli.conformance.evidence import Evidence
from harnessd.cli.conformance.nursery import nursery
from harnessd.cli.conformance.points import Point
from harnessd.cli.conformance.scenarios import SCENARIOS, Scenario
from harnessd.cli.conformance.trial import try_point

AT_THE_END = Point("step", 100_000)
"""A step that is never reached: the daemon is killed when everything is over, or as the scenario says."""


def scenario(name: str) -> Scenario:
    return next(one for one in SCENARIOS if one.name == name)


def try_these(folder: Path, *asked: tuple[str, Point]) -> dict[str, Evidence]:
    """The evidence of these trials, by the scenario's name."""

    async def make() -> dict[str, Evidence]:
        found: dict[str, Evidence] = {}
        async with nursery() as own:
            for name, point in asked:
                place = folder / name
                place.mkdir()
                found[name] = (await try_point(Build(own), scenario(name), point, place)).evidence
        return found

    return anyio.run(make)
