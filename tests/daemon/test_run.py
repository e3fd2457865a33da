"""One run from input to ending: what the model sees, how a run ends, what is on record."""

from pathlib import Path

import pytest

from harnessd.daemon.session import Accepted, Refused
from harnessd.facts.control import Invoke, Resume, Stop, UpdateState
from harnessd.facts.message import text_of
from harnessd.models.script import Answer, Call, Refusal
from tests.daemon.living import call, last_text, living, results


async def test_a_conversation_goes_on_in_its_session(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("Hello."), Answer("Still here.")]) as one:
        session, state = await one.say("hi")
        assert last_text(state) == "Hello."
        _, state = await one.say("there?", session)
        assert last_text(state) == "Still here."
        assert "hi" in one.said_to()
        assert state.last_run is not None
        assert state.last_run.reason == "completed"


async def test_a_session_opens_again_with_everything(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("Hello.")]) as one:
        session, before = await one.say("hi")
        session_id = session.session_id
        await session.close()
    async with living(tmp_path, [Answer("Again.")]) as one:
        session = await one.runtime.session(one.home, session_id)
        assert session.state.messages == before.messages
        _, state = await one.say("more", session)
        assert [text_of(m) for m in state.messages if m.role == "assistant"] == ["Hello.", "Again."]


async def test_the_agent_writes_a_skill_and_a_memory_and_git_knows_why(tmp_path: Path) -> None:
    skill = "---\nname: tea\ndescription: Brews tea. Use when somebody is thirsty.\n---\nBoil water.\n"
    script = [
        Answer(
            calls=(
                Call("remember", {"text": "The user likes green tea"}),
                Call("write", {"path": "skills/tea/SKILL.md", "content": skill}),
            )
        ),
        Answer("Learnt."),
        Answer("Noted."),
    ]
    async with living(tmp_path, script) as one:
        session, state = await one.say("Remember that I like green tea and how to brew it")
        assert [status for status, _ in results(state)] == ["ok", "ok"], results(state)
        run = state.last_run
        assert run is not None
        entries = one.runtime.log(one.home)
        assert [entry.kind for entry in entries[:2]] == ["agent", "agent"]
        for entry in entries[:2]:
            assert entry.trailers["run"] == run.run_id
            assert entry.trailers["session"] == session.session_id
            assert entry.trailers["origin"] in {"user", "agent"}
            assert entry.trailers["model"]
        await one.say("and now?", session)
        assert "The user likes green tea" in one.prompt()
        assert "Brews tea." in one.prompt()


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_f1_an_approval_waits_and_is_decided_once(tmp_path: Path, decision: str) -> None:
    script = [call("write", path="KNOWLEDGE.md", content="# Field\n\nBe kind.\n"), Answer("Done.")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("be kind from now on")
        (approval,) = state.pending_approvals
        assert approval.diff is not None
        assert "+Be kind." in approval.diff
        assert state.active_run is not None
        assert state.active_run.status == "waiting_approval"
        assert len(one.requests) == 1
        answer = await session.control(Resume(approval_id=approval.id, decision=decision))  # type: ignore[arg-type]
        assert isinstance(answer, Accepted)
        state = await session.idle()
        again = await session.control(Resume(approval_id=approval.id, decision="allow"))
        assert isinstance(again, Refused)
        assert again.status == 409
        written = (one.home.path / "KNOWLEDGE.md").exists()
        assert written == (decision == "allow")
        assert [status for status, _ in results(state)] == ["ok" if decision == "allow" else "denied"]
        assert state.last_run is not None
        assert state.last_run.reason == "completed"


async def test_l1_three_identical_actions_are_nudged_then_ended(tmp_path: Path) -> None:
    async with living(tmp_path, [call("read", path="AGENTS.md")]) as one:
        _, state = await one.say("read for ever")
        assert state.last_run is not None
        assert state.last_run.reason == "repeated_action"
        texts = [text for _, text in results(state)]
        assert len(texts) == 4
        assert "same call" in texts[2]
        assert "same call" not in texts[1]


async def test_l1_three_invalid_calls_in_a_row_end_the_run(tmp_path: Path) -> None:
    script = [Answer(calls=(Call("read", '{"path": "AGENTS.md'),), finish="length")]
    async with living(tmp_path, script) as one:
        _, state = await one.say("read it")
        assert state.last_run is not None
        assert state.last_run.reason == "failed"
        assert state.last_run.failure is not None
        assert state.last_run.failure.kind == "invalid_tool_calls"
        assert [status for status, _ in results(state)] == ["invalid"] * 3


@pytest.mark.parametrize(
    ("budget", "reason"),
    [("turns: 2", "max_turns"), ("tokens: 40", "token_budget")],
)
async def test_a_budget_in_the_home_ends_the_run_by_name(tmp_path: Path, budget: str, reason: str) -> None:
    count = 0

    def script(request: object) -> Answer:
        nonlocal count
        count += 1
        return call("todo", todos=[{"text": f"step {count}", "status": "open"}])

    agents = f"---\nname: Ada\nbudget:\n  {budget}\n---\nWork.\n"
    async with living(tmp_path, script, **{"AGENTS.md": agents}) as one:
        _, state = await one.say("go on for ever")
        assert state.last_run is not None
        assert state.last_run.reason == reason
        assert count == 2


async def test_l3_a_model_that_fails_is_asked_again_and_it_is_on_record(tmp_path: Path) -> None:
    script = [Refusal(503, "busy", (("retry-after", "0"),)), Answer(""), Answer("At last.")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("hello")
        assert last_text(state) == "At last."
        retried = [event for event in session.journal() if event.type == "turn.retried"]
        assert [event.failure.kind for event in retried] == ["overloaded", "empty"]  # type: ignore[attr-defined]


async def test_l3_a_model_without_its_key_is_a_named_failure(tmp_path: Path) -> None:
    async with living(tmp_path, [Refusal(401, {"error": {"message": "bad key"}})]) as one:
        _, state = await one.say("hello")
        assert state.last_run is not None
        assert state.last_run.reason == "failed"
        assert state.last_run.failure is not None
        assert state.last_run.failure.kind == "auth"


async def test_l5_tokens_of_turns_runs_and_session_add_up(tmp_path: Path) -> None:
    script = [call("read", path="AGENTS.md"), Answer("one"), call("read", path="MEMORY.md"), Answer("two")]
    async with living(tmp_path, script) as one:
        session, _ = await one.say("a")
        _, state = await one.say("b", session)
        turns = [event for event in session.journal() if event.type == "turn.finished"]
        runs = [event for event in session.journal() if event.type == "run.finished"]
        for field in ("input_tokens", "output_tokens", "cached_tokens"):
            total = getattr(state.usage.total, field)
            assert total == sum(getattr(event.usage, field) for event in turns)  # type: ignore[attr-defined]
            assert total == sum(getattr(event.usage, field) for event in runs)  # type: ignore[attr-defined]
        assert state.usage.turns == 4


async def test_stop_ends_a_run_whose_model_hangs(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("Once upon a time", piece=4, ends="hang", after=2), Answer("x")]) as one:
        session = await one.runtime.session(one.home)
        accepted = await session.control(Invoke(input="tell me a story"))
        assert isinstance(accepted, Accepted)
        async for item in session.subscribe(0):
            if item.type == "assistant.text.delta":  # type: ignore[union-attr]
                break
        answer = await session.control(Stop(run_id=accepted.run_id))
        assert isinstance(answer, Accepted)
        state = await session.idle()
        assert state.last_run is not None
        assert state.last_run.reason == "stopped"
        assert last_text(state).startswith("Once")
        _, state = await one.say("go on", session)
        assert last_text(state) == "x"


async def test_f5_stop_while_an_approval_waits_gives_each_call_one_result(tmp_path: Path) -> None:
    script = [call("write", path="KNOWLEDGE.md", content="# Field\n\nBe kind.\n"), Answer("ok")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("be kind")
        assert state.active_run is not None
        await session.control(Stop(run_id=state.active_run.run_id))
        state = await session.idle()
        assert state.last_run is not None
        assert state.last_run.reason == "stopped"
        assert state.pending_approvals == ()
        assert [status for status, _ in results(state)] == ["cancelled"]
        _, state = await one.say("hello", session)
        assert last_text(state) == "ok"


async def test_a_message_while_an_approval_waits_queues(tmp_path: Path) -> None:
    script = [call("write", path="KNOWLEDGE.md", content="# Field\n\nBe kind.\n"), Answer("first"), Answer("second")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("be kind")
        queued = await session.control(Invoke(input="and you?"))
        assert isinstance(queued, Accepted)
        assert queued.run_id is None
        (approval,) = state.pending_approvals
        await session.control(Resume(approval_id=approval.id, decision="allow"))
        state = await session.idle()
        assert [text_of(m) for m in state.messages if m.role == "assistant"] == ["", "first", "second"]


async def test_update_state_changes_the_mode_within_the_ceiling(tmp_path: Path) -> None:
    script = [call("write", path="work/a.txt", content="a"), Answer("ok")]
    async with living(tmp_path, script) as one:
        session = await one.runtime.session(one.home)
        refused = await session.control(UpdateState(patch={"mode": "bypassPermissions"}))
        assert isinstance(refused, Refused)
        assert isinstance(await session.control(UpdateState(patch={"mode": "acceptEdits"})), Accepted)
        _, state = await one.say("write it", session)
        assert [status for status, _ in results(state)] == ["ok"], results(state)
        assert (one.home.path / "work/a.txt").read_text() == "a"


async def test_l3_a_failed_model_leaves_the_way_out_on_record(tmp_path: Path) -> None:
    refusal = Refusal(401, {"error": {"message": "bad key"}})
    async with living(tmp_path, [refusal]) as one:
        session, state = await one.say("hello")
        assert state.last_run is not None
        assert state.last_run.failure is not None
        assert "check the key" in state.last_run.failure.hint
        unknown = await one.runtime.session(one.home, model="nobody/knows")
        await session.close()
        _, state = await one.say("hello", unknown)
        assert state.last_run is not None
        failure = state.last_run.failure
        assert failure is not None
        assert failure.kind == "unknown_model"
        assert failure.hint.startswith("write it as provider/name")
        assert failure.hint not in failure.message


async def test_l5_a_run_that_breaks_closes_its_turn_and_its_calls_with_what_they_cost(tmp_path: Path) -> None:
    """The home's history goes away under the run: an exception, not an ending that the loop saw coming."""

    def script(request: object) -> Answer:
        (tmp_path / "workspaces/ada/.git/HEAD").write_text("nonsense\n")
        (tmp_path / "workspaces/ada/AGENTS.md").write_text("# Changed\n")
        return call("read", path="MEMORY.md")

    async with living(tmp_path, script) as one:
        session, state = await one.say("read")
        assert state.active_run is None
        assert state.last_run is not None
        assert state.last_run.reason == "failed"
        assert [status for status, _ in results(state)] == ["cancelled"]
        (turn,) = [event for event in session.journal() if event.type == "turn.finished"]
        (run,) = [event for event in session.journal() if event.type == "run.finished"]
        assert run.turns == 1  # type: ignore[attr-defined]
        assert run.usage == turn.usage == state.usage.total  # type: ignore[attr-defined]
        assert run.usage.input_tokens > 0  # type: ignore[attr-defined]
