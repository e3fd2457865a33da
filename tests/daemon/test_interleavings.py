"""Any interleaving of controls, failures, stops and restarts leaves a session whose facts add up and that goes on."""

import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Session
from harnessd.facts.control import Invoke, Resume, Stop, UpdateState
from harnessd.facts.event import Event
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.models.script import Answer, Call, Refusal, Request, ScriptedReply
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings

STEPS = 30


class Chaos:
    """A model that says anything, a person who does anything, a process that ends at any moment."""

    def __init__(self, seed: int, base: Path) -> None:
        self.random = random.Random(seed)
        self.base = base
        self.said = 0

    def model(self, request: Request) -> ScriptedReply:
        pick, self.said = self.random, self.said + 1
        latency = pick.choice([0, 0, 0, 0.01, 0.05])
        kind = pick.randrange(14)
        if kind < 4:
            return Answer(f"Answer {self.said}.", latency_s=latency, piece=pick.choice([0, 3]))
        if kind < 9:
            calls = tuple(self._call(number) for number in range(pick.choice([1, 1, 2, 4])))
            return Answer(pick.choice(["", "Let me see."]), calls=calls, latency_s=latency)
        return pick.choice(
            [
                Answer("Cut short", piece=2, ends="cut", after=2),
                Answer("Never ends", piece=2, ends="hang", after=2),
                Answer(""),
                Refusal(503, "busy", (("retry-after", "0"),)),
                Refusal(400, {"error": {"code": "context_length_exceeded", "message": "maximum context length"}}),
                Answer(calls=(Call("no_such_tool"), Call("read", '{"path": "AGEN'))),
                Answer(calls=(Call("read", {"path": "AGENTS.md"}, id="same"), Call("read", {"path": "."}, id="same"))),
            ]
        )

    def _call(self, number: int) -> Call:
        name = f"work/{self.said}-{number}.txt"
        return self.random.choice(
            [
                Call("read", {"path": self.random.choice(["AGENTS.md", "MEMORY.md", "work"])}),
                Call("write", {"path": name, "content": str(self.said)}),
                Call("todo", {"todos": [{"text": f"thing {self.said}", "status": "open"}]}),
                Call("remember", {"fact": f"The number of this fact is {self.said}-{number}."}),
                Call("write", {"path": f"skills/s{self.said}/SKILL.md", "content": "no header"}),
            ]
        )

    async def person(self, session: Session, number: int) -> None:
        pick, state = self.random, session.state
        match pick.randrange(9):
            case 0 | 1 | 2:
                busy = pick.choice(["queue", "queue", "steer", "reject"])
                await session.control(Invoke(input=f"input {number}", when_busy=busy))  # type: ignore[arg-type]
            case 3 | 4 if state.pending_approvals:
                approval = pick.choice(state.pending_approvals)
                decisions = [
                    Resume(approval_id=approval.id, decision=pick.choice(["allow", "deny"]))  # type: ignore[arg-type]
                    for _ in range(pick.choice([1, 3]))
                ]
                async with anyio.create_task_group() as group:
                    for decision in decisions:
                        group.start_soon(session.control, decision)
            case 5:
                run = state.active_run.run_id if state.active_run else None
                scope = pick.choice(["run", "run", "session"])
                await session.control(Stop(run_id=pick.choice([None, run]), scope=scope))  # type: ignore[arg-type]
            case 6:
                patch = {"workspaceContext": {"n": number}, "mode": pick.choice(["default", "acceptEdits", "plan"])}
                await session.control(UpdateState(patch=patch))
            case _:
                await anyio.sleep(pick.choice([0, 0.005, 0.02, 0.1]))


async def settle(session: Session) -> State:
    """Decides what waits and ends what hangs, until nothing is left to do."""
    for _ in range(200):
        with anyio.move_on_after(2.0) as patience:
            await session.idle()
        if patience.cancelled_caught:
            await session.control(Stop())
        elif session.state.pending_approvals:
            await session.control(Resume(approval_id=session.state.pending_approvals[0].id, decision="allow"))
        elif session.state.active_run is None and not session.state.queue:
            return session.state
    raise AssertionError(f"never settles: {session.state.active_run}, {session.state.queue}")


@pytest.mark.parametrize("seed", range(6))
async def test_f1_f2_f4_any_interleaving_adds_up(tmp_path: Path, seed: int) -> None:
    chaos = Chaos(seed, tmp_path)
    await live_through(chaos)


async def live_through(chaos: Chaos) -> None:
    async with ScriptedServer(chaos.model) as server:
        settings = make_settings(chaos.base, server.url)
        home = make_home(settings)
        session_id: str | None = None
        number = 0
        for life in range(4):
            async with AsyncExitStack() as stack:
                stack.enter_context(anyio.fail_after(90))
                runtime = await stack.enter_async_context(Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}))
                session = await runtime.session(home, session_id)
                session_id = session.session_id
                session.recover()
                for _ in range(STEPS // 4):
                    number += 1
                    await chaos.person(session, number)
                if life == 3:
                    await settle(session)
                    # A control is answered when all before it is on disk; a checkpoint's mark may come later by itself.
                    await session.control(UpdateState(patch={"title": "settled"}))
                    check(list(session.journal()), session.state, server.requests, home)


def check(journal: list[Event], state: State, requests: list[Request], home: Home) -> None:
    folded = State()
    for event in journal:
        folded = fold(folded, event)
    assert folded == state
    by_type = {kind: [event for event in journal if event.type == kind] for kind in {event.type for event in journal}}
    started = [event.run_id for event in by_type.get("run.started", [])]
    finished = [event.run_id for event in by_type.get("run.finished", [])]
    assert started == finished, "each run has one ending, and one run at a time"
    asked = Counter(event.approval.id for event in by_type.get("tool.approval_required", []))  # type: ignore[attr-defined]
    resolved = Counter(event.approval_id for event in by_type.get("tool.approval_resolved", []))  # type: ignore[attr-defined]
    assert asked == resolved, "each approval is resolved once"
    created = Counter(event.tool_call_id for event in by_type.get("tool.call.created", []))  # type: ignore[attr-defined]
    completed = Counter(event.tool_call_id for event in by_type.get("tool.call.completed", []))  # type: ignore[attr-defined]
    assert not created or max(created.values()) == 1
    assert not completed or max(completed.values()) == 1
    assert set(created) <= set(completed), "each call that was taken up has its result on record"
    effects = Counter(
        event.tool_call_id  # type: ignore[attr-defined]
        for event in by_type.get("tool.call.running", [])
        if any(
            one.tool_call_id == event.tool_call_id and one.effect == "write" and not one.idempotent  # type: ignore[attr-defined]
            for one in by_type["tool.call.created"]
        )
    )
    assert not effects or max(effects.values()) == 1, "a writer runs once"
    unanswered = [
        m for m in state.messages if m.role == "tool" and "No result of this call is on record" in str(m.parts)
    ]
    assert not unanswered
    check_order(journal)
    turns = sum(event.usage.input_tokens for event in by_type.get("run.finished", []))  # type: ignore[attr-defined]
    assert state.usage.total.input_tokens == turns
    for request in requests:
        check_wire(request)


def check_order(journal: list[Event]) -> None:
    """Messages that queued enter in their order, and none is lost but by a stop of the whole session."""
    waiting: list[str] = []
    steering: set[str] = set()
    running: str | None = None
    for event in journal:
        if event.type == "run.started":
            running = event.trigger.message_id  # type: ignore[attr-defined]
        elif event.type == "run.finished":
            running = None
        if event.type == "message.queued":
            waiting.append(event.message.id)  # type: ignore[attr-defined]
            if event.when == "steer":  # type: ignore[attr-defined]
                steering.add(event.message.id)  # type: ignore[attr-defined]
        elif event.type == "run.stop_requested" and event.scope == "session":  # type: ignore[attr-defined]
            kept = running or (waiting[0] if waiting and event.run_id else "")
            waiting = [one for one in waiting if one == kept]
        elif event.type == "message.created" and event.message.id in waiting:  # type: ignore[attr-defined]
            entered = event.message.id  # type: ignore[attr-defined]
            before = [one for one in waiting[: waiting.index(entered)] if one not in steering]
            assert not before or entered in steering
            waiting.remove(entered)


def check_wire(request: Request) -> None:
    """Each call in a request has its one result, next to it and in order."""
    messages = request.body["messages"]
    at = 0
    while at < len(messages):
        asked = [entry["id"] for entry in messages[at].get("tool_calls") or ()]
        told = [one.get("tool_call_id") for one in messages[at + 1 : at + 1 + len(asked)]]
        assert told == asked
        at += 1 + len(asked)
        assert at >= len(messages) or messages[at]["role"] != "tool"
