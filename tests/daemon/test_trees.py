"""A tree of subagents comes to its end, whatever is decided, stopped, killed or lost, and leaves nobody behind."""

import random
import shutil
from collections import Counter
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Session
from harnessd.facts.control import Continue, Invoke, Resume, Stop
from harnessd.facts.event import Event
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.journal.records import read_events
from harnessd.journal.standing import standing
from harnessd.models.script import Answer, Call, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings
from tests.daemon.test_delegate import is_child, scout, task_of, turns_of

DEEPEST = 3
LIVES = 4
STEPS = 6
LONG = 20.0


class Wild:
    """A model that delegates and asks, a person who decides at any moment, a process that is killed at any other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked = 0

    def model(self, request: Request) -> Answer:
        depth = int(task_of(request).split()[1]) if is_child(request) else 0
        latency = self.random.choice([0, 0, 0.01, 0.05])
        if turns_of(request) >= self.random.choice([1, 1, 2]):
            return Answer("Done.", latency_s=latency)
        count = self.random.choice([1, 1, 2, 3])
        return Answer(calls=tuple(self._call(depth) for _ in range(count)), latency_s=latency)

    def _call(self, depth: int) -> Call:
        self.asked += 1
        write = Call("write", {"path": f"work/{self.asked}.txt", "content": "x"})
        delegate = Call("delegate", {"agent": "scout", "task": f"depth {depth + 1} number {self.asked}"})
        read = Call("read", {"path": "AGENTS.md"})
        return self.random.choice([write, read, delegate, delegate] if depth < DEEPEST else [write, write, read])

    async def step(self, runtime: Runtime, home: Home, session: Session) -> None:
        waits = runtime.waiting()
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3 if waits:
                await self.decide(runtime, home)
            case 4:
                await session.control(Invoke(input="more", when_busy=self.random.choice(["queue", "steer"])))  # type: ignore[arg-type]
            case 5 if self.random.random() < 0.3:
                await session.control(Stop())
            case 6 if self.random.random() < 0.5 and (below := journals(home, "scout")):
                async with runtime.visit(home, self.random.choice(below).stem) as child:
                    await child.control(Stop())
            case _:
                await anyio.sleep(self.random.choice([0, 0.01, 0.03, 0.1]))

    async def decide(self, runtime: Runtime, home: Home) -> None:
        one = self.random.choice(runtime.waiting())
        async with runtime.visit(home, one.session_id) as session, anyio.create_task_group() as group:
            for _ in range(self.random.choice([1, 2])):
                decision = self.random.choice(["allow", "deny", "cancel"])
                group.start_soon(session.control, Resume(approval_id=one.approval.id, decision=decision))  # type: ignore[arg-type]

    def cut(self, home: Home) -> None:
        """Every journal by itself loses some of its last records."""
        for path in journals(home):
            lines = path.read_bytes().splitlines(keepends=True)
            left = lines[: max(1, len(lines) - self.random.choice([0, 0, 1, 2, 5, 12]))]
            path.write_bytes(b"".join(left))


def journals(home: Home, agent: str = "*") -> list[Path]:
    return sorted((home.path / "agents").glob(f"{agent}/sessions/*.jsonl"))


async def settle(runtime: Runtime, home: Home, session: Session, wild: Wild) -> None:
    """Decides what waits and lets go on what is parked, until nothing is left to do."""
    still = 0
    with anyio.fail_after(LONG):
        while session.state.active_run is not None or session.state.queue:
            run = session.state.active_run
            if runtime.running:
                still = 0
            elif session.parked:
                run_id = run.run_id if run else session.state.queue[0].run_id or ""
                await session.control(Continue(run_id=run_id, decision="continue"))
            elif runtime.waiting():
                await wild.decide(runtime, home)
            else:
                still += 1
                assert still < 50, f"nothing runs and nothing waits: {run}"
            await anyio.sleep(0.01)


@pytest.mark.parametrize("seed", range(5))
async def test_f1_f2_f4_a_tree_comes_to_its_end(tmp_path: Path, seed: int) -> None:
    await grow(tmp_path, seed)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(5, 60))
async def test_f1_f2_f4_many_trees_come_to_their_ends(tmp_path: Path, seed: int) -> None:
    await grow(tmp_path, seed)


async def grow(base: Path, seed: int) -> None:
    wild = Wild(seed)
    pick = wild.random
    async with ScriptedServer(wild.model) as server:
        settings = make_settings(base, server.url, idle_seconds=pick.choice([0, 0, 30]))
        home = make_home(settings, **scout("tools: delegate, write, read\n"))
        kept = base / "kept"
        session_id: str | None = None
        for life in range(LIVES):
            async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
                found = await runtime.recover(safe=life > 0 and pick.random() < 0.3)
                assert found.unreadable == []
                async with runtime.visit(home, session_id) as session:
                    if session_id is None:
                        await session.control(Invoke(input="go"))
                    session_id = session.session_id
                    for _ in range(pick.randrange(STEPS)):
                        await wild.step(runtime, home, session)
                    if life == LIVES - 1:
                        await settle(runtime, home, session, wild)
                    elif pick.random() < 0.3:
                        await runtime.drain(pick.choice([0, 0.05, 5]))
                killed = life < LIVES - 1 and pick.random() < 0.5
                if killed:  # what is on disk at this moment is what the next one finds
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(home.path / "agents", kept)
            if killed:
                shutil.rmtree(home.path / "agents")
                shutil.copytree(kept, home.path / "agents")
            if life < LIVES - 1 and pick.random() < 0.5:
                wild.cut(home)
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            await runtime.recover()  # whoever lost the one that it worked for is found at the latest now
            with anyio.fail_after(LONG):
                while runtime.running:
                    await anyio.sleep(0.01)
            assert runtime.waiting() == ()
    for path in journals(home):
        check(path)


def check(path: Path) -> None:
    """Nothing is left to do, each run has one end, each call one result, each approval one outcome."""
    journal = list(read_events(path))
    assert standing(path).word == "quiet", path
    state = State()
    for event in journal:
        state = fold(state, event)
    assert state.active_run is None
    assert state.pending_approvals == ()
    assert all(ref.status not in {"running", "waiting"} for ref in state.subagents)
    assert set(ids(journal, "run.started", "run_id")) == set(ids(journal, "run.finished", "run_id"))
    assert (
        ids(journal, "tool.call.created", "tool_call_id").keys()
        <= ids(journal, "tool.call.completed", "tool_call_id").keys()
    )
    for kind, name in [
        ("run.finished", "run_id"),
        ("tool.call.completed", "tool_call_id"),
        ("tool.approval_resolved", "approval_id"),
    ]:
        assert all(count == 1 for count in ids(journal, kind, name).values()), (path, kind)
    asked = [c.id for m in state.messages if m.role == "assistant" for c in m.tool_calls]
    assert asked == [m.tool_call_id for m in state.messages if m.role == "tool"]


def ids(journal: list[Event], kind: str, name: str) -> Counter[str]:
    return Counter(str(getattr(event, name)) for event in journal if event.type == kind)
