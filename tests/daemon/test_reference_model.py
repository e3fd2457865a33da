"""Any series of controls, restarts and parkings leaves a session as a reference of forty lines says."""

import re
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted, Refused, Session
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.facts.view import view
from harnessd.models.script import Answer, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import call, make_home, make_settings

NO_RUN, NO_APPROVAL = "run_000000000-0000000", "apr_000000000-0000000"


@dataclass
class Reference:
    """What a session is, said simply. A message is `talk`, `ask` (a call that needs a person) or `hang`."""

    run: str | None = None
    status: str = "idle"
    queue: list[tuple[str, str]] = field(default_factory=list)
    title: str = ""
    effects: int = 0
    runs_over: int = 0
    decided: int = 0

    def invoke(self, kind: str, when: str) -> int:
        busy = self.run is not None or bool(self.queue)
        if busy and when == "reject":
            return 409
        self.queue.append((kind, when if busy else "queue"))
        self.go()
        return 202

    def decide(self, decision: str, known: bool) -> int:
        if not known:
            return 404
        if self.status != "waiting_approval":
            return 409 if self.decided else 404
        self.decided += 1
        self.effects += decision == "allow"
        # The run goes on: what steers enters before the model is asked again, and is answered with the rest.
        self.queue = [entry for entry in self.queue if entry[1] != "steer"]
        self.over()
        return 202

    def stop(self, scope: str, right: bool) -> int:
        if self.run is None or not right:
            return 409
        self.decided += self.status == "waiting_approval"
        if scope == "session":
            self.queue = []
        self.over()
        return 202

    def unpark(self, right: bool) -> int:
        if self.status != "parked" or not right:
            return 409
        self.status = "running"
        return 202

    def restart(self, old: bool) -> None:
        if self.status == "running" and old:
            self.status = "parked"

    def over(self) -> None:
        self.run, self.status = None, "idle"
        self.runs_over += 1
        self.go()

    def go(self) -> None:
        while self.run is None and self.queue:
            self.run = self.queue.pop(0)[0]
            self.status = {"hang": "running", "ask": "waiting_approval", "talk": "idle"}[self.run]
            if self.run == "hang":
                # Its one request was made with all that steered by then; nothing enters later, as it never ends.
                self.queue = [entry for entry in self.queue if entry[1] != "steer"]
            elif self.run == "talk":
                self.queue = [entry for entry in self.queue if entry[1] != "steer"]
                self.run = None
                self.runs_over += 1
            elif self.run == "ask":
                self.queue = [entry for entry in self.queue if entry[1] != "steer"]


def model(request: Request, hung: dict[str, int]) -> Answer:
    """Does what the input that began the run says, which a number makes unlike any other.

    `hung` remembers how many inputs there were when each one hung first.
    """
    messages = request.body["messages"]
    inputs = [
        at for at, m in enumerate(messages) if m["role"] == "user" and re.match(r"(talk|ask|hang) ", m["content"])
    ]
    begun = [at for at in inputs if not messages[at]["content"].endswith("steer")]
    at = begun[-1] if begun else inputs[-1]
    kind, number = str(messages[at]["content"]).split()[:2]
    # What comes behind one that hung has begun another run, after a stop.
    if kind == "hang" and hung.setdefault(number, len(inputs)) == len(inputs):
        return Answer("never", ends="hang", after=0)
    if kind == "ask" and not any(m["role"] == "assistant" for m in messages[at:]):
        return call("write", path=f"work/{number}.txt", content="x")
    return Answer("Done.")


OPERATIONS = st.one_of(
    st.tuples(st.just("invoke"), st.sampled_from(["talk", "ask", "hang"]), st.sampled_from(["queue", "reject"])),
    st.tuples(st.just("invoke"), st.just("talk"), st.just("steer")),
    st.tuples(st.just("decide"), st.sampled_from(["allow", "deny", "cancel"]), st.booleans()),
    st.tuples(st.just("stop"), st.sampled_from(["run", "session"]), st.sampled_from([True, True, False])),
    st.tuples(st.just("title"), st.booleans(), st.just("")),
    st.tuples(st.just("continue"), st.sampled_from([True, True, False]), st.just("")),
    st.tuples(st.just("restart"), st.booleans(), st.just("")),
    st.tuples(st.just("reload"), st.just(""), st.just("")),
)


@dataclass
class Real:
    """The same, for real."""

    session: Session
    number: int = 0
    last_approval: str = NO_APPROVAL

    async def do(self, operation: tuple[str, object, object]) -> Accepted | Refused:
        name, first, second = operation
        state = self.session.state
        match name:
            case "invoke":
                self.number += 1
                text = f"{first} {self.number} {second}"
                return await self.session.control(Invoke(input=text, when_busy=second))  # type: ignore[arg-type]
            case "decide":
                pending = state.pending_approvals
                self.last_approval = pending[0].id if pending else self.last_approval
                which = self.last_approval if second else NO_APPROVAL
                return await self.session.control(Resume(approval_id=which, decision=first))  # type: ignore[arg-type]
            case "stop":
                run = state.active_run.run_id if state.active_run else None
                return await self.session.control(
                    Stop(scope=first, run_id=run if second else NO_RUN)  # type: ignore[arg-type]
                )
            case "title":
                seq = state.seq if first else max(0, state.seq - 1)
                return await self.session.control(UpdateState(patch={"title": f"t{state.seq}"}, expected_seq=seq))
            case "continue":
                run = state.active_run.run_id if state.active_run else NO_RUN
                return await self.session.control(Continue(run_id=run if first else NO_RUN, decision="continue"))
            case _:
                return await self.session.control(Reload())


def expect(reference: Reference, operation: tuple[str, object, object]) -> int:
    name, first, second = operation
    match name:
        case "invoke":
            return reference.invoke(str(first), str(second))
        case "decide":
            return reference.decide(str(first), bool(second))
        case "stop":
            return reference.stop(str(first), bool(second))
        case "continue":
            return reference.unpark(bool(first))
        case "title":
            return 202 if first else 409
        case _:
            return 202


def compare(reference: Reference, session: Session, folder: Path) -> None:
    state = session.state
    seen = view(state)
    assert (seen.run_status, len(state.queue)) == (reference.status, len(reference.queue))
    assert len(state.pending_approvals) == (reference.status == "waiting_approval")
    assert len(list(folder.glob("*.txt"))) == reference.effects
    assert state.usage.runs == reference.runs_over + (reference.run is not None)
    calls = [call.id for m in state.messages if m.role == "assistant" for call in m.tool_calls]
    answers = [m.tool_call_id for m in state.messages if m.role == "tool"]
    assert calls[: len(answers)] == answers
    assert len(calls) - len(answers) == (reference.status == "waiting_approval")


async def live(operations: list[tuple[str, object, object]], base: Path) -> None:
    reference, hanging = Reference(), 0
    hung_first: dict[str, int] = {}

    def count(request: Request) -> Answer:
        nonlocal hanging
        answer = model(request, hung_first)
        hanging += answer.ends == "hang"
        return answer

    async def settled(session: Session, hung: int) -> None:
        """Until nothing runs, or the model hangs once more."""
        with anyio.fail_after(30):
            while not session.quiet and (hanging == hung or session.state.active_run is None):
                await anyio.sleep(0.001)

    async with ScriptedServer(count) as server:
        chosen = make_settings(base, server.url)
        home = make_home(chosen)
        session_id: str | None = None
        real: Real | None = None
        within = 3600.0
        lives = [[]]
        for operation in operations:
            if operation[0] == "restart":
                lives.append([])
            lives[-1].append(operation)
        for life in lives:
            within = 0.0 if life and life[0][0] == "restart" and life[0][1] else 3600.0
            changed = chosen.model_copy(update={"resume_within": within})
            async with Runtime.open(changed, {"OPENAI_API_KEY": "test-key"}) as runtime:
                hung = hanging
                session = await runtime.session(home, session_id)
                session_id = session.session_id
                real = Real(session) if real is None else Real(session, real.number, real.last_approval)
                if life and life[0][0] == "restart":
                    reference.restart(old=bool(life[0][1]))
                    session.recover()
                    await settled(session, hung)
                    compare(reference, session, home.work)
                for operation in life:
                    if operation[0] == "restart":
                        continue
                    hung = hanging if reference.status != "running" else -1
                    was_running = reference.status == "running"
                    wanted = expect(reference, operation)
                    answer = await real.do(operation)
                    got = answer.status if isinstance(answer, Refused) else 202
                    assert got == wanted, (operation, answer)
                    if reference.status == "running" and was_running and operation[0] != "stop":
                        continue  # it hangs on
                    await settled(session, hung if hung >= 0 else hanging)
                    compare(reference, session, home.work)
                    for approval in session.state.pending_approvals:
                        real.last_approval = approval.id
                await session.control(UpdateState(patch={"title": "end"}))
                state = State()
                for event in session.journal():
                    state = fold(state, event)
                assert state == session.state


def _check(operations: list[tuple[str, object, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(live, operations, Path(folder))


Check = Callable[[], Awaitable[None]]


@given(operations=st.lists(OPERATIONS, min_size=3, max_size=14))
@settings(max_examples=25, deadline=None)
def test_f1_f7_f10_any_series_of_controls_does_as_the_reference_says(
    operations: list[tuple[str, object, object]],
) -> None:
    _check(operations)


@pytest.mark.matrix
@pytest.mark.timeout(900)
@given(operations=st.lists(OPERATIONS, min_size=3, max_size=30))
@settings(max_examples=600, deadline=None)
def test_f1_f7_f10_any_long_series_of_controls_does_as_the_reference_says(
    operations: list[tuple[str, object, object]],
) -> None:
    _check(operations)
