"""What a person does while a daemon lives: says one thing, follows what happens, decides and stops.

They speak to each daemon that comes up as if nothing had happened, and give again what got no answer.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from harnessd.cli.conformance.door import Door, Gone, NotThere
from harnessd.cli.conformance.evidence import Answer
from harnessd.cli.conformance.scenarios import Act, Scenario
from harnessd.facts.message import JsonObject

RETRY_SECONDS = 0.02
RACING = 3
"""How often a decision is sent at once: one is applied, the others are told which."""


@dataclass
class Seat:
    """What a person has before them while one daemon lives. `decides`: whether approvals are decided in this life."""

    life: int
    decides: bool
    on_event: Callable[[int, JsonObject], None]
    before_stop: Callable[[], Awaitable[None]]
    settled: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)
    told: list[tuple[str, JsonObject]] = field(default_factory=list)
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)

    def hears(self, session_id: str, event: JsonObject) -> None:
        """An event is told."""
        self.told.append((session_id, event))
        self.on_event(len(self.told), event)


class Person:
    """Remembers over the daemon's lives what was said, told and answered."""

    def __init__(self, scenario: Scenario, session_id: str = "") -> None:
        self.session_id = session_id
        self.answers: list[Answer] = []
        self._scenario = scenario
        self._promised: set[str] = set()
        """What was accepted for good: approvals that are decided, runs that are stopped."""

    async def live(self, door: Door, seat: Seat) -> bool:
        """Follows one daemon until the run has ended (True), or the daemon is gone or says nothing more."""
        async with anyio.create_task_group() as tasks:
            try:
                await self._say(door, seat)
                tasks.start_soon(self._follow, door, seat, self.session_id, tasks)
                await seat.over.wait()
            except Gone:
                seat.over.set()
            tasks.cancel_scope.cancel()
        return seat.settled

    async def _say(self, door: Door, seat: Seat) -> None:
        """The one message, unless it is there already."""
        if not self.session_id:
            known = await door.sessions()
            self.session_id = known[0] if known else await door.new_session()
        state = await door.state(self.session_id)
        if state.get("activeRun") or state.get("lastRun") or state.get("queue"):
            return
        if not await self._control(door, seat, self.session_id, "invoke", {"control": "invoke", "input": "Go."}):
            seat.over.set()

    async def _follow(self, door: Door, seat: Seat, session_id: str, tasks: TaskGroup) -> None:
        """Everything that one session tells. A subagent's session is named before it is made, so it is waited for."""
        told = 0
        with suppress(Gone):
            while not seat.over.is_set():
                try:
                    async for event in door.events(session_id):
                        if event["seq"] > told:
                            told = event["seq"]
                            self._hear(door, seat, session_id, event, tasks)
                except NotThere:
                    await anyio.sleep(RETRY_SECONDS)
                else:
                    if session_id == self.session_id:
                        break
                    await anyio.sleep(RETRY_SECONDS)
        if session_id == self.session_id:
            seat.over.set()

    def _hear(self, door: Door, seat: Seat, session_id: str, event: JsonObject, tasks: TaskGroup) -> None:
        seat.hears(session_id, event)
        match event["type"]:
            case "tool.call.created":
                key = str((event.get("arguments") or {}).get("key", ""))
                seat.calls[event["toolCallId"]] = event["toolName"], key
            case "subagent.started":
                tasks.start_soon(self._follow, door, seat, event["subagent"]["sessionId"], tasks)
            case "run.finished" if session_id == self.session_id:
                seat.settled = True
                seat.over.set()
        act = self._act(event, seat.calls)
        if act is not None:
            tasks.start_soon(self._do, door, seat, session_id, event, act)

    def _act(self, event: JsonObject, calls: dict[str, tuple[str, str]]) -> Act | None:
        call = event.get("toolCallId") or event.get("approval", {}).get("toolCallId")
        tool, key = calls.get(str(call), ("", ""))
        for act in self._scenario.acts:
            if act.on == event["type"] and act.tool in {"", tool} and act.key in {"", key}:
                return act
        return None

    async def _do(self, door: Door, seat: Seat, session_id: str, event: JsonObject, act: Act) -> None:
        if act.do == "stop":
            await seat.before_stop()
            if "stop" not in self._promised:
                await self._ask(door, seat, self.session_id, "stop", {"control": "stop"})
            return
        approval = str(event["approval"]["id"])
        if approval in self._promised or not seat.decides:
            return
        control = {"control": "resume", "approvalId": approval, "decision": act.do}
        async with anyio.create_task_group() as racing:
            for _ in range(RACING):
                racing.start_soon(self._ask, door, seat, session_id, act.do, control)

    async def _ask(self, door: Door, seat: Seat, session_id: str, what: str, control: JsonObject) -> None:
        """A control whose answer may never come."""
        with suppress(Gone):
            await self._control(door, seat, session_id, what, control)

    async def _control(self, door: Door, seat: Seat, session_id: str, what: str, control: JsonObject) -> bool:
        status, body, took = await door.control(session_id, control)
        approval = str(control.get("approvalId", ""))
        self.answers.append(Answer(seat.life, what, session_id, status, body, took, approval))
        if status == 202:
            self._promised.add(approval or what)
        return status == 202
