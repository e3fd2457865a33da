"""Where a daemon is killed: at a step of its journal, around an effect, while the model is asked, at any instant."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["never", "step", "before_effect", "after_effect", "asked", "told", "instant"]
_SAID: dict[Kind, str] = {
    "never": "no kill",
    "step": "step {at:.0f} of writing the journal",
    "before_effect": "before effect {at:.0f}",
    "after_effect": "after effect {at:.0f}, before its result",
    "asked": "while the model answers request {at:.0f}",
    "told": "when event {at:.0f} was told",
    "instant": "at {at:.0%} of the time that it takes",
}

TWICE, AGAIN = 4, 8
"""At so many of the steps the daemon is killed twice: the second time at each of the first so many of its steps."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place to die at. `at` counts from 1; for an `instant` it is the share of the undisturbed run's time.

    `again`: the daemon that comes up next is killed as well, at that step of its journal, while it recovers.
    """

    kind: Kind = "never"
    at: float = 0
    again: int = 0

    def __str__(self) -> str:
        said = _SAID[self.kind].format(at=self.at)
        return f"{said}, and again at step {self.again} of the next daemon" if self.again else said

    @property
    def name(self) -> str:
        """A short name that is good for a folder."""
        return f"{self.kind}-{self.at:g}" + (f"-{self.again}" if self.again else "")


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is of each in an undisturbed run of a scenario; `seconds` from the message to its end."""

    steps: int
    effects: int
    requests: int
    told: int
    seconds: float


def every_point(extent: Extent, *, seed: str, instants: int, inside: bool) -> tuple[Point, ...]:
    """All points of a scenario. Those in the journal's writing need a daemon that is ours (`inside`).

    The instants are the same for the same seed.
    """
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    steps = _count("step", extent.steps) if inside else _count("told", extent.told)
    twice = tuple(replace(one, again=step) for one in spread(steps, TWICE, seed=seed) for step in range(1, AGAIN + 1))
    effects = (*_count("before_effect", extent.effects), *_count("after_effect", extent.effects))
    anywhere = tuple(Point("instant", round(chance.random(), 4)) for _ in range(instants))
    return (*steps, *(twice if inside else ()), *effects, *_count("asked", extent.requests), *anywhere)


def spread(points: Sequence[Point], most: int, *, seed: str) -> tuple[Point, ...]:
    """At most `most` of the points, evenly from all of them; the seed says where among them the first one is."""
    if len(points) <= most:
        return tuple(points)
    shift = random.Random(seed).random()  # noqa: S311 - as above
    return tuple(points[int((number + shift) * len(points) / most)] for number in range(most))


def _count(kind: Kind, most: int) -> tuple[Point, ...]:
    return tuple(Point(kind, number) for number in range(1, most + 1))
