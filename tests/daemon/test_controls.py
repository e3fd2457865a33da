"""Controls at awkward moments: before a run began, while it waits, between its parts, after the session closed."""

import asyncio
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted, Refused, Session
from harnessd.errors import HarnessdError, StorageError
from harnessd.facts.control import Invoke, Resume, Stop, UpdateState
from harnessd.facts.event import MessageQueued, SessionCreated, ToolApprovalResolved
from harnessd.facts.message import JsonObject, TextPart, UserMessage, text_of
from harnessd.facts.run import Trigger
from harnessd.facts.state import State
from harnessd.home.layout import Home
from harnessd.ids import new_id
from harnessd.journal.committer import Committer
from harnessd.journal.file import Disk
from harnessd.journal.ledger import Ledger
from harnessd.models.script import Answer, Call, Refusal, Silence
from tests.daemon.living import call, events, last_text, living, make_home, make_settings, results

SLOW_SERVER = """{"mcpServers": {"slow": {"command": "sleep", "args": ["60"]}}}"""


def reasons(session: Session) -> list[tuple[str | None, str]]:
    """The run and reason of each ending, in order."""
    return [(event.run_id, event.reason) for event in events(session) if event.type == "run.finished"]  # type: ignore[attr-defined]


async def promised(home: Home, run_id: str, *texts: str) -> str:
    """A session whose messages are on disk, the first with the promise of a run, and nothing has begun."""
    session_id, committer = new_id("ses"), Committer()
    places = home.journal("main", session_id), home.checkpoint("main", session_id)
    ledger = await Ledger.open(*places, session_id=session_id, agent_id="main", committer=committer)
    ledger.record(SessionCreated())
    for number, text in enumerate(texts):
        message = UserMessage(id=new_id("msg"), parts=(TextPart(text=text),))
        trigger = Trigger(message_id=message.id)
        ledger.record(MessageQueued(run_id=None if number else run_id, message=message, trigger=trigger))
    await ledger.close()
    committer.close()
    return session_id


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("scope", ["run", "session"])
async def test_f5_a_run_is_stopped_before_it_began(tmp_path: Path, named: bool, scope: str) -> None:
    async with living(tmp_path, [Answer("never asked")]) as one:
        session = await one.runtime.session(one.home, await promised(one.home, "run_1", "go", "and then?"))
        answer = await session.control(Stop(run_id="run_1" if named else None, scope=scope))  # type: ignore[arg-type]
        assert isinstance(answer, Accepted)
        assert answer.run_id == "run_1"
        state = await session.idle()
        assert reasons(session)[0] == ("run_1", "stopped")
        assert len(reasons(session)) == (2 if scope == "run" else 1)
        assert len(one.requests) == (1 if scope == "run" else 0)
        assert state.queue == ()
        said = [text_of(m) for m in state.messages if m.role == "user" and m.kind == "input"]
        assert said[0] == "go"


async def test_f5_a_stop_does_not_wait_for_servers_that_connect(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("never asked")], **{"tools.json": SLOW_SERVER}) as one:
        session = await one.runtime.session(one.home)
        await session.control(Invoke(input="go"))
        async for item in session.subscribe(0):
            if item.type == "run.started":  # type: ignore[union-attr]
                break
        with anyio.fail_after(3):
            assert isinstance(await session.control(Stop()), Accepted)
            await session.idle()
        assert [reason for _, reason in reasons(session)] == ["stopped"]
        assert one.requests == []


async def test_a_second_stop_clears_the_queue(tmp_path: Path) -> None:
    async with living(tmp_path, [Silence()]) as one:
        session = await one.runtime.session(one.home)
        await session.control(Invoke(input="go"))
        await one.server.arrived.wait()
        await session.control(Invoke(input="next"))
        both = (Stop(), Stop(scope="session"))
        answers = [await session.control(stop) for stop in both]
        assert all(isinstance(answer, Accepted) for answer in answers)
        state = await session.idle()
        assert state.queue == ()
        assert {reason for _, reason in reasons(session)} == {"stopped"}
        assert len(one.requests) == 1


async def test_f1_a_call_allowed_while_others_run_is_run(tmp_path: Path) -> None:
    """The approval is decided before the turn's last call is done: nothing is left to wait for, and it must run."""
    asked = Call("write", {"path": "KNOWLEDGE.md", "content": "# Field\n\nBe kind.\n"})
    others = tuple(Call("write", {"path": f"work/{n}.txt", "content": str(n)}) for n in range(3))
    async with living(tmp_path, [Answer(calls=(asked, *others)), Answer("Done.")]) as one:
        session = await one.runtime.session(one.home)
        await session.control(UpdateState(patch={"mode": "acceptEdits"}))
        await session.control(Invoke(input="go"))
        async for item in session.subscribe(0):
            if item.type == "tool.approval_required":  # type: ignore[union-attr]
                await session.control(Resume(approval_id=item.approval.id, decision="allow"))  # type: ignore[union-attr]
                break
        state = await session.idle()
        assert [status for status, _ in results(state)] == ["ok"] * 4
        assert (one.home.path / "KNOWLEDGE.md").exists()


async def test_f1_a_changed_scene_does_not_lose_the_call_that_waited(tmp_path: Path) -> None:
    script = [call("write", path="KNOWLEDGE.md", content="# Field\n\nBe kind.\n"), Answer("Done.")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("be kind")
        await session.control(UpdateState(patch={"workspaceContext": {"open": "a.py"}}))
        await session.control(Resume(approval_id=state.pending_approvals[0].id, decision="allow"))
        state = await session.idle()
        assert [status for status, _ in results(state)] == ["ok"]
        assert "a.py" in one.said_to()


async def test_f1_of_twenty_racing_decisions_one_is_applied(tmp_path: Path) -> None:
    script = [call("write", path="KNOWLEDGE.md", content="# Field\n\nBe kind.\n"), Answer("Done.")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("be kind")
        approval = state.pending_approvals[0].id
        answers: list[Accepted | Refused] = []

        async def decide(number: int) -> None:
            decision = "allow" if number % 2 else "deny"
            answers.append(await session.control(Resume(approval_id=approval, decision=decision)))  # type: ignore[arg-type]

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(decide, number)
        state = await session.idle()
        lost = [answer for answer in answers if isinstance(answer, Refused)]
        assert len(lost) == 19
        (decided,) = [event for event in events(session) if isinstance(event, ToolApprovalResolved)]
        assert all(one.current == decided for one in lost)
        assert state.last_run is not None
        assert state.last_run.reason == "completed"


async def test_a_file_that_was_read_may_be_edited_after_the_run(tmp_path: Path) -> None:
    """What the session has read counts in its next run, and after an approval."""
    script = [
        call("read", path="work/a.txt"),
        Answer("read"),
        call("write", path="work/a.txt", content="new"),
        Answer("ok"),
    ]
    async with living(tmp_path, script, **{"work__a.txt": "old"}) as one:
        session, _ = await one.say("read it")
        await session.control(UpdateState(patch={"mode": "acceptEdits"}))
        _, state = await one.say("write it", session)
        assert [status for status, _ in results(state)] == ["ok", "ok"]


async def test_a_deadline_counts_the_present_turn(tmp_path: Path) -> None:
    """A model that fails late again and again may not take the whole time anew with every try."""
    agents = "---\nname: Ada\nbudget:\n  seconds: 1\n---\nWork.\n"
    slow = Answer("", latency_s=0.6, ends="short")
    async with living(tmp_path, [slow], **{"AGENTS.md": agents}) as one:
        began = anyio.current_time()
        _, state = await one.say("go")
        assert state.last_run is not None
        assert state.last_run.reason == "deadline"
        assert anyio.current_time() - began < 3


async def test_l5_what_a_stopped_request_cost_is_in_the_total(tmp_path: Path) -> None:
    async with living(tmp_path, [Refusal(503, "busy", (("retry-after", "30"),))]) as one:
        session = await one.runtime.session(one.home)
        await session.control(Invoke(input="go"))
        async for item in session.subscribe(0):
            if item.type == "turn.retried":  # type: ignore[union-attr]
                break
        with anyio.fail_after(3):
            await session.control(Stop())
            state = await session.idle()
        assert [reason for _, reason in reasons(session)] == ["stopped"]
        assert state.usage.total.input_tokens == sum(
            event.usage.input_tokens
            for event in events(session)
            if event.type == "turn.finished"  # type: ignore[attr-defined]
        )


async def test_a_closed_session_refuses_controls(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("hi")]) as one:
        session, _ = await one.say("hello")
        await session.close()
        answer = await session.control(Invoke(input="again"))
        assert isinstance(answer, Refused)
        assert answer.status == 503


async def test_a_session_asked_for_twice_at_once_is_one(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("hi")]) as one:
        session, _ = await one.say("hello")
        known = session.session_id
    async with Runtime.open(make_settings(tmp_path, "http://127.0.0.1:1"), {}) as runtime:
        found: list[Session] = []

        async def get() -> None:
            found.append(await runtime.session(one.home, known))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(get)
        assert len(found) == 5
        assert len({id(session) for session in found}) == 1


class Full(Disk):
    """A disk that can be full."""

    full = False

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(fd, data, offset)


async def test_f9_a_disk_that_is_full_during_a_run_is_told_and_the_session_goes_on_later(tmp_path: Path) -> None:
    disk = Full()
    release = asyncio.Event()
    async with living(tmp_path, [Answer("here", release=release), Answer("again")], disk=disk) as one:
        session = await one.runtime.session(one.home)
        begun = await session.control(Invoke(input="go"))
        await one.server.arrived.wait()
        disk.full = True
        release.set()
        with pytest.raises(StorageError, match="full"):
            await session.idle()
        with pytest.raises(StorageError, match="full"):
            await session.control(Invoke(input="more"))
        disk.full = False
        assert isinstance(await session.control(Invoke(input="more")), Accepted)
        state = await session.idle()
        assert isinstance(begun, Accepted)
        assert reasons(session)[0] == (begun.run_id, "completed")
        assert len(reasons(session)) == 2
        assert state.queue == ()


async def test_f9_a_disk_that_stays_full_ends_the_runtime_with_a_clear_error(tmp_path: Path) -> None:
    disk = Full()

    async def fill_while_it_runs() -> None:
        async with living(tmp_path, [Silence()], disk=disk) as one:
            session = await one.runtime.session(one.home)
            await one.runtime.session(one.home)
            await session.control(Invoke(input="go"))
            await one.server.arrived.wait()
            disk.full = True
            await session.control(UpdateState(patch={"title": "x"}))

    with pytest.raises(StorageError, match="full"):
        await fill_while_it_runs()


async def test_f9_a_home_that_went_away_breaks_only_its_own_sessions(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("hi")]) as one:
        session, _ = await one.say("hello")
        other = make_home(one.runtime.settings, "bob")
        hidden = one.home.path.with_name("gone")
        one.home.path.rename(hidden)
        await session.control(Invoke(input="still there?"))
        with pytest.raises(HarnessdError):
            await session.idle()
        healthy = await one.runtime.session(other)
        await one.say("hello bob", healthy)
        hidden.rename(one.home.path)
        state: State = (await one.say("back again", session))[1]
        assert state.queue == ()
        said = [text_of(m) for m in state.messages if m.role == "user" and m.kind == "input"]
        assert said == ["hello", "still there?", "back again"]


@pytest.mark.parametrize(
    "text", ["", "x" * 1_000_000, "nul\0and\x1b[31m", "half \ud83d of a pair", "\u202eevil", "\n" * 1000]
)
async def test_odd_input_gets_an_answer(tmp_path: Path, text: str) -> None:
    async with living(tmp_path, [Answer("fine")]) as one:
        _, state = await one.say(text)
        assert state.last_run is not None
        assert state.last_run.reason == "completed"
        assert last_text(state) == "fine"


@pytest.mark.parametrize("arguments", ['{"path": "\\ud83d"}', '{"path": "a\\u0000b"}', '{"path": ""}'])
async def test_odd_arguments_are_a_result_and_not_the_end(tmp_path: Path, arguments: str) -> None:
    async with living(tmp_path, [Answer(calls=(Call("read", arguments),)), Answer("ok")]) as one:
        _, state = await one.say("read")
        assert state.last_run is not None
        assert state.last_run.reason == "completed", state.last_run


async def test_an_oversized_result_is_whole_on_disk(tmp_path: Path) -> None:
    lines = "".join(f"line {n} of a long file that the model need not see whole\n" for n in range(3000))
    rule = '{"results": {"read": {"maxChars": 1000}}}'
    script = [call("read", path="work/long.txt"), Answer("ok")]
    async with living(tmp_path, script, **{"work__long.txt": lines, "tools.json": rule}) as one:
        session, state = await one.say("read")
        ((_, text),) = results(state)
        assert len(text) < 2000
        (evicted,) = [event for event in events(session) if event.type == "tool.result.evicted"]
        stored = (one.home.path / evicted.content_ref).read_text()  # type: ignore[attr-defined]
        assert evicted.content_ref in text  # type: ignore[attr-defined]
        assert stored.startswith("line 0 of")
        assert len(stored) > 20_000


@pytest.mark.parametrize(
    "patch",
    [
        {"mode": "everything"},
        {"mode": 1},
        {"mode": ["plan"]},
        {"title": {"a": 1}},
        {"todos": "all of it"},
        {"todos": [1]},
        {"todos": [{"text": "x", "status": "never"}]},
        {"workspaceContext": "here"},
        {"messages": []},
    ],
)
async def test_a_patch_that_does_not_fit_is_refused_and_leaves_no_fact(tmp_path: Path, patch: JsonObject) -> None:
    async with living(tmp_path, [Answer("hi")]) as one:
        session, _ = await one.say("hello")
        before = session.state
        answer = await session.control(UpdateState(patch=patch))
        assert isinstance(answer, Refused)
        assert answer.status == 400
        assert session.state == before


@pytest.mark.parametrize(
    "session_id", ["", ".", "..", "../x", "/etc/passwd", "ses_../../x", "ses_\0", "ses_" + "a" * 300, "ses_\ud800", "x"]
)
async def test_a_hostile_session_id_is_a_clear_error(tmp_path: Path, session_id: str) -> None:
    async with living(tmp_path, [Answer("hi")]) as one:
        with pytest.raises(HarnessdError):
            await one.runtime.session(one.home, session_id)
        _, state = await one.say("hello")
        assert last_text(state) == "hi"
