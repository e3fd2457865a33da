"""A decision for always is a rule in tools.json, by the operator; what can't be written leaves all as it was."""

import json
from pathlib import Path

import pytest

from harnessd.daemon.session import Accepted
from harnessd.errors import HistoryError
from harnessd.facts.control import Resume
from harnessd.home.rules_text import NoPlace, with_allow_rule
from harnessd.home.tools_file import read_tools
from harnessd.models.script import Answer
from tests.daemon.living import call, living, results
from tests.daemon.test_users_work import git

RULE = "write(work/a.txt)"


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
