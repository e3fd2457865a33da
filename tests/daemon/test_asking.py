"""An MCP server asks a person before it goes on: the question is an approval, and the answer reaches the call once."""

import json
import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest

from harnessd.daemon.answer import Accepted, Refused
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Session
from harnessd.facts.control import Invoke, Resume, Stop
from harnessd.facts.run import Approval
from harnessd.facts.state import State
from harnessd.facts.view import view
from harnessd.models.script import Answer, Call, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import call, events, living, make_home, make_settings, results

ASKING = Path(__file__).parent / "asking_server.py"
HOLDING = Path(__file__).parent / "holding_server.py"
RESOLVING = Path(__file__).parent / "resolving_server.py"
BREW = call("mcp__tea__brew", tea="sencha")


def tools_json(base: Path, script: Path, *more: str, **server: object) -> str:
    entry = {"command": sys.executable, "args": [str(script), str(base / "effects.txt"), *more], **server}
    return json.dumps({"mcpServers": {"tea": entry}, "allow": ["mcp__tea__*"]})


def effects(base: Path) -> list[str]:
    file = base / "effects.txt"
    return file.read_text().splitlines() if file.exists() else []


def control(approval: Approval, decision: str = "allow", **more: object) -> Resume:
    return Resume.model_validate({"approvalId": approval.id, "decision": decision, **more})


async def decide(session: Session, approval: Approval, decision: str = "allow", **arguments: object) -> State:
    answer = await session.control(control(approval, decision, arguments=arguments or None))
    assert isinstance(answer, Accepted), answer
    return await session.idle()


def only(state: State) -> Approval:
    (approval,) = state.pending_approvals
    assert approval.question is not None
    return approval


async def test_a_server_of_2026_asks_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    async with living(tmp_path, [BREW, Answer("done")], **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("brew")
        approval = only(state)
        assert approval.question.server == "tea"
        assert approval.question.message == "How much?"
        assert approval.question.answer_schema["required"] == ["cups"]
        assert view(state).approval_banner.approvals == (approval,)
        assert [waits.approval for waits in one.runtime.waiting()] == [approval]
        assert session.quiet
        assert effects(tmp_path) == []
        state = await decide(session, approval, cups=2)
        assert results(state) == [("ok", 'made with {"cups": 2, "sugar": false}')]
        assert effects(tmp_path) == ["brew 2 False"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (None, "cups"),
        ({"cups": 99}, "cups"),
        ({"cups": "two"}, "cups"),
        ({"cups": 1, "sugr": True}, "sugr"),
        ({"cups": 1, "sugar": "ghp_" + "a1B2" * 9}, "sugar"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_by_its_field(
    tmp_path: Path, arguments: dict[str, object] | None, named: str
) -> None:
    async with living(tmp_path, [BREW, Answer("done")], **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("brew")
        approval = only(state)
        refused = await session.control(control(approval, arguments=arguments))
        assert isinstance(refused, Refused)
        assert refused.status == 400
        assert named in refused.message
        assert refused.current == approval
        assert session.state.pending_approvals == (approval,)
        state = await decide(session, approval, cups=1)
        assert results(state) == [("ok", 'made with {"cups": 1, "sugar": false}')]


async def test_what_looks_like_a_secret_does_not_leave_in_an_answer(tmp_path: Path) -> None:
    latte = call("mcp__tea__latte", tea="oat")
    async with living(tmp_path, [latte, Answer("done")], **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("latte")
        state = await decide(session, only(state), cups=1)
        secret = "ghp_" + "a1B2c3D4e5F6g7H8" * 2 + "i9J0"
        refused = await session.control(control(only(state), arguments={"milk": secret}))
        assert isinstance(refused, Refused)
        assert refused.status == 400
        assert "milk" in refused.message
        assert secret not in refused.message


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_question_is_answered_once_and_not_for_good(tmp_path: Path, scope: str) -> None:
    async with living(tmp_path, [BREW, Answer("done")], **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("brew")
        refused = await session.control(control(only(state), scope=scope, arguments={"cups": 1}))
        assert isinstance(refused, Refused)
        assert refused.status == 400
        assert "scope" in refused.message
        assert len(session.state.pending_approvals) == 1


@pytest.mark.parametrize("decision", ["deny", "cancel"])
async def test_a_declined_question_is_told_to_the_server_which_does_nothing(tmp_path: Path, decision: str) -> None:
    async with living(tmp_path, [BREW, Answer("done")], **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("brew")
        state = await decide(session, only(state), decision)
        ((status, text),) = results(state)
        assert status == "error"
        assert text == {"deny": "decline of size", "cancel": "cancel of size"}[decision]
        assert effects(tmp_path) == []


async def test_a_call_asks_in_several_rounds_and_several_questions_in_one(tmp_path: Path) -> None:
    script = [call("mcp__tea__latte", tea="oat"), Answer("one"), call("mcp__tea__set_table"), Answer("two")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("latte")
        state = await decide(session, only(state), cups=3)
        second = only(state)
        assert second.question.round == 2
        assert second.question.message == "Which milk?"
        state = await decide(session, second, milk="oat")
        assert effects(tmp_path) == ["latte 3 False oat"]
        _, state = await one.say("table", session)
        asked = {approval.question.message: approval for approval in state.pending_approvals}
        assert set(asked) == {"How much?", "Which spoon?"}
        state = await decide(session, asked["Which spoon?"], milk="silver")
        assert len(state.pending_approvals) == 1
        state = await decide(session, asked["How much?"], cups=1)
        assert effects(tmp_path) == ["latte 3 False oat", "set_table silver 1 False"]


async def test_f1_of_racing_answers_one_counts_and_the_rest_are_told_which(tmp_path: Path) -> None:
    async with living(tmp_path, [BREW, Answer("done")], **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("brew")
        approval = only(state)
        answers: list[Accepted | Refused] = []

        async def race(cups: int) -> None:
            answers.append(await session.control(control(approval, arguments={"cups": cups})))

        async with anyio.create_task_group() as group:
            for cups in range(1, 7):
                group.start_soon(race, cups)
        await session.idle()
        assert sum(isinstance(answer, Accepted) for answer in answers) == 1
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        assert {answer.status for answer in refused} == {409}
        recorded = {answer.current.arguments["cups"] for answer in refused}
        assert effects(tmp_path) == [f"brew {cups} False" for cups in recorded]


@pytest.mark.parametrize("server", [ASKING, HOLDING], ids=["2026", "2025"])
async def test_f1_a_stop_withdraws_the_question(tmp_path: Path, server: Path) -> None:
    tool = "brew" if server == ASKING else "pour"
    script = [call(f"mcp__tea__{tool}", tea="x"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, server)}) as one:
        session, state = await one.say("go")
        approval = only(state)
        assert isinstance(await session.control(Stop()), Accepted)
        state = await session.over()
        assert state.pending_approvals == ()
        assert [status for status, _ in results(state)] == ["cancelled"]
        refused = await session.control(control(approval, arguments={"cups": 1}))
        assert isinstance(refused, Refused)
        assert refused.status == 409
        assert refused.current.outcome == "cancelled"
        assert effects(tmp_path) == []


@pytest.mark.parametrize("server", [ASKING, HOLDING], ids=["2026", "2025"])
async def test_f1_a_question_runs_out_and_is_not_called_a_denial(tmp_path: Path, server: Path) -> None:
    tool = "brew" if server == ASKING else "pour"
    files = {
        "tools.json": tools_json(tmp_path, server),
        "AGENTS.md": "---\napprovalExpiry: 1s\n---\n# Ada\n",
    }
    async with living(tmp_path, [call(f"mcp__tea__{tool}", tea="x"), Answer("done")], **files) as one:
        session, state = await one.say("go")
        only(state)
        async for item in session.subscribe(state.seq):
            if item.type == "run.finished":
                break
        state = await session.idle()
        (resolved,) = [event for event in events(session) if event.type == "tool.approval_resolved"]
        assert resolved.outcome == "expired"
        assert effects(tmp_path) == []
        assert state.last_run.reason == "completed"


@pytest.mark.parametrize("lasting", [True, False], ids=["its state lasts", "its state dies with it"])
@pytest.mark.parametrize("server_file", [ASKING, RESOLVING], ids=["by hand", "sdk"])
@pytest.mark.parametrize("tool", ["brew", "latte"])
async def test_f1_a_question_of_2026_outlives_the_process(
    tmp_path: Path, tool: str, server_file: Path, lasting: bool
) -> None:
    if server_file == RESOLVING and (tool == "brew") == lasting:
        pytest.skip("the slow server shows each half once")
    script = [call(f"mcp__tea__{tool}", tea="sencha"), Answer("done")]
    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        make_home(settings, **{"tools.json": tools_json(tmp_path, server_file, *(["--lasting"] if lasting else []))})
        env = {"OPENAI_API_KEY": "test-key"}
        async with Runtime.open(settings, env) as runtime:
            session = await runtime.session(runtime.home("ada"))
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
            before = await session.idle()
            if tool == "latte":
                before = await decide(session, only(before), cups=2)
        async with Runtime.open(settings, env) as runtime:
            session = await runtime.session(runtime.home("ada"), session.session_id)
            session.recover()
            assert session.state.pending_approvals == before.pending_approvals
            answer = {"milk": "oat"} if tool == "latte" else {"cups": 2}
            state = await decide(session, only(session.state), **answer)
        assert [status for status, _ in results(state)] == ["ok"]
        assert len(effects(tmp_path)) == 1
        assert "2" in effects(tmp_path)[0]
        assert state.last_run.run_id == before.active_run.run_id


async def test_f2_an_answer_that_was_under_way_when_the_server_died_is_not_sent_again(tmp_path: Path) -> None:
    script = [call("mcp__tea__poison"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, ASKING, "--lasting")}) as one:
        session, state = await one.say("go")
        state = await decide(session, only(state), cups=1)
        ((status, text),) = results(state)
        assert status == "error"
        assert "may have taken effect" in text
        assert effects(tmp_path) == ["poison 1 False"]


async def test_a_server_of_2025_waits_in_its_call_beyond_its_timeout_and_the_runs(tmp_path: Path) -> None:
    script = [call("mcp__tea__pour"), Answer("done")]
    files = {
        "tools.json": tools_json(tmp_path, HOLDING, timeout=0.5),
        "AGENTS.md": "---\nbudget: {seconds: 2}\n---\n# Ada\n",
    }
    async with living(tmp_path, script, **files) as one:
        session, state = await one.say("pour")
        approval = only(state)
        assert approval.question.way == "held"
        assert not session.quiet
        assert view(state).run_status == "waiting_approval"
        await anyio.sleep(2.2)  # the timeout itself is what is looked at
        refused = await session.control(control(approval, arguments={"cups": 0}))
        assert isinstance(refused, Refused)
        state = await decide(session, approval, cups=4)
        assert results(state) == [("ok", 'accept {"cups": 4}')]
        assert state.last_run.reason == "completed"
        assert effects(tmp_path) == ["pour 4"]


Kind = Literal["deny", "cancel"]


@pytest.mark.parametrize(("decision", "told"), [("deny", "decline null"), ("cancel", "cancel null")])
async def test_a_held_question_is_declined_or_cancelled_in_the_words_of_mcp(
    tmp_path: Path, decision: Kind, told: str
) -> None:
    script = [call("mcp__tea__pour"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, HOLDING)}) as one:
        session, state = await one.say("pour")
        state = await decide(session, only(state), decision)
        assert results(state) == [("ok", told)]
        assert effects(tmp_path) == []


async def test_a_page_is_visited_and_then_allowed(tmp_path: Path) -> None:
    script = [call("mcp__tea__visit"), Answer("one"), call("mcp__tea__behind_a_page"), Answer("two")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, HOLDING)}) as one:
        session, state = await one.say("visit")
        approval = only(state)
        assert approval.question.url == "https://tea.example/in"
        refused = await session.control(control(approval, arguments={"x": 1}))
        assert isinstance(refused, Refused)
        state = await decide(session, approval)
        assert results(state) == [("ok", "accept null")]
        _, state = await one.say("enter", session)
        assert only(state).question.way == "again"
        assert session.quiet
        state = await decide(session, only(state))
        assert results(state)[-1] == ("ok", "entered")


async def test_a_page_that_was_not_visited_ends_the_call(tmp_path: Path) -> None:
    script = [call("mcp__tea__behind_a_page"), Answer("two")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, HOLDING)}) as one:
        session, state = await one.say("enter")
        state = await decide(session, only(state), "deny")
        assert [status for status, _ in results(state)] == ["denied"]
        assert effects(tmp_path) == []


async def test_a_held_call_asks_again_and_again_and_each_time_anew(tmp_path: Path) -> None:
    script = [call("mcp__tea__guess"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, HOLDING)}) as one:
        session, state = await one.say("guess")
        ids = set()
        for cups in (1, 2, 3):
            ids.add(only(state).id)
            state = await decide(session, only(state), cups=cups)
        assert len(ids) == 3
        assert effects(tmp_path) == ["guess 3"]


async def test_a_server_that_dies_while_it_asks_takes_its_question_along(tmp_path: Path) -> None:
    script = [call("mcp__tea__die_asking"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, HOLDING)}) as one:
        session, _ = await one.say("go")
        state = await session.over()
        assert state.pending_approvals == ()
        assert [status for status, _ in results(state)] == ["error"]


@pytest.mark.parametrize(
    ("server", "why"), [(ASKING, "harnessd does not offer"), (HOLDING, "not supported")], ids=["2026", "2025"]
)
async def test_sampling_is_refused(tmp_path: Path, server: Path, why: str) -> None:
    script = [call("mcp__tea__sample"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, server)}) as one:
        _, state = await one.say("go")
        ((status, text),) = results(state)
        assert status == "error"
        assert why in text.lower()


async def test_a_server_may_only_want_to_be_called_again(tmp_path: Path) -> None:
    script = [call("mcp__tea__later"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        _, state = await one.say("go")
        assert results(state) == [("ok", "made with {}")]


async def test_a_server_that_never_stops_asking_is_stopped(tmp_path: Path) -> None:
    script = [call("mcp__tea__endless"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": tools_json(tmp_path, ASKING)}) as one:
        session, state = await one.say("go")
        asked = 0
        while state.pending_approvals:
            asked += 1
            state = await decide(session, only(state), cups=1)
        assert asked == 16
        assert "has asked 16 times" in results(state)[0][1]


@pytest.mark.parametrize("server", [ASKING, HOLDING], ids=["2026", "2025"])
async def test_in_a_mode_in_which_nobody_is_asked_questions_are_declined(tmp_path: Path, server: Path) -> None:
    tool = "brew" if server == ASKING else "pour"
    files = {"tools.json": tools_json(tmp_path, server), "AGENTS.md": "---\nmode: dontAsk\n---\n# Ada\n"}
    async with living(tmp_path, [call(f"mcp__tea__{tool}", tea="x"), Answer("done")], **files) as one:
        _, state = await one.say("go")
        assert state.pending_approvals == ()
        assert state.last_run.reason == "completed"
        assert "decline" in results(state)[0][1].lower()
        assert effects(tmp_path) == []


async def test_p4_a_question_whose_call_is_not_certain_reaches_nobody(tmp_path: Path) -> None:
    """Two calls are under way on one connection of 2025: the server does not say which of them asks."""
    both = Answer(calls=(Call("mcp__tea__peek", {}), Call("mcp__tea__peek", {"n": 1})))
    async with living(tmp_path, [both, Answer("done")], **{"tools.json": tools_json(tmp_path, HOLDING)}) as one:
        _, state = await one.say("go")
        assert state.pending_approvals == ()
        texts = [text for _, text in results(state)]
        assert len(texts) == 2
        assert any("calls are under way" in text for text in texts)


@pytest.mark.parametrize("server", [ASKING, HOLDING], ids=["2026", "2025"])
async def test_f1_a_subagents_question_is_seen_above_and_answered_in_its_session(tmp_path: Path, server: Path) -> None:
    tool = "brew" if server == ASKING else "pour"

    def script(request: Request) -> Answer:
        mine = "You are" in str(request.body["messages"][0]["content"]) and "general" in str(
            request.body["messages"][0]
        )
        done = any(message["role"] == "tool" for message in request.body["messages"])
        if done:
            return Answer("done")
        return call(f"mcp__tea__{tool}") if mine else call("delegate", agent="helper", task="make tea")

    helper = "---\nname: helper\ndescription: Makes tea.\n---\nYou are general help.\n"
    files = {"tools.json": tools_json(tmp_path, server), "subagents/helper.md": helper}
    async with living(tmp_path, script, **files) as one:
        session, state = await one.say("go")
        (below,) = view(state).approval_banner.below
        assert below.approval.question.server == "tea"
        assert session.waiting_for == (below.approval.id,)
        async with one.runtime.visit(one.home, below.session_id) as helpers:
            answer = await helpers.control(control(below.approval, arguments={"cups": 2}))
            assert isinstance(answer, Accepted)
        async for item in session.subscribe(state.seq):
            if item.type == "run.finished":
                break
        state = await session.idle()
        assert results(state) == [("ok", "done")]
        assert len(effects(tmp_path)) == 1
        assert view(state).approval_banner.count == 0


async def test_f1_a_daemon_that_stops_does_not_wait_for_an_answer(tmp_path: Path) -> None:
    async with ScriptedServer([call("mcp__tea__peek"), Answer("done")]) as server:
        settings = make_settings(tmp_path, server.url)
        make_home(settings, **{"tools.json": tools_json(tmp_path, HOLDING)})
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            session = await runtime.session(runtime.home("ada"))
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
            asked = only(await session.idle())
            with anyio.fail_after(5):
                await runtime.drain(60)
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            session = await runtime.session(runtime.home("ada"), session.session_id)
            session.recover()
            assert (await session.idle()).pending_approvals == (asked,)
            state = await decide(session, asked, cups=2)
        assert [status for status, _ in results(state)] == ["ok"]
