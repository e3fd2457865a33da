"""One trial: a daemon lives until it is killed at a point, another goes on where it was, the evidence is gathered."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from harnessd.cli.conformance.daemon import Build, Daemon, left_of, put_away, running, started
from harnessd.cli.conformance.door import Door, Gone, door_of
from harnessd.cli.conformance.evidence import Evidence, Journal, Life
from harnessd.cli.conformance.model import Model
from harnessd.cli.conformance.person import Person, Seat
from harnessd.cli.conformance.place import TOKEN, Place
from harnessd.cli.conformance.points import Extent, Point
from harnessd.cli.conformance.scenarios import Scenario
from harnessd.facts.message import JsonObject

LIFE_SECONDS = 30.0
"""How long a daemon gets to bring everything to an end."""

PROCESS_SECONDS = 5.0
NEVER = Point()


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial that is over. `extent` is what a kill could have hit; `died_at` the place by the journal's own note."""

    evidence: Evidence
    extent: Extent
    died_at: str
    seconds: float

    @property
    def stop_took(self) -> tuple[float, ...]:
        """Seconds from each stop to its acknowledgement."""
        return tuple(answer.took for answer in self.evidence.accepted("stop"))


async def try_point(build: Build, scenario: Scenario, point: Point, folder: Path, *, seconds: float = 0.0) -> Tried:
    """Plays the scenario in `folder`, with a kill at `point`; `seconds` is how long it takes undisturbed."""
    from harnessd.models.scripted import ScriptedServer

    began = time.monotonic()
    trial = _Trial(build, scenario, point, Place(folder), seconds)
    async with ScriptedServer(trial.model, keep=False) as server:
        await anyio.to_thread.run_sync(trial.place.prepare, scenario, point, server.url)
        try:
            await trial.first_life()
            await anyio.to_thread.run_sync(trial.place.spare_the_next)
            if point.again:
                await trial.next_life(kill_at=point.again)
            before = await anyio.to_thread.run_sync(trial.place.journals)
            if point != NEVER:
                await trial.next_life()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(put_away, f"{folder}/")
    evidence = await anyio.to_thread.run_sync(trial.gather, before)
    return Tried(evidence, trial.extent(), trial.place.died_at(), time.monotonic() - began)


class _Trial:
    def __init__(self, build: Build, scenario: Scenario, point: Point, place: Place, seconds: float) -> None:
        self.place = place
        self.model = Model(scenario, self._on_request, place.endless_command)
        self._build = build
        self._scenario = scenario
        self._point = point
        self._seconds = seconds
        self._person = Person(scenario)
        self._daemon: Daemon | None = None
        self._lives: list[Life] = []
        self._endless: tuple[str, ...] = ()
        self._lasted = 0.0

    async def first_life(self) -> None:
        """Lives until the point is reached; if it is not, until the run has ended, and is killed then."""
        point = self._point
        steps = int(point.at) if point.kind == "step" else 0 if point == NEVER and self._build.inside else None
        decides = point == NEVER or not self._scenario.patient
        async with started(self._build, self.place, 1, steps) as daemon:
            await self._live(daemon, decides=decides, kill=point != NEVER)

    async def next_life(self, kill_at: int | None = None) -> None:
        """A daemon as any other: it has to go on with what it finds. With `kill_at` it dies as well."""
        async with started(self._build, self.place, len(self._lives) + 1, kill_at) as daemon:
            await self._live(daemon, decides=True, kill=kill_at is not None)

    def extent(self) -> Extent:
        """How much there was to be hit; of use if nothing was."""
        told = len(self._lives[0].told)
        return Extent(self.place.steps(), len(self.place.served()), len(self.model.asked), told, self._lasted)

    def gather(self, before: tuple[Journal, ...]) -> Evidence:
        """What there is to be judged. Blocks."""
        place = self.place
        return Evidence(
            scenario=self._scenario,
            point=self._point,
            place=str(place.path),
            session_id=self._person.session_id,
            lives=tuple(self._lives),
            answers=tuple(self._person.answers),
            before=before,
            after=place.journals(),
            asked=tuple(self.model.asked),
            effects=place.effects(),
            entries=place.entries(),
            commits=place.commits(),
            stored=place.stored(),
            endless=self._endless,
            offered=self.model.offered,
        )

    async def _live(self, daemon: Daemon, *, decides: bool, kill: bool) -> None:
        number = len(self._lives)
        self.model.life = number
        self._daemon = daemon
        seat = Seat(number, decides, self._on_event if kill else _nothing, self._before_stop)
        waiting: tuple[tuple[str, str], ...] = ()
        came_up = settled = False
        await daemon.up()
        if daemon.url is not None:
            async with door_of(daemon.url, TOKEN) as door:
                try:
                    came_up = await _until(door.ready, LIFE_SECONDS)
                    waiting = await door.approvals()
                    settled = await self._with_person(door, seat)
                except Gone:
                    settled = False
        if settled and self._scenario.sandbox:
            self._endless = await left_of(self.place.endless)
        if kill:
            daemon.kill()
            await daemon.gone()
        else:
            await daemon.end()
        left = await left_of(f"{self.place.path}/")
        killed = daemon.killed if kill else False
        self._lives.append(Life(tuple(seat.told), came_up, settled, killed, waiting, left, daemon.log))

    async def _with_person(self, door: Door, seat: Seat) -> bool:
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            if seat.life == 0 and self._point.kind == "instant":
                tasks.start_soon(self._kill_after, self._point.at * self._seconds)
            if seat.life == 0 and self._point.kind in {"before_effect", "after_effect"}:
                tasks.start_soon(self._kill_at_effect)
            with anyio.move_on_after(LIFE_SECONDS):
                settled = await self._person.live(door, seat)
                tasks.cancel_scope.cancel()
                self._lasted = time.monotonic() - began
                return settled
            tasks.cancel_scope.cancel()
        return False

    async def _kill_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._kill()

    async def _kill_at_effect(self) -> None:
        """The server that makes the effects waits at the point until this happens."""

        async def reached() -> bool:
            return await anyio.to_thread.run_sync(self.place.reached)

        if await _until(reached, LIFE_SECONDS):
            self._kill()

    async def _before_stop(self) -> None:
        """A stop is of interest once there is something to stop."""
        if self._scenario.sandbox:
            await _until(lambda: _has_processes(self.place), PROCESS_SECONDS)

    def _on_request(self, number: int) -> None:
        if self._point.kind == "asked" and not self._lives and number == self._point.at:
            self._kill()

    def _on_event(self, number: int, event: JsonObject) -> None:
        asks = self._scenario.patient and event["type"] == "tool.approval_required"
        if asks or (self._point.kind == "told" and number == self._point.at):
            self._kill()

    def _kill(self) -> None:
        if self._daemon is not None:
            self._daemon.kill()


async def _until(true: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Asks again and again; whether it became true in time."""
    with anyio.move_on_after(seconds):
        while not await true():  # noqa: ASYNC110 - it is true somewhere else, and nobody tells
            await anyio.sleep(0.01)
        return True
    return False


async def _has_processes(place: Place) -> bool:
    return bool(await anyio.to_thread.run_sync(running, place.endless))


def _nothing(number: int, event: JsonObject) -> None:
    """Nobody waits for it."""
