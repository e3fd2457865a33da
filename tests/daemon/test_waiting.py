"""What waits for a person: it holds nothing, survives everything, is decided once, and is told apart from a no."""

import itertools
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted, Refused, Session
from harnessd.facts.control import Continue, Invoke, Resume, Stop, UpdateState
from harnessd.facts.event import (
    MessageCreated,
    RunFinished,
    RunParked,
    RunResumed,
    RunStarted,
    SubagentFinished,
    ToolApprovalResolved,
    ToolCallCompleted,
)
from harnessd.facts.message import text_of
from harnessd.journal.peek import peek
from harnessd.models.script import Answer, Request
from tests.daemon.living import Living, call, events, last_text, living, results
from tests.daemon.test_delegate import delegates, ended, is_child, scout, turns_of

WRITE = call("write", path="work/x.txt", content="x")
ASKS = [WRITE, Answer("Done.")]


@asynccontextmanager
async def restarted(one: Living, **settings: object) -> AsyncIterator[Runtime]:
    """Another process over the same homes, as far as that can be had in this one."""
    changed = one.runtime.settings.model_copy(update=settings)
    async with Runtime.open(changed, {"OPENAI_API_KEY": "test-key"}) as runtime:
        yield runtime


def allow(approval_id: str, **more: object) -> Resume:
    return Resume.model_validate({"approvalId": approval_id, "decision": "allow", **more})


async def decided(runtime: Runtime, one: Living, decision: str = "allow") -> Session:
    """Decides the one approval that waits, wherever it does; its session."""
    (waits,) = runtime.waiting()
    async with runtime.visit(one.home, waits.session_id) as session:
        answer = await session.control(Resume.model_validate({"approvalId": waits.approval.id, "decision": decision}))
        assert isinstance(answer, Accepted), answer
    return session


async def test_f1_a_session_that_waits_holds_nothing_and_is_listed_all_the_same(tmp_path: Path) -> None:
    async with living(tmp_path, ASKS, settings={"idle_seconds": 0}) as one:
        async with one.runtime.visit(one.home) as session:
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
            state = await session.idle()
        with anyio.fail_after(10):
            while one.runtime.sessions.open():
                await anyio.sleep(0.01)
        assert not one.runtime.models._histories._sessions, "the bytes of its messages are kept"
        (waits,) = one.runtime.waiting()
        assert waits.approval == state.pending_approvals[0]
        async with one.runtime.visit(one.home, session.session_id) as again:
            assert again is not session
            assert again.state.pending_approvals == state.pending_approvals
            assert isinstance(await again.control(allow(waits.approval.id)), Accepted)
            assert results(await again.idle()) == [("ok", "Wrote work/x.txt (1 line).")] or again.state.last_run
        assert one.runtime.waiting() == ()


async def test_f1_a_new_message_waits_behind_an_open_approval_and_says_so(tmp_path: Path) -> None:
    async with living(tmp_path, [*ASKS, Answer("Second.")]) as one:
        session, state = await one.say("go")
        approval = state.pending_approvals[0]
        answer = await session.control(Invoke(input="and this"))
        assert isinstance(answer, Accepted)
        assert (answer.run_id, answer.waiting_for) == (None, (approval.id,))
        assert isinstance(await session.control(Invoke(input="no", when_busy="reject")), Refused)
        assert session.state.pending_approvals == (approval,)
        assert isinstance(await session.control(allow(approval.id)), Accepted)
        state = await session.idle()
        assert last_text(state) == "Second."
        assert [m.role for m in state.messages if text_of(m) == "and this"] == ["user"]


@pytest.mark.parametrize("how", ["decided", "cancelled", "open", "expired"])
async def test_f1_an_approval_that_ran_out_or_was_withdrawn_is_never_a_denial(tmp_path: Path, how: str) -> None:
    header = "---\napprovalExpiry: 1h\n---\nAda.\n" if how != "open" else "Ada.\n"
    async with living(tmp_path, ASKS, **{"AGENTS.md": header}) as one:
        session, state = await one.say("go")
        (approval,) = state.pending_approvals
        assert (approval.expires_at is None) == (how == "open")
        if how == "decided":
            await session.control(Resume.model_validate({"approvalId": approval.id, "decision": "deny"}))
        elif how == "cancelled":
            await session.control(Resume.model_validate({"approvalId": approval.id, "decision": "cancel"}))
        elif how == "expired":
            assert approval.expires_at is not None
            assert datetime.fromisoformat(approval.expires_at) > datetime.now(UTC) + timedelta(minutes=55)
            return
        else:
            await session.control(Stop())
        state = await session.idle()
        (resolved,) = [e for e in events(session) if isinstance(e, ToolApprovalResolved)]
        (done,) = [e for e in events(session) if isinstance(e, ToolCallCompleted)]
        said = {"decided": ("denied", "denied"), "cancelled": ("cancelled", "cancelled")}
        assert (resolved.outcome, done.status) == said.get(how, ("cancelled", "cancelled"))
        assert not (one.home.path / "work/x.txt").exists()
        late = await session.control(allow(approval.id))
        assert isinstance(late, Refused)
        assert (late.status, late.current) == (409, resolved)


@pytest.mark.parametrize("open_meanwhile", [True, False])
async def test_f1_an_approval_runs_out_by_itself_also_in_a_session_that_is_not_open(
    tmp_path: Path, open_meanwhile: bool
) -> None:
    files = {"AGENTS.md": "---\napprovalExpiry: 1s\n---\nAda.\n"}
    idle = 60 if open_meanwhile else 0
    async with living(tmp_path, ASKS, settings={"idle_seconds": idle}, **files) as one:
        async with one.runtime.visit(one.home) as session:
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
            await session.idle()
        journal = one.home.journal("main", session.session_id)
        with anyio.fail_after(20):
            while b'"run.finished"' not in journal.read_bytes():
                await anyio.sleep(0.02)
        async with one.runtime.visit(one.home, session.session_id) as again:
            (resolved,) = [e for e in events(again) if isinstance(e, ToolApprovalResolved)]
            assert (resolved.outcome, resolved.by) == ("expired", "clock")
            assert results(again.state)[0][0] == "cancelled"
            late = await again.control(allow(resolved.approval_id))
            assert isinstance(late, Refused)
            assert late.current == resolved
            assert "expired" in late.message
        assert one.runtime.waiting() == ()


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("decision", ["allow", "deny", "cancel"])
@pytest.mark.parametrize("restart", [False, True])
async def test_f1_an_approval_of_a_grandchild_survives_and_reaches_the_person(
    tmp_path: Path, depth: int, decision: str, restart: bool
) -> None:
    def reply(request: Request) -> Answer:
        if not is_child(request):
            return [delegates(("scout", "level 1")), Answer("Top.")][turns_of(request)]
        deep = "level 1" in str(request.body["messages"])
        if deep and depth == 2:
            return [delegates(("scout", "deep")), Answer("Middle.")][turns_of(request)]
        return [WRITE, Answer("Leaf.")][turns_of(request)]

    async with living(tmp_path, reply, **scout("tools: delegate, write\n")) as one:
        session, state = await one.say("go")
        asked = len(one.requests)
        (waits,) = one.runtime.waiting()
        assert state.subagents[0].waiting[0].approval == waits.approval
        if restart:
            await one.runtime.sessions.close()
            async with restarted(one) as runtime:
                found = await runtime.recover()
                assert not found.unreadable
                assert runtime.waiting() == (waits,)
                assert runtime.running == 0
                leaf = await decided(runtime, one, decision)
                async with runtime.visit(one.home, session.session_id) as top:
                    with anyio.fail_after(20):
                        state = await ended(top)
        else:
            leaf = await decided(one.runtime, one, decision)
            with anyio.fail_after(20):
                state = await ended(session)
        assert last_text(state) == "Top."
        assert results(state) == [("ok", "Middle." if depth == 2 else "Leaf.")]
        assert len(one.requests) == asked + depth + 1
        done = [e for e in leaf.journal() if isinstance(e, ToolCallCompleted)]
        assert [e.status for e in done] == [{"allow": "ok", "deny": "denied", "cancel": "cancelled"}[decision]]
        assert (one.home.path / "work/x.txt").exists() == (decision == "allow")


@pytest.mark.parametrize("restart", [False, True])
async def test_f5_a_stop_ends_the_subagents_that_wait(tmp_path: Path, restart: bool) -> None:
    def reply(request: Request) -> Answer:
        if not is_child(request):
            return delegates(("scout", "level 1"), ("scout", "other"))
        if "level 1" in str(request.body["messages"]):
            return delegates(("scout", "deep"))
        return WRITE

    async with living(tmp_path, reply, **scout("tools: delegate, write\n")) as one:
        session, _ = await one.say("go")
        assert len(one.runtime.waiting()) == 2
        runtime, opened = one.runtime, session
        async with restarted(one) as again:
            if restart:
                await one.runtime.sessions.close()
                await again.recover()
                runtime, opened = again, await again.session(one.home, session.session_id)
            assert isinstance(await opened.control(Stop()), Accepted)
            with anyio.fail_after(20):
                state = await opened.idle()
            assert state.active_run is None
            assert [status for status, _ in results(state)] == ["cancelled", "cancelled"]
            assert {ref.status for ref in state.subagents} == {"stopped"}
            assert runtime.waiting() == ()
            for path in (one.home.path / "agents").glob("scout/sessions/*.jsonl"):
                async with runtime.visit(one.home, path.stem) as below:
                    assert below.state.active_run is None
                    assert below.state.pending_approvals == ()
                    finished = [e for e in below.journal() if isinstance(e, RunFinished)]
                    assert [e.reason for e in finished] == ["stopped"]
            assert len([e for e in opened.journal() if isinstance(e, SubagentFinished)]) == 2


async def test_f1_two_subagents_wait_and_each_goes_on_with_its_own_decision(tmp_path: Path) -> None:
    def reply(request: Request) -> Answer:
        if not is_child(request):
            return [delegates(("scout", "one"), ("scout", "two")), Answer("Top.")][turns_of(request)]
        name = "one" if '"one' in str(request.body["messages"]).replace("'", '"') else "two"
        return [call("write", path=f"work/{name}.txt", content=name), Answer(f"{name} done")][turns_of(request)]

    async with living(tmp_path, reply, **scout("tools: delegate, write\n")) as one:
        session, _ = await one.say("go")
        first, second = one.runtime.waiting()
        for waits, decision in ((first, "allow"), (second, "deny")):
            async with one.runtime.visit(one.home, waits.session_id) as below:
                asks = Resume.model_validate({"approvalId": waits.approval.id, "decision": decision})
                assert isinstance(await below.control(asks), Accepted)
        with anyio.fail_after(20):
            state = await ended(session)
        assert last_text(state) == "Top."
        assert len(one.requests) == 6
        written = {path.name for path in (one.home.path / "work").iterdir()}
        assert len(written) == 1


# --- a run that may not go on by itself


async def left_in_the_middle(one: Living) -> str:
    """A session whose process ended during its run's first request."""
    session = await one.runtime.session(one.home)
    assert isinstance(await session.control(Invoke(input="go")), Accepted)
    async for item in session.subscribe(0):
        if getattr(item, "type", "") == "turn.started":
            break
    while not one.requests:  # on its way; it would be taken for one of the next process
        await anyio.sleep(0.005)
    await one.runtime.sessions.close()
    return session.session_id


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("then", ["continue", "stop", "message"])
async def test_f10_a_run_that_was_interrupted_long_ago_waits_for_a_person(
    tmp_path: Path, safe: bool, then: str
) -> None:
    replies = itertools.chain([Answer("never", ends="hang", after=0)], itertools.repeat(Answer("Went on.")))
    async with living(tmp_path, lambda request: next(replies)) as one:
        session_id = await left_in_the_middle(one)
        asked = len(one.requests)
        async with restarted(one, resume_within=6 * 3600.0 if safe else 0.0) as runtime:
            found = await runtime.recover(safe=safe)
            assert (found.parked, found.resumed) == ([session_id], [])
            async with runtime.visit(one.home, session_id) as session:
                run = session.state.active_run
                assert run is not None
                assert run.status == "parked"
                (parked,) = [e for e in events(session) if isinstance(e, RunParked)]
                assert parked.reason == ("safe_mode" if safe else "too_old")
                assert parked.interrupted_at
                assert len(one.requests) == asked
                refused = await session.control(Continue(run_id="run_000000000-0000000", decision="continue"))
                assert isinstance(refused, Refused)
                if then == "stop":
                    assert isinstance(await session.control(Stop()), Accepted)
                    state = await session.idle()
                    assert state.last_run is not None
                    assert state.last_run.reason == "stopped"
                    assert len(one.requests) == asked
                    return
                if then == "message":
                    answer = await session.control(Invoke(input="hello?"))
                    assert isinstance(answer, Accepted)
                    assert answer.run_id is None
                    assert len(one.requests) == asked
                answer = await session.control(Continue(run_id=run.run_id, decision="continue"))
                assert isinstance(answer, Accepted)
                state = await session.idle()
                assert last_text(state) == "Went on."
                resumed = [e for e in events(session) if isinstance(e, RunResumed)]
                assert [e.reason for e in resumed] == ["continue"]
                runs = {e.run_id for e in events(session) if isinstance(e, RunStarted)}
                assert len(runs) == (2 if then == "message" else 1)
                again = await session.control(Continue(run_id=run.run_id, decision="continue"))
                assert isinstance(again, Refused)


async def test_f10_a_run_that_was_interrupted_just_now_goes_on(tmp_path: Path) -> None:
    replies = itertools.chain([Answer("never", ends="hang", after=0)], itertools.repeat(Answer("Went on.")))
    async with living(tmp_path, lambda request: next(replies)) as one:
        session_id = await left_in_the_middle(one)
        async with restarted(one) as runtime:
            found = await runtime.recover()
            assert (found.parked, found.resumed) == ([], [session_id])
            async with runtime.visit(one.home, session_id) as session:
                assert last_text(await session.idle()) == "Went on."
                (resumed,) = [e for e in events(session) if isinstance(e, RunResumed)]
                assert resumed.reason == "restart"
                assert resumed.interrupted_at


async def test_f7_a_patch_of_a_state_that_moved_is_a_conflict(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("Hi.")]) as one:
        session, state = await one.say("go")
        first, second = [
            await session.control(UpdateState(patch={"title": name}, expected_seq=state.seq)) for name in ("a", "b")
        ]
        assert isinstance(first, Accepted)
        assert isinstance(second, Refused)
        assert (second.status, second.current) == (409, first.seq)
        assert session.state.title == "a"


async def test_o2_a_drain_ends_the_turn_and_another_process_goes_on_without_repeating_it(tmp_path: Path) -> None:
    replies = [call("remember", text="Tea is black."), Answer("Went on.")]
    async with living(tmp_path, replies) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        await one.runtime.drain(10)
        refused = await session.control(Invoke(input="more"))
        assert isinstance(refused, Refused)
        assert refused.status == 503
        await one.runtime.sessions.close()
        async with restarted(one) as runtime:
            await runtime.recover()
            async with runtime.visit(one.home, session.session_id) as again:
                state = await again.idle()
                assert last_text(state) == "Went on."
                assert len(one.requests) == 2
                said = [e for e in events(again) if isinstance(e, MessageCreated) and e.message.role == "assistant"]
                assert len(said) == 2
                assert [e.status for e in events(again) if isinstance(e, ToolCallCompleted)] == ["ok"]


async def test_a_state_of_what_waits_is_the_fold_of_its_journal(tmp_path: Path) -> None:
    async with living(tmp_path, ASKS) as one:
        session, state = await one.say("go")
        journal = one.home.journal("main", session.session_id)
        assert peek(journal, one.home.checkpoint("main", session.session_id)) == state


def commit_all(one: Living) -> None:
    """The user commits what stands in the home."""
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost")
    for command in (("add", "-A"), (*who, "commit", "-qm", "mine")):
        subprocess.run(["git", "-C", str(one.home.path), *command], check=True)


async def test_f1_an_approval_whose_file_changed_is_cancelled_and_asked_anew(tmp_path: Path) -> None:
    edit = call("edit", path="KNOWLEDGE.md", edits=[{"old": "black", "new": "green"}])
    replies = [call("read", path="KNOWLEDGE.md"), edit, Answer("Done.")]
    async with living(tmp_path, replies, **{"KNOWLEDGE.md": "Tea is black.\n"}) as one:
        commit_all(one)
        session, state = await one.say("go")
        (first,) = state.pending_approvals
        assert first.base
        (one.home.path / "KNOWLEDGE.md").write_text("Tea is black.\nMine.\n")
        commit_all(one)
        assert isinstance(await session.control(allow(first.id)), Accepted)
        state = await session.idle()
        (second,) = state.pending_approvals
        assert second.id != first.id
        assert second.tool_call_id == first.tool_call_id
        assert second.base not in {first.base, None}
        late = await session.control(allow(first.id))
        assert isinstance(late, Refused)
        assert isinstance(late.current, ToolApprovalResolved)
        resolved = [e.outcome for e in events(session) if isinstance(e, ToolApprovalResolved)]
        assert resolved == ["allowed", "cancelled"]
        assert (one.home.path / "KNOWLEDGE.md").read_text() == "Tea is black.\nMine.\n"
        assert isinstance(await session.control(allow(second.id)), Accepted)
        await session.idle()
        assert (one.home.path / "KNOWLEDGE.md").read_text() == "Tea is green.\nMine.\n"


@pytest.mark.parametrize(
    ("edited", "status", "content"),
    [
        ({"path": "work/x.txt", "content": "edited"}, "ok", "edited"),
        ({"path": "work/x.txt", "content": 7}, "invalid", None),
        ({"path": "../out.txt", "content": "x"}, "denied", None),
    ],
)
async def test_f1_edited_arguments_are_those_that_count_and_are_judged_anew(
    tmp_path: Path, edited: dict[str, object], status: str, content: str | None
) -> None:
    async with living(tmp_path, ASKS) as one:
        session, state = await one.say("go")
        asks = allow(state.pending_approvals[0].id, arguments=edited)
        assert isinstance(await session.control(asks), Accepted)
        state = await session.idle()
        assert [found for found, _ in results(state)] == [status]
        file = one.home.path / "work/x.txt"
        assert (file.read_text() if file.exists() else None) == content


async def test_the_diff_of_an_approval_names_the_file_as_the_home_knows_it(tmp_path: Path) -> None:
    async with living(tmp_path, ASKS) as one:
        _, state = await one.say("go")
        assert (state.pending_approvals[0].diff or "").splitlines()[:2] == ["--- /dev/null", "+++ b/work/x.txt"]
