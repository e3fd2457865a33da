"""What is known of a trial when it is over: what was told, what is on disk, what was done. All of it frozen."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from harnessd.cli.conformance.points import Point
from harnessd.cli.conformance.scenarios import Scenario
from harnessd.facts.event import Event
from harnessd.facts.message import JsonObject

Kind = TypeVar("Kind", bound=Event)


@dataclass(frozen=True, slots=True)
class Journal:
    """One session's record as it lies on disk; `damaged` are records that could not be read."""

    agent_id: str
    session_id: str
    events: tuple[Event, ...]
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the daemon said to a control; `took` is in seconds, `life` counts from 0."""

    life: int
    what: str
    session_id: str
    status: int
    body: JsonObject
    took: float
    approval_id: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it promised to have done it."""
        return self.status == 202


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a tool did, as it wrote it down itself. `call` is the key that the harness gave the call."""

    tool: str
    key: str
    call: str
    pid: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that reached the model: who asked, and how far the conversation was (0: nothing said yet)."""

    life: int
    who: str
    step: int
    messages: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the folder of artifacts; `path` is relative to the home."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Life:
    """One process of the daemon: what it told of each session, and how it ended.

    `came_up` says whether it answered at all, `settled` whether everything that was asked of it came to an end.
    `open_approvals` are (approval id, tool call id) that it listed when it came up. `left` are processes that
    outlived it; `log` is the end of what it wrote to its error output.
    """

    told: tuple[tuple[str, JsonObject], ...] = ()
    came_up: bool = False
    settled: bool = False
    killed: bool = False
    open_approvals: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    log: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of a trial. `before` are the journals between the kill and the next start, `after` those at the end.

    `entries` are the lines of MEMORY.md that hold the fact to be remembered; `commits` the tool calls that commits of
    the home name, one for each commit; `endless` the processes of the run that a stop must end and
    did not; `offered` the tools that the model could have called.
    """

    scenario: Scenario
    point: Point
    place: str
    session_id: str
    lives: tuple[Life, ...]
    answers: tuple[Answer, ...]
    before: tuple[Journal, ...]
    after: tuple[Journal, ...]
    asked: tuple[Asked, ...]
    effects: tuple[Effect, ...]
    entries: int
    commits: tuple[str, ...]
    stored: tuple[Stored, ...]
    endless: tuple[str, ...]
    offered: tuple[str, ...] = ()

    @property
    def kills(self) -> int:
        """How often the daemon was killed."""
        return sum(life.killed for life in self.lives)

    def main(self) -> Journal:
        """The record of the session that the person spoke to, at the end; empty if there is none."""
        found = (journal for journal in self.after if journal.session_id == self.session_id)
        return next(found, Journal("main", self.session_id, ()))

    def then(self, journal: Journal) -> tuple[Event, ...]:
        """What the same session's journal held between the kill and the next start."""
        return next((one.events for one in self.before if one.session_id == journal.session_id), ())

    def accepted(self, what: str) -> Iterator[Answer]:
        """The controls of that kind that were promised."""
        return (answer for answer in self.answers if answer.what == what and answer.accepted)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not be: the judge that found it, what it expected, what it found."""

    judge: str
    expected: str
    found: str


def of_kind(events: tuple[Event, ...], kind: type[Kind]) -> tuple[Kind, ...]:
    """The events of one kind, in order."""
    return tuple(event for event in events if isinstance(event, kind))
