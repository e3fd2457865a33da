"""A decision for always is a rule in tools.json, by the operator; what can't be written leaves all as it was."""

import json
import sys
from pathlib import Path
from typing import Literal

import pytest

from harnessd.daemon.session import Accepted
from harnessd.errors import HistoryError
from harnessd.facts.control import Resume
from harnessd.facts.event import ToolCallCompleted, ToolCallRunning
from harnessd.facts.run import Approval, Decision, LayerAnswer
from harnessd.home.rules_text import NoPlace, with_allow_rule
from harnessd.home.tools_file import read_tools
from harnessd.models.script import Answer, Call
from tests.daemon.living import call, events, living, results
from tests.daemon.test_users_work import git

RULE = "write(work/a.txt)"
LAYERS = ["rules", "mode", "arguments", "hooks", "classifier", "person"]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"allow": []}',
        '{\n  // mine\n  "deny": ["edit(x)"], // "allow": [ is not here\n}',
        '{\n  "allow": [\n    "read(a]b)",\n    "todo"\n  ]\n}\n',
        '{"mcpServers": {"x": {"command": "y", "env": {"allow": "["}}}, "allow": ["todo"]}',
        '{"mcpServers": {"x": {"command": "y", "allow": ["z"]}}}',
        '{"time": {"command": "mcp-server-time"}}',
    ],
)
def test_the_rule_is_in_force_and_the_rest_as_it_was(text: str) -> None:
    before, _ = read_tools(text.encode())
    new = with_allow_rule(text.encode(), RULE)
    assert isinstance(new, bytes)
    after, _ = read_tools(new)
    assert before is not None
    assert after is not None
    assert set(after.allow) == {*before.allow, RULE}
    assert after.model_copy(update={"allow": before.allow}) == before
    assert with_allow_rule(new, RULE) == new


@pytest.mark.parametrize("text", ["", "no json", '{"allow": "todo"}', "[1, 2]", "\udce9"])
def test_what_has_no_place_for_it_is_refused(text: str) -> None:
    assert isinstance(with_allow_rule(text.encode("utf-8", "surrogateescape"), RULE), NoPlace)


async def test_always_writes_the_rule_as_the_operator_and_asks_no_more(tmp_path: Path) -> None:
    script = [call("write", path="work/a.txt", content="one"), Answer("done")]
    script += [call("edit", path="work/a.txt", edits=[{"old": "one", "new": "two"}]), Answer("done")]
    async with living(tmp_path, script) as one:
        session, state = await one.say("write it")
        (approval,) = state.pending_approvals
        decided = await session.control(Resume(approval_id=approval.id, decision="allow", scope="always"))
        assert isinstance(decided, Accepted)
        await session.idle()
        assert json.loads((one.home.path / "tools.json").read_text())["allow"] == [RULE]
        assert one.runtime.log(one.home)[0].kind == "operator"
        _, state = await one.say("and change it", session)
        assert state.pending_approvals == ()
        assert results(state)[-1][0] == "ok"


SERVER = str(Path(__file__).with_name("tally_server.py"))
KINDS = {
    "write": (call("write", path="work/a.txt", content="x"), "write(work/a.txt)"),
    "edit": (call("edit", path="work/b.txt", edits=[{"old": "x", "new": "y"}]), "edit(work/b.txt)"),
    "script": (call("brew", path="anything"), "brew"),
    "mcp": (call("mcp__tally__add", line="x"), "mcp__tally__add"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_tool_has_its_rule_and_is_asked_about_once(tmp_path: Path, kind: str) -> None:
    """A person's word is on record with the answers of all the layers; the rule decides from then on, and says so."""
    asks, rule = KINDS[kind]
    declared: dict[str, object] = {
        "scripts": [{"name": "brew", "description": "Brews.", "command": "cat"}],
    }
    if kind == "mcp":
        server = {"command": sys.executable, "args": [SERVER, str(tmp_path / "tally.txt")], "trust": "local"}
        declared["mcpServers"] = {"tally": server}
    script = [asks, Answer("done"), asks, Answer("done")]
    async with living(tmp_path, script, **{"tools.json": json.dumps(declared)}) as one:
        git(one.home.path, "add", "-A")
        git(one.home.path, "commit", "-qm", "mine")
        (one.home.path / "work").mkdir(exist_ok=True)
        (one.home.path / "work/b.txt").write_text("x")
        session, state = await one.say("go")
        (approval,) = state.pending_approvals
        assert len(approval.policy.answers) == 6
        assert isinstance(
            await session.control(Resume(approval_id=approval.id, decision="allow", scope="always")), Accepted
        )
        await session.idle()
        assert json.loads((one.home.path / "tools.json").read_text())["allow"] == [rule]
        assert one.runtime.log(one.home)[0].kind == "operator"
        session, state = await one.say("go")
        assert state.pending_approvals == ()
        told = [event.decision for event in events(session) if isinstance(event, ToolCallRunning)]
        assert [(one.layer, one.rule, len(one.answers)) for one in told] == [("rules", rule, 6)]


@pytest.mark.parametrize(
    ("command", "safety", "rule"),
    [
        ("pytest -q tests", False, "execute(pytest -q tests)"),
        ("pytest -q tests", True, None),
        ("rm *.txt", False, None),
    ],
)
async def test_a_command_has_a_rule_unless_only_a_person_may_lift_the_ask(
    tmp_path: Path, command: str, safety: bool, rule: str | None
) -> None:
    async with living(tmp_path, []) as one:
        answer = LayerAnswer(layer="arguments", verdict="ask", reason="not known", safety=safety)
        policy = Decision(verdict="ask", layer="arguments", reason="not known", answers=(answer,))
        approval = Approval(tool_name="execute", arguments={"command": command}, policy=policy)
        assert one.runtime.resident(one.home).rule_for(approval) == rule


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_each_answer_is_on_record_whoever_decided(tmp_path: Path, decision: Literal["allow", "deny"]) -> None:
    """Allowed, denied by a layer, asked, and then allowed or denied by a person: always all six, with reasons."""
    calls = (
        Call("read", {"path": "AGENTS.md"}),
        Call("write", {"path": ".git/config", "content": "x"}),
        Call("write", {"path": "work/a.txt", "content": "x"}),
    )
    async with living(tmp_path, [Answer(calls=calls), Answer("done")]) as one:
        session, state = await one.say("go")
        (approval,) = state.pending_approvals
        await session.control(Resume(approval_id=approval.id, decision=decision, note="as I said"))
        await session.idle()
        ran = [event.decision for event in events(session) if isinstance(event, ToolCallRunning)]
        ended = [event.decision for event in events(session) if isinstance(event, ToolCallCompleted) and event.decision]
        told = [*ran, *ended, approval.policy]
        assert all([one.layer for one in each.answers] == LAYERS for each in told)
        assert all(one.reason for each in told for one in each.answers)
        by_person = [each for each in (*ran, *ended) if each.layer == "person"]
        assert [(each.verdict, each.reason) for each in by_person] == [(decision, "as I said")]
        assert sorted(each.verdict for each in told) == sorted(["allow", "deny", "ask", decision])


async def test_a_file_that_the_user_holds_is_not_touched_and_the_approval_stays(tmp_path: Path) -> None:
    script = [call("write", path="work/a.txt", content="one"), Answer("done")]
    async with living(tmp_path, script, **{"tools.json": '{"deny": ["todo"]}'}) as one:
        session, state = await one.say("write it")
        (approval,) = state.pending_approvals
        with pytest.raises(HistoryError, match="commit"):
            await session.control(Resume(approval_id=approval.id, decision="allow", scope="always"))
        assert session.state.pending_approvals == (approval,)
        assert (one.home.path / "tools.json").read_text() == '{"deny": ["todo"]}'
        git(one.home.path, "add", "-A")
        git(one.home.path, "commit", "-qm", "mine")
        decided = await session.control(Resume(approval_id=approval.id, decision="allow", scope="always"))
        assert isinstance(decided, Accepted)
        state = await session.idle()
        assert results(state)[-1][0] == "ok"
