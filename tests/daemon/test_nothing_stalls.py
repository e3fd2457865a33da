"""Nothing that waits stays when nobody can decide it, and nothing odd in one session reaches another."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted, Refused, Session
from harnessd.errors import Conflict, StorageError
from harnessd.facts.control import Continue, Invoke, Stop
from harnessd.facts.event import (
    Event,
    RunFinished,
    RunParked,
    SessionCreated,
    SubagentFinished,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallRunning,
)
from harnessd.home.layout import Home
from harnessd.journal.file import Disk
from harnessd.journal.line import encode
from harnessd.journal.records import read_events
from harnessd.journal.standing import standing
from harnessd.models.script import Answer, Call, Request
from tests.daemon.living import events, living, results
from tests.daemon.test_delegate import delegates, ended, is_child, scout, turns_of
from tests.daemon.test_waiting import ASKS, WRITE, allow, decided, restarted

HELPER = scout("tools: delegate, write\n")


def a_helper_asks(request: Request) -> Answer:
    """The main agent delegates, and what it delegates to asks."""
    if is_child(request):
        return [WRITE, Answer("Leaf.")][turns_of(request)]
    return [delegates(("scout", "task")), Answer("Top.")][turns_of(request)]


def rewrite(path: Path, change: Callable[[Event], Event | None]) -> None:
    """A journal as somebody else left it; None leaves a record out."""
    changed = [one for event in list(read_events(path)) if (one := change(event)) is not None]
    path.write_bytes(b"".join(encode(one) for one in changed))


def below(home: Home) -> Path:
    (path,) = (home.path / "agents").glob("scout/sessions/*.jsonl")
    return path


async def quiet(runtime: Runtime) -> None:
    with anyio.fail_after(20):
        while runtime.running:
            await anyio.sleep(0.01)


async def until(session: Session, kind: type[Event]) -> None:
    async for item in session.subscribe(0):
        if isinstance(item, kind):
            return


# --- while the run is under way


async def test_f1_what_is_decided_while_a_subagent_works_does_not_wait_for_what_that_asks(tmp_path: Path) -> None:
    go = asyncio.Event()

    def reply(request: Request) -> Answer:
        if is_child(request):
            return [Answer(calls=(Call("write", {"path": "work/c", "content": "x"}),), release=go), Answer("Leaf.")][
                turns_of(request)
            ]
        both = (Call("write", {"path": "work/own", "content": "x"}), Call("delegate", {"agent": "scout", "task": "t"}))
        return [Answer(calls=both), Answer("Top.")][turns_of(request)]

    async with living(tmp_path, reply, **HELPER) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        await until(session, ToolApprovalRequired)
        assert isinstance(await session.control(allow(session.state.pending_approvals[0].id)), Accepted)
        go.set()
        with anyio.fail_after(20):
            while not (one.home.path / "work/own").exists():
                await anyio.sleep(0.01)
        await quiet(one.runtime)
        (waits,) = one.runtime.waiting()
        assert waits.agent_id == "scout"
        await decided(one.runtime, one)
        with anyio.fail_after(20):
            state = await ended(session)
        assert [status for status, _ in results(state)] == ["ok", "ok"]


async def test_o2_a_task_that_is_given_during_a_drain_is_done_in_the_next_process(tmp_path: Path) -> None:
    go = asyncio.Event()

    def reply(request: Request) -> Answer:
        if is_child(request):
            return Answer("Leaf.")
        first = Answer(calls=delegates(("scout", "task")).calls, release=go)
        return [first, Answer("Top.")][turns_of(request)]

    async with living(tmp_path, reply, **HELPER) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        with anyio.fail_after(20):
            while not one.requests:
                await anyio.sleep(0.01)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.runtime.drain, 10)
            await anyio.sleep(0)
            go.set()
        await one.runtime.sessions.close()
        async with restarted(one) as runtime:
            await runtime.recover()
            async with runtime.visit(one.home, session.session_id) as again:
                state = await again.idle()
                assert results(state) == [("ok", "Leaf.")]
                assert [e.subagent.status for e in events(again) if isinstance(e, SubagentFinished)] == ["completed"]


async def test_l5_a_subagent_that_is_stopped_while_it_waits_is_paid_for(tmp_path: Path) -> None:
    async with living(tmp_path, a_helper_asks, **HELPER) as one:
        session, _ = await one.say("go")
        assert isinstance(await session.control(Stop()), Accepted)
        state = await session.idle()
        (ref,) = state.subagents
        assert (ref.status, ref.usage.input_tokens) == ("stopped", 11)
        assert state.usage.total.input_tokens == 11 + 11


async def test_f1_what_waits_is_listed_at_every_moment_while_its_session_is_let_go(tmp_path: Path) -> None:
    async with living(tmp_path, ASKS, settings={"idle_seconds": 0}) as one:
        async with one.runtime.visit(one.home) as session:
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
            await session.idle()
        with anyio.fail_after(20):
            while one.runtime.sessions.open():
                assert len(one.runtime.waiting()) == 1
                await anyio.sleep(0)
        assert len(one.runtime.waiting()) == 1


# --- what runs out


@pytest.mark.parametrize("safe", [False, True])
async def test_f1_a_run_whose_approval_ran_out_meanwhile_goes_on_when_its_session_is_opened(
    tmp_path: Path, safe: bool
) -> None:
    async with living(tmp_path, ASKS) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()
        path = one.home.journal("main", session.session_id)
        rewrite(path, lambda event: expiring(event, "2020-01-01T00:00:00.000Z"))
        async with restarted(one, resume_within=0.0) as runtime:
            runtime.safe = safe
            async with runtime.visit(one.home, session.session_id) as again:
                state = await again.idle()
                (resolved,) = [e for e in events(again) if isinstance(e, ToolApprovalResolved)]
                assert resolved.outcome == "expired"
                assert [e.reason for e in events(again) if isinstance(e, RunParked)] == ["safe_mode"] * safe
                if safe:
                    assert state.active_run is not None
                    go_on = Continue(run_id=state.active_run.run_id, decision="continue")
                    assert isinstance(await again.control(go_on), Accepted)
                    state = await again.idle()
                assert [status for status, _ in results(state)] == ["cancelled"]
                assert state.active_run is None


def expiring(event: Event, at: str) -> Event:
    if not isinstance(event, ToolApprovalRequired):
        return event
    return event.model_copy(update={"approval": event.approval.model_copy(update={"expires_at": at})})


@pytest.mark.parametrize("at", ["soon", "", "9999-99-99", "2999-01-01T00:00:00", "2999-01-01"])
@pytest.mark.parametrize("is_open", [False, True])
async def test_f9_a_time_that_cannot_be_read_or_has_no_zone_ends_nothing(
    tmp_path: Path, at: str, is_open: bool
) -> None:
    async with living(tmp_path, ASKS) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()
        rewrite(one.home.journal("main", session.session_id), lambda event: expiring(event, at))
        async with restarted(one, idle_seconds=0 if not is_open else 60) as runtime:
            await runtime.recover()
            (waits,) = runtime.waiting()
            if is_open:
                await runtime.session(one.home, session.session_id)
            runtime.sessions.look()
            await anyio.sleep(0.05)
            await decided(runtime, one)
            async with runtime.visit(one.home, waits.session_id) as again:
                assert (await again.idle()).active_run is None


# --- what a former process left


@pytest.mark.parametrize("how", ["goes on", "safe", "too old"])
async def test_f10_a_decision_whose_run_could_not_be_woken_is_found_at_the_next_start(tmp_path: Path, how: str) -> None:
    async with living(tmp_path, a_helper_asks, **HELPER) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()
        async with restarted(one) as holder, restarted(one) as other:
            # The run at the top belongs to another process meanwhile.
            await holder.session(one.home, session.session_id)
            await other.recover()
            await decided(other, one)
            await other.sessions.close()
        async with restarted(one, resume_within=0.0 if how == "too old" else 3600.0) as runtime:
            found = await runtime.recover(safe=how == "safe")
            async with runtime.visit(one.home, session.session_id) as again:
                if how != "goes on":
                    assert found.parked == [session.session_id]
                    assert again.parked
                    await quiet(runtime)
                    assert not (one.home.path / "work/x.txt").exists()
                    assert again.state.active_run is not None
                    go_on = Continue(run_id=again.state.active_run.run_id, decision="continue")
                    assert isinstance(await again.control(go_on), Accepted)
                with anyio.fail_after(20):
                    state = await ended(again)
                assert results(state) == [("ok", "Leaf.")]
                assert (one.home.path / "work/x.txt").exists()


@pytest.mark.parametrize("left", ["gone", "over", "another call", "deleted record"])
@pytest.mark.parametrize("then", ["recover", "decide", "stop"])
async def test_f2_a_subagent_that_nobody_waits_for_any_more_is_ended(tmp_path: Path, left: str, then: str) -> None:
    def lose(event: Event) -> Event | None:
        if left == "over" and event.type == "subagent.waiting":
            return RunFinished(seq=event.seq, at=event.at, run_id=event.run_id, session_id=event.session_id)
        if left == "another call" and event.type in {"tool.call.created", "tool.call.running"}:
            return None
        if left == "another call" and getattr(event, "message", None) is not None and event.type == "message.created":
            return None if event.message.role == "assistant" else event  # type: ignore[attr-defined]
        return event

    async with living(tmp_path, a_helper_asks, **HELPER) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()
        top = one.home.journal("main", session.session_id)
        if left == "gone":
            top.unlink()
        elif left == "deleted record":
            rewrite(below(one.home), lambda event: None if isinstance(event, SessionCreated) else without_parent(event))
        else:
            rewrite(top, lose)
        async with restarted(one) as runtime:
            if then == "recover":
                await runtime.recover()
            else:
                async with runtime.visit(one.home, below(one.home).stem) as child:
                    assert isinstance(await child.control(Invoke(input="work for me")), Refused)
                    (approval,) = child.state.pending_approvals
                    wanted = Stop() if then == "stop" else allow(approval.id)
                    assert isinstance(await child.control(wanted), Accepted)
            with anyio.fail_after(20):
                while standing(below(one.home)).word != "quiet":
                    await anyio.sleep(0.01)
            assert not [waits for waits in runtime.waiting() if waits.agent_id == "scout"]
        done = [e for e in read_events(below(one.home)) if isinstance(e, ToolCallCompleted)]
        assert [e.status for e in done] == ["cancelled"]
        assert not (one.home.path / "work/x.txt").exists()


def without_parent(event: Event) -> Event:
    return event.model_copy(update={"parent": None}) if event.type == "run.started" else event


async def test_f3_a_subagent_whose_first_record_is_lost_still_works_for_its_run_alone(tmp_path: Path) -> None:
    async with living(tmp_path, a_helper_asks, **HELPER) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()
        rewrite(below(one.home), lambda event: None if isinstance(event, SessionCreated) else event)
        async with restarted(one) as runtime:
            await runtime.recover()
            (waits,) = runtime.waiting()
            assert (waits.agent_id, waits.session_id) == ("scout", below(one.home).stem)
            await decided(runtime, one)
            async with runtime.visit(one.home, session.session_id) as again:
                with anyio.fail_after(20):
                    assert results(await ended(again)) == [("ok", "Leaf.")]


async def test_f9_sessions_that_work_for_each_other_end_and_hinder_nobody(tmp_path: Path) -> None:
    async with living(tmp_path, a_helper_asks, **HELPER) as one:
        await one.say("go")
        await one.runtime.sessions.close()
        path = below(one.home)

        def own_parent(event: Event) -> Event:
            if not isinstance(event, SessionCreated) or event.parent is None:
                return event
            return event.model_copy(update={"parent": event.parent.model_copy(update={"session_id": path.stem})})

        rewrite(path, own_parent)
        async with restarted(one) as runtime:
            with anyio.fail_after(20):
                await runtime.recover()
            assert standing(path).word == "quiet"


async def test_f2_a_call_that_a_crash_cut_off_is_seen_to_although_another_waits(tmp_path: Path) -> None:
    both = (Call("remember", {"text": "Tea is black."}), Call("write", {"path": "work/x.txt", "content": "x"}))

    async with living(tmp_path, [Answer(calls=both), Answer("Done.")]) as one:
        session, state = await one.say("go")
        await one.runtime.sessions.close()
        first = state.active_run.calls[0].call.id if state.active_run else ""
        path = one.home.journal("main", session.session_id)
        rewrite(path, lambda e: None if isinstance(e, ToolCallCompleted) and e.tool_call_id == first else e)
        assert [e.tool_call_id for e in read_events(path) if isinstance(e, ToolCallRunning)] == [first]
        async with restarted(one) as runtime:
            assert (await runtime.recover()).resumed == [session.session_id]
            await quiet(runtime)
            (waits,) = runtime.waiting()
            (done,) = [e for e in read_events(path) if isinstance(e, ToolCallCompleted)]
            assert done.status == "outcome_unknown"
            assert waits.approval == state.pending_approvals[0]


class Full(Disk):
    """Takes nothing once it is full."""

    full = False

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left")
        return super().write(fd, data, offset)


async def test_f9_a_session_that_could_not_be_opened_on_a_full_disk_can_be_once_there_is_room(tmp_path: Path) -> None:
    disk = Full()
    async with living(tmp_path, ASKS, disk=disk) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()
        path = one.home.journal("main", session.session_id)
        rewrite(path, lambda event: expiring(event, "2020-01-01T00:00:00.000Z"))
        disk.full = True
        with pytest.raises(StorageError, match="full"):
            await one.runtime.session(one.home, session.session_id)
        disk.full = False
        again = await one.runtime.session(one.home, session.session_id)
        assert (await again.idle()).active_run is None


async def test_f9_what_waits_in_a_home_that_was_removed_is_forgotten_and_ends_nothing(tmp_path: Path) -> None:
    async with living(tmp_path, ASKS, settings={"idle_seconds": 0}) as one:
        async with one.runtime.visit(one.home) as session:
            await session.control(Invoke(input="go"))
            await session.idle()
        with anyio.fail_after(20):
            while one.runtime.sessions.open():
                await anyio.sleep(0.01)
        one.home.path.rename(tmp_path / "elsewhere")
        await one.runtime._expire(one.home.path, session.session_id)
        assert one.runtime.waiting() == ()


class Ill(Disk):
    """Refuses what is written to journals of one agent."""

    agent = ""

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        if self.agent and f"/agents/{self.agent}/" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            raise OSError(errno.EIO, "Input/output error")
        return super().write(fd, data, offset)


async def test_f5_a_subagent_that_cannot_be_written_keeps_no_run_from_being_stopped(tmp_path: Path) -> None:
    def reply(request: Request) -> Answer:
        if not is_child(request):
            return delegates(("scout", "one"), ("explore", "two"))
        return Answer("never", ends="hang", after=0)

    disk = Ill()
    async with living(tmp_path, reply, disk=disk, **HELPER) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        with anyio.fail_after(20):
            while len(one.requests) < 3:
                await anyio.sleep(0.01)
            disk.agent = "scout"
            assert isinstance(await session.control(Stop()), Accepted)
            state = await session.idle()
        assert state.active_run is None
        assert state.last_run is not None
        assert state.last_run.reason == "stopped"
        disk.agent = ""
        assert {ref.agent_id: ref.status for ref in state.subagents}["explore"] == "stopped"
        async with restarted(one) as runtime:
            await one.runtime.sessions.close()
            await runtime.recover()
            assert standing(below(one.home)).word == "quiet"


async def test_f3_a_session_that_is_being_opened_when_all_are_closed_is_not_kept_locked(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("Hi."), Answer("Again.")]) as one:
        session, _ = await one.say("go")
        await one.runtime.sessions.close()

        async def look() -> None:
            async with one.runtime.visit(one.home, session.session_id):
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            while not one.runtime.sessions._doors:
                await anyio.sleep(0)
            await one.runtime.sessions.close(last=True)
        with pytest.raises(Conflict, match="ending"):
            await one.runtime.session(one.home, session.session_id)
        async with restarted(one) as runtime:
            assert (await runtime.session(one.home, session.session_id)).quiet
