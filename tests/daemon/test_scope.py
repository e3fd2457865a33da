"""How far an approval reaches: this call, its like in this session, its like for good."""

import sys
from pathlib import Path

from harnessd.daemon.session import Accepted
from harnessd.facts.control import Resume
from harnessd.models.script import Answer, Call
from tests.daemon.living import Living, call, living, results


async def test_w4_allowing_a_call_for_the_session_allows_its_like_and_nothing_else(tmp_path: Path) -> None:
    script = [
        call("write", path="work/a.txt", content="1"),
        Answer("written"),
        call("write", path="work/a.txt", content="2"),
        Answer("written again"),
        call("write", path="work/b.txt", content="3"),
        Answer("and that"),
    ]
    async with living(tmp_path, script) as one:
        session, state = await one.say("write a")
        (approval,) = state.pending_approvals
        accepted = await session.control(Resume(approval_id=approval.id, decision="allow", scope="session"))
        assert isinstance(accepted, Accepted)
        state = await session.idle()
        assert state.toolkit.allowed == ("write(work/a.txt)",)
        _, state = await one.say("write a again", session)
        assert state.pending_approvals == ()
        assert (one.home.path / "work/a.txt").read_text() == "2"
        _, state = await one.say("write b", session)
        assert [approval.arguments["path"] for approval in state.pending_approvals] == ["work/b.txt"]


async def test_what_a_session_has_read_it_knows_in_its_next_run(tmp_path: Path) -> None:
    """`write` refuses to replace a file that the session has not read; the session is more than one run."""
    script = [
        call("read", path="work/plan.txt"),
        Answer("read"),
        call("write", path="work/plan.txt", content="new"),
        Answer("written"),
    ]
    allow = {"tools.json": '{"allow": ["write(work/**)"]}'}
    async with living(tmp_path, script, **allow) as one:
        _put(one, "work/plan.txt", "old")
        session, _ = await one.say("read the plan")
        _, state = await one.say("now replace it", session)
        assert [status for status, _ in results(state)] == ["ok", "ok"], results(state)
        assert (one.home.path / "work/plan.txt").read_text() == "new"


async def test_tools_found_by_two_calls_of_one_turn_are_all_found(tmp_path: Path) -> None:
    servers = Path(__file__).with_name("many_tools_server.py")
    tools = f'{{"mcpServers": {{"many": {{"command": "{sys.executable}", "args": ["{servers}"], "trust": "local"}}}}}}'
    script = [
        Answer(calls=(Call("find_tools", {"query": "tool_18"}), Call("find_tools", {"query": "tool_19"}))),
        call("find_tools", query="tool_17"),
        Answer("found"),
    ]
    async with living(tmp_path, script, **{"tools.json": tools}) as one:
        _, state = await one.say("look for tools")
        names = [f"mcp__many__tool_{number}" for number in (18, 19, 17)]
        assert list(state.toolkit.found) == names
        assert one.tools()[-3:] == names


def _put(one: Living, path: str, text: str) -> None:
    (one.home.path / path).parent.mkdir(exist_ok=True)
    (one.home.path / path).write_text(text)
