"""What a subagent gets, may, costs and gives back; and that it ends, or goes on, with the run that it works for."""

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from harnessd.daemon.session import Accepted, Refused, Session
from harnessd.facts.control import Invoke, Resume, Stop, UpdateState
from harnessd.facts.event import (
    Event,
    MessageCreated,
    RunFinished,
    RunStarted,
    SessionCreated,
    SubagentFinished,
    SubagentStarted,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
)
from harnessd.facts.message import TextPart, UserMessage, text_of
from harnessd.facts.run import Trigger
from harnessd.facts.state import State
from harnessd.facts.view import view
from harnessd.home.layout import Home
from harnessd.ids import new_id
from harnessd.journal.records import read_events
from harnessd.models.script import Answer, Call, Refusal, Request, ScriptedReply
from tests.daemon.living import call, events, last_text, living, results

SCOUT = "---\nname: scout\ndescription: Looks around.\n{more}---\nYou are the scout.\n"


def scout(more: str = "") -> dict[str, str]:
    return {"subagents__scout.md": SCOUT.format(more=more)}


def delegates(*tasks: tuple[str, str]) -> Answer:
    return Answer(calls=tuple(Call("delegate", {"agent": agent, "task": task}) for agent, task in tasks))


def is_child(request: Request) -> bool:
    return "You are a subagent" in request.body["messages"][0]["content"]


def task_of(request: Request) -> str:
    inputs = [m["content"] for m in request.body["messages"] if m["role"] == "user" and "<context>" not in m["content"]]
    return str(inputs[-1])


def turns_of(request: Request) -> int:
    return sum(message["role"] == "assistant" for message in request.body["messages"])


def script(parent: list[ScriptedReply], child: list[ScriptedReply]) -> Callable[[Request], ScriptedReply]:
    """Each takes the answers of its list by the number of those that it has had; the last one repeats."""

    def reply(request: Request) -> ScriptedReply:
        answers = child if is_child(request) else parent
        return answers[min(turns_of(request), len(answers) - 1)]

    return reply


def child_journals(home: Home) -> list[list[Event]]:
    paths = (home.path / "agents").glob("*/sessions/*.jsonl")
    return [list(read_events(path)) for path in sorted(paths) if path.parents[1].name != "main"]


async def ended(session: Session) -> State:
    """The state once the run is over, whoever lets it go on."""
    async for item in session.subscribe(0):
        if isinstance(item, RunFinished):
            return await session.idle()
    raise AssertionError("the session was closed before its run ended")


E = TypeVar("E", bound=Event)


def only(kind: type[E], among: list[Event]) -> E:
    (found,) = (event for event in among if isinstance(event, kind))
    return found


async def test_only_the_conclusion_comes_back(tmp_path: Path) -> None:
    asked = script(
        [delegates(("scout", "Look for the ORDER")), Answer("Thanks.")],
        [
            Answer("INNER-TEXT, I look.", reasoning="INNER-THOUGHT", calls=(Call("read", {"path": "AGENTS.md"}),)),
            Answer("CONCLUSION"),
        ],
    )
    async with living(tmp_path, asked, **scout(), **{"MEMORY.md": "# Memory\n\n- CANARY of memory\n"}) as one:
        session, state = await one.say("Secret of the user. Go.")
        assert results(state) == [("ok", "CONCLUSION")]
        assert last_text(state) == "Thanks."
        for request in one.requests:
            inner = json.dumps(request.body["messages"])
            if is_child(request):
                assert "Secret of the user" not in inner
                assert "CANARY" not in inner
                assert "You are the scout." in inner
            else:
                assert "INNER" not in inner
        started, finished = only(SubagentStarted, events(session)), only(SubagentFinished, events(session))
        (journal,) = child_journals(one.home)
        created, run = only(SessionCreated, journal), only(RunStarted, journal)
        parent = only(RunStarted, events(session))
        asked_for = only(ToolCallCreated, events(session))
        assert created.session_id == started.subagent.session_id
        assert created.session_id.removeprefix("ses_") == asked_for.tool_call_id.removeprefix("call_")
        assert created.agent_id == started.subagent.agent_id == "scout"
        assert created.parent == run.parent
        assert run.parent is not None
        assert (run.parent.run_id, run.parent.tool_call_id) == (parent.run_id, asked_for.tool_call_id)
        assert run.trigger.kind == "delegate"
        assert run.pin == parent.pin
        assert (started.subagent.status, finished.subagent.status) == ("running", "completed")
        assert [ref.status for ref in state.subagents] == ["completed"]


async def test_subagents_asked_for_in_one_turn_work_at_the_same_time(tmp_path: Path) -> None:
    arrived: set[str] = set()
    both = asyncio.Event()

    def reply(request: Request) -> Answer:
        if not is_child(request):
            return Answer("Done.") if turns_of(request) else delegates(("scout", "first"), ("explore", "second"))
        arrived.add(task_of(request))
        if len(arrived) == 2:
            both.set()
        return Answer(f"Answer to {task_of(request)}", release=both)

    async with living(tmp_path, reply, **scout()) as one:
        with anyio.fail_after(20):
            _, state = await one.say("go")
        assert results(state) == [("ok", "Answer to first"), ("ok", "Answer to second")]


async def test_l5_what_subagents_spend_is_counted_once(tmp_path: Path) -> None:
    asked = script(
        [delegates(("scout", "a"), ("scout", "b")), delegates(("scout", "c")), Answer("Done.")],
        [call("read", path="AGENTS.md"), Answer("Found.")],
    )
    async with living(tmp_path, asked, **scout()) as one:
        session, state = await one.say("go")
        spent = len(one.requests) * 11
        assert len(one.requests) == 3 + 3 * 2
        assert state.usage.total.input_tokens == spent
        assert only(RunFinished, events(session)).usage.input_tokens == spent
        finished = [event for event in events(session) if isinstance(event, SubagentFinished)]
        assert [event.subagent.usage.input_tokens for event in finished] == [22, 22, 22]
        turns = [event for event in events(session) if event.type == "turn.finished"]
        assert sum(event.usage.input_tokens for event in turns) == 3 * 11  # type: ignore[attr-defined]


OFFERED = [
    pytest.param(
        "",
        {"read", "write", "edit", "remember", "forget", "todo", "artifact", "execute", "connect"},
        id="everything but delegate",
    ),
    pytest.param("tools: read\n", {"read"}, id="a list"),
    pytest.param("tools: Read, Edit\n", {"read", "edit"}, id="other names"),
    pytest.param(
        "tools: '*'\n",
        {"read", "write", "edit", "remember", "forget", "todo", "artifact", "execute", "connect"},
        id="a star gives no delegate",
    ),
    pytest.param("tools: read, delegate\n", {"read", "delegate"}, id="delegate by name"),
    pytest.param(
        "disallowedTools: write, edit\n",
        {"read", "remember", "forget", "todo", "artifact", "execute", "connect"},
        id="taken away",
    ),
    pytest.param("tools: read, run_graph\n", {"read"}, id="what the parent lacks"),
]


@pytest.mark.parametrize(("header", "offered"), OFFERED)
async def test_a_subagents_header_says_which_tools_it_gets(tmp_path: Path, header: str, offered: set[str]) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout(header)) as one:
        await one.say("go")
        (request,) = (request for request in one.requests if is_child(request))
        assert {tool["function"]["name"] for tool in request.body.get("tools", [])} == offered


MAIN = ("", "tools: read, delegate\n", "tools: read, write, delegate\n", "disallowedTools: write\n", "mode: plan\n")
OWN = ("", "tools: '*'\n", "tools: write\n", "mode: bypassPermissions\n", "mode: plan\n", "disallowedTools: write\n")


@pytest.mark.parametrize(("main", "own"), list(itertools.product(MAIN, OWN)))
async def test_w4_a_subagent_may_no_more_than_its_parent(tmp_path: Path, main: str, own: str) -> None:
    """The same call, tried by both: what the parent is denied or asked about, the subagent is denied."""
    write = call("write", path="work/x.txt", content="x")
    asked = script([write, delegates(("scout", "write it")), Answer("Done.")], [write, Answer("Tried.")])
    agents = {"AGENTS.md": f"---\n{main}---\nYou are Ada.\n" if main else "You are Ada.\n"}
    rules = {"tools.json": json.dumps({"allow": ["write(work/**)"]})}
    async with living(tmp_path, asked, **agents, **scout(own), **rules) as one:
        session, _ = await one.say("go")
        by_parent = [e.status for e in events(session) if isinstance(e, ToolCallCompleted) and e.tool_name == "write"]
        journals = child_journals(one.home)
        by_child = [e.status for e in journals[0] if isinstance(e, ToolCallCompleted)]
        assert len(by_parent) == len(by_child) == 1
        if by_child == ["ok"]:
            assert by_parent == ["ok"]


ASKED = [
    pytest.param({}, "work/x.txt", id="the mode asks"),
    pytest.param({"tools.json": '{"allow": ["write"]}'}, "KNOWLEDGE.md", id="the tier asks"),
    pytest.param({"tools.json": '{"allow": ["write"], "ask": ["write(work/**)"]}'}, "work/x.txt", id="a rule asks"),
]


@pytest.mark.parametrize(("files", "path"), ASKED)
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_f1_what_a_subagent_is_asked_waits_for_a_person(
    tmp_path: Path, files: dict[str, str], path: str, decision: str
) -> None:
    asked = script(
        [delegates(("scout", "write it")), Answer("Done.")],
        [call("write", path=path, content="new-text"), Answer("Tried.")],
    )
    async with living(tmp_path, asked, **scout(), **files) as one:
        session, state = await one.say("go")
        assert state.active_run is not None
        assert state.active_run.status == "waiting_approval"
        (ref,) = state.subagents
        (below,) = ref.waiting
        assert ref.status == "waiting"
        assert (below.agent_id, below.session_id) == ("scout", ref.session_id)
        assert [one.approval for one in view(state).approval_banner.below] == [below.approval]
        (listed,) = one.runtime.waiting()
        assert (listed.session_id, listed.approval) == (ref.session_id, below.approval)
        assert not one.runtime.running
        asks = Resume.model_validate({"approvalId": below.approval.id, "decision": decision})
        async with one.runtime.visit(one.home, ref.session_id) as scouts:
            assert isinstance(await scouts.control(asks), Accepted)
        with anyio.fail_after(20):
            state = await ended(session)
        assert results(state) == [("ok", "Tried.")]
        assert [ref.status for ref in state.subagents] == ["completed"]
        done = only(ToolCallCompleted, child_journals(one.home)[0])
        assert done.status == ("ok" if decision == "allow" else "denied")
        assert ("new-text" in (one.home.path / path).read_text()) if decision == "allow" else True
        assert one.runtime.waiting() == ()
        assert len(one.requests) == 4


async def test_a_list_that_narrows_a_tool_holds_for_each_call(tmp_path: Path) -> None:
    two = (Call("write", {"path": "work/in/x.txt", "content": "x"}), Call("write", {"path": "work/x", "content": "x"}))
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer(calls=two), Answer("Tried.")])
    rules = {"tools.json": json.dumps({"allow": ["write(work/**)"]})}
    async with living(tmp_path, asked, **scout("tools: write(work/in/**)\n"), **rules) as one:
        await one.say("go")
        done = [event.status for event in child_journals(one.home)[0] if isinstance(event, ToolCallCompleted)]
        assert done == ["ok", "denied"]


async def test_it_holds_for_the_main_agent_too(tmp_path: Path) -> None:
    two = (Call("write", {"path": "work/in/x.txt", "content": "x"}), Call("write", {"path": "work/x", "content": "x"}))
    header = {"AGENTS.md": "---\ntools: write(work/in/**)\n---\nYou are Ada.\n"}
    rules = {"tools.json": json.dumps({"allow": ["write(work/**)"]})}
    async with living(tmp_path, [Answer(calls=two), Answer("Done.")], **header, **rules) as one:
        _, state = await one.say("go")
        assert [status for status, _ in results(state)] == ["ok", "denied"]
        assert one.tools() == ["write"]


async def test_a_subagent_sees_the_skills_that_it_names(tmp_path: Path) -> None:
    recipe = "---\nname: {0}\ndescription: Makes {0}.\n---\nBoil.\n"
    skills = {f"skills__{name}__SKILL.md": recipe.format(name) for name in ("tea", "rum")}
    asked = script(
        [delegates(("scout", "go")), Answer("Done.")],
        [Answer(calls=(Call("skill", {"name": "tea"}), Call("skill", {"name": "rum"}))), Answer("Tried.")],
    )
    async with living(tmp_path, asked, **scout("skills: [tea]\n"), **skills) as one:
        await one.say("go")
        (request, *_) = (request for request in one.requests if is_child(request))
        prompt = request.body["messages"][0]["content"]
        assert "Makes tea." in prompt
        assert "Makes rum." not in prompt
        done = [event.status for event in child_journals(one.home)[0] if isinstance(event, ToolCallCompleted)]
        assert sorted(done) == ["error", "ok"]


async def test_a_subagent_may_have_a_model_of_its_own(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "say Hello"), ("explore", "b")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout("model: offline\n")) as one:
        _, state = await one.say("go")
        assert results(state) == [("ok", "Hello"), ("ok", "Found.")]
        models = {only(RunStarted, journal).model for journal in child_journals(one.home)}
        assert models == {"offline", "openai/scripted"}


@pytest.mark.parametrize("tokens", [60, 1000])
async def test_a_subagent_spends_no_more_than_its_share_of_what_is_left(tmp_path: Path, tokens: int) -> None:
    reads = [Answer(f"Part {n}.", calls=(Call("read", {"path": "AGENTS.md", "offset": n}),)) for n in range(1, 200)]
    asked = script([delegates(("scout", "a"), ("scout", "b")), Answer("Done.")], [*reads])
    agents = {"AGENTS.md": f"---\nbudget: {{tokens: {tokens}}}\n---\nYou are Ada.\n"}
    async with living(tmp_path, asked, **agents, **scout("budget: {turns: 20}\n")) as one:
        _, state = await one.say("go")
        budgets = [only(RunStarted, journal).budget for journal in child_journals(one.home)]
        share = (tokens - 18) // 2
        assert [budget.tokens for budget in budgets] == [share, share]
        ends = {only(RunFinished, journal).reason for journal in child_journals(one.home)}
        assert ends <= {"token_budget", "max_turns", "no_progress"}
        spent = state.usage.total.input_tokens + state.usage.total.output_tokens
        assert spent <= tokens + 3 * 18, "over by at most the last request of each"
        for status, text in results(state):
            assert status == "error"
            assert "scout did not finish" in text
            assert "Part " in text


async def test_a_stop_stops_everybody_below(tmp_path: Path) -> None:
    """F5: three levels; the lowest waits for its model when the stop comes."""
    waits = asyncio.Event()

    def reply(request: Request) -> Answer:
        if not is_child(request):
            return delegates(("scout", "one below"))
        if "one below" in task_of(request):
            return delegates(("scout", "two below"))
        waits.set()
        return Answer("never", ends="hang", after=0)

    async with living(tmp_path, reply, **scout("tools: delegate, read\n")) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        with anyio.fail_after(20):
            await waits.wait()
            assert isinstance(await session.control(Stop()), Accepted)
            before = len(one.requests)
            state = await session.idle()
        assert state.last_run is not None
        assert state.last_run.reason == "stopped"
        assert [status for status, _ in results(state)] == ["cancelled"]
        assert [ref.status for ref in state.subagents] == ["stopped"]
        journals = child_journals(one.home)
        assert [only(RunFinished, journal).reason for journal in journals] == ["stopped", "stopped"]
        assert len(one.requests) == before


async def test_the_parents_deadline_ends_its_subagents(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer("half", ends="hang")])
    agents = {"AGENTS.md": "---\nbudget: {seconds: 1}\n---\nYou are Ada.\n"}
    async with living(tmp_path, asked, **agents, **scout()) as one:
        with anyio.fail_after(20):
            _, state = await one.say("go")
        assert state.last_run is not None
        assert state.last_run.reason == "deadline"
        (journal,) = child_journals(one.home)
        assert only(RunFinished, journal).reason in {"deadline", "stopped"}
        assert {ref.status for ref in state.subagents} <= {"failed", "stopped"}


async def test_f2_a_crash_in_between_goes_on_with_the_same_subagent(tmp_path: Path) -> None:
    hanging = asyncio.Event()

    def first(request: Request) -> Answer:
        if not is_child(request):
            return delegates(("scout", "learn it"))
        if turns_of(request) == 0:
            return call("remember", text="The sky is blue")
        hanging.set()
        return Answer("never", ends="hang", after=0)

    async with living(tmp_path, first, **scout()) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        with anyio.fail_after(20):
            await hanging.wait()
    (interrupted,) = child_journals(one.home)
    second = script([delegates(("scout", "learn it")), Answer("Done.")], [Answer("?"), Answer("Learnt.")])
    async with living(tmp_path, second) as two:
        session = await two.runtime.session(two.home, session.session_id)
        session.recover()
        with anyio.fail_after(20):
            state = await session.idle()
        assert results(state) == [("ok", "Learnt.")]
        assert last_text(state) == "Done."
        (journal,) = child_journals(two.home)
        assert only(RunStarted, journal) == only(RunStarted, interrupted)
        assert len([event for event in journal if isinstance(event, ToolCallRunning)]) == 1
        assert len([entry for entry in two.runtime.log(two.home) if "sky" in entry.subject]) == 1
        assert len([e for e in events(session) if isinstance(e, SubagentStarted)]) == 1
        assert len([e for e in events(session) if isinstance(e, SubagentFinished)]) == 1


async def test_a_home_replaces_a_built_in_role_by_a_file_of_its_name(tmp_path: Path) -> None:
    own = {"subagents__explore.md": "---\ndescription: Ours.\ntools: read\n---\nOur own explorer.\n"}
    asked = script([delegates(("explore", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **own) as one:
        await one.say("go")
        (request,) = (request for request in one.requests if is_child(request))
        assert "Our own explorer." in request.body["messages"][0]["content"]
        (delegate,) = (t["function"] for t in one.requests[0].body["tools"] if t["function"]["name"] == "delegate")
        assert "- explore:" not in delegate["description"]
        assert "- plan:" in delegate["description"]
        assert "Ours." in one.prompt(0)


@pytest.mark.parametrize("text", ["---\nmode: wild\n---\nLook.\n", "", "---\ntools: [read\n---\nLook.\n"])
async def test_h5_a_broken_file_does_not_bring_the_wider_role_back(tmp_path: Path, text: str) -> None:
    asked = script([delegates(("general", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **{"subagents__general.md": text}) as one:
        _, state = await one.say("go")
        for request in one.requests:
            tools = {tool["function"]["name"] for tool in request.body.get("tools", [])}
            assert not is_child(request) or "write" not in tools
        (result,) = results(state)
        assert result[0] in {"ok", "error"}


UNKNOWN = ["nobody", "Scout", "main", "../scout", " scout"]


@pytest.mark.parametrize("name", UNKNOWN)
async def test_a_name_that_nobody_bears_is_told_with_those_that_are_near(tmp_path: Path, name: str) -> None:
    asked = script([delegates((name, "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout(), **{"subagents__main.md": SCOUT.format(more="")}) as one:
        _, state = await one.say("go")
        (result,) = results(state)
        assert result[0] == "error"
        assert "There is no subagent named" in result[1]
        assert child_journals(one.home) == []


async def test_a_rule_can_deny_one_subagent(tmp_path: Path) -> None:
    asked = script([delegates(("general", "go"), ("explore", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **{"tools.json": '{"deny": ["delegate(general)"]}'}) as one:
        _, state = await one.say("go")
        assert [status for status, _ in results(state)] == ["denied", "ok"]


async def test_delegating_goes_three_deep_and_no_deeper(tmp_path: Path) -> None:
    depths: list[bool] = []

    def reply(request: Request) -> Answer:
        may = any(tool["function"]["name"] == "delegate" for tool in request.body.get("tools", []))
        if turns_of(request):
            return Answer("Back.")
        depths.append(may)
        return delegates(("scout", "deeper")) if may else Answer("At the bottom.")

    async with living(tmp_path, reply, **scout("tools: delegate\n")) as one:
        _, state = await one.say("go")
        assert depths == [True, True, True, False]
        assert last_text(state) == "Back."


async def test_w6_what_a_subagent_is_told_and_tells_is_no_more_trusted_than_what_was_seen(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout()) as one:
        _, state = await one.say("go")
        task = next(
            event.message
            for event in child_journals(one.home)[0]
            if isinstance(event, MessageCreated) and text_of(event.message) == "go"
        )
        assert task.role == "user"
        assert task.origin == "agent"
        assert state.context_origin == "agent"


async def test_a_failing_model_fails_the_subagent_and_not_its_parent(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Refusal(401, {"error": {"message": "no key"}})])
    async with living(tmp_path, asked, **scout()) as one:
        _, state = await one.say("go")
        (result,) = results(state)
        assert result[0] == "error"
        assert "scout did not finish: failed" in result[1]
        assert last_text(state) == "Done."


async def test_f9_a_subagents_session_that_cannot_be_opened_fails_that_call_alone(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout()) as one:
        (one.home.path / "agents").mkdir(exist_ok=True)
        (one.home.path / "agents/scout").write_text("in the way")
        _, state = await one.say("go")
        (result,) = results(state)
        assert result[0] == "error"
        assert [ref.status for ref in state.subagents] == ["failed"]
        assert last_text(state) == "Done."


async def test_a_message_from_inside_is_answered_once_whatever_its_trigger_says(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("Once.")]) as one:
        session = await one.runtime.session(one.home)
        message = UserMessage(id=new_id("msg"), parts=(TextPart(text="go"),))
        await session.begin(message, Trigger(kind="delegate"))
        with anyio.fail_after(20):
            state = await session.idle()
        assert last_text(state) == "Once."
        assert len(one.requests) == 1


async def test_a_subagents_session_is_not_worked_from_outside(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout()) as one:
        _, state = await one.say("go")
        async with one.runtime.visit(one.home, state.subagents[0].session_id) as scouts:
            before = scouts.state
            for control in (Invoke(input="for me"), UpdateState(patch={"mode": "auto"})):
                answer = await scouts.control(control)
                assert isinstance(answer, Refused)
                assert "subagent scout's" in answer.message
            assert scouts.state is before


async def test_closing_a_session_leaves_no_subagent_at_work(tmp_path: Path) -> None:
    hanging = asyncio.Event()

    def reply(request: Request) -> Answer:
        if not is_child(request):
            return delegates(("scout", "go"))
        hanging.set()
        return Answer("never", ends="hang", after=0)

    async with living(tmp_path, reply, **scout()) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        with anyio.fail_after(20):
            await hanging.wait()
            await session.close()
            await one.server.left.wait()
        (journal,) = child_journals(one.home)
        assert not any(isinstance(event, RunFinished) for event in journal)
