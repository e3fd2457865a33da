"""H1, H2: whoever edits the home changes the next request, and nothing else does."""

import json
import sys
from pathlib import Path

import pytest

from harnessd.models.script import Answer
from tests.daemon.living import call, living, write

TIME = '{"mcpServers": {}, "deny": ["todo"]}'
SKILL = "---\nname: tea\ndescription: Brews tea. Use when somebody is thirsty.\n---\nBoil water.\n"
SUBAGENT = "---\nname: scout\ndescription: Looks around. Use for searches.\n---\nYou look.\n"


@pytest.mark.parametrize(
    ("path", "text", "shows"),
    [
        ("AGENTS.md", "# Ada\n\nAlways answer in rhyme.\n", "Always answer in rhyme."),
        ("MEMORY.md", "# Memory\n\n- The user likes green tea\n", "The user likes green tea"),
        ("KNOWLEDGE.md", "# Field\n\nWater boils at 100 degrees.\n", "Water boils at 100 degrees."),
        ("skills/tea/SKILL.md", SKILL, "Brews tea."),
        ("subagents/scout.md", SUBAGENT, "Looks around."),
    ],
)
async def test_h1_an_edit_is_in_the_next_request(tmp_path: Path, path: str, text: str, shows: str) -> None:
    async with living(tmp_path, [Answer("ok")]) as one:
        session, _ = await one.say("hello")
        assert shows not in one.prompt()
        write(one.home.path / path, text)
        await one.say("hello again", session)
        assert shows in one.prompt()
        (one.home.path / path).unlink()
        if path != "AGENTS.md":
            await one.say("and again", session)
            assert shows not in one.prompt()


async def test_h1_an_edit_of_tools_json_changes_what_is_offered(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("ok")]) as one:
        session, _ = await one.say("hello")
        assert "todo" in one.tools()
        write(one.home.path / "tools.json", TIME)
        await one.say("hello again", session)
        assert "todo" not in one.tools()


async def test_h2_unchanged_home_gives_byte_identical_prefix(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("ok")], **{"skills__tea__SKILL.md": SKILL}) as one:
        for _ in range(20):
            await one.say("hello")
        firsts = {str(request.body["messages"][0]) for request in one.requests}
        tools = {str(request.body["tools"]) for request in one.requests}
        assert len(firsts) == 1
        assert len(tools) == 1


async def test_h2_a_change_during_a_run_is_told_and_leaves_the_prefix(tmp_path: Path) -> None:
    """The rule counts at once; the prompt that the model was given stays as it is."""

    def script(request: object) -> Answer:
        seen.append(request)
        if len(seen) == 1:
            write(tmp_path / "workspaces/ada/AGENTS.md", "# Ada\n\nSay everything twice.\n")
            write(tmp_path / "workspaces/ada/tools.json", '{"deny": ["todo"]}')
            return call("todo", todos=[{"text": "one", "status": "open"}])
        return Answer("done")

    seen: list[object] = []
    async with living(tmp_path, script) as one:
        session, state = await one.say("go")
        assert one.prompt(0) == one.prompt(1)
        assert "Say everything twice." in one.said_to(1)
        assert "todo" not in one.tools(1)
        assert state.todos == ()
        assert [event.type for event in session.journal() if event.type == "home.changed"] == ["home.changed"]


async def test_h4_what_of_a_servers_tools_is_left_out_is_told(tmp_path: Path) -> None:
    server = Path(__file__).parent.parent / "tools/hostile_server.py"
    declared = {"command": sys.executable, "args": [str(server), "bad schema"], "trust": "local"}
    tools = json.dumps({"mcpServers": {"odd": declared}})
    async with living(tmp_path, [Answer("ok")], **{"tools.json": tools}) as one:
        _, state = await one.say("hello")
        assert "mcp__odd__echo" in one.tools()
        (problem,) = state.problems
        assert problem.code == "mcp-tools-left-out"
        assert "the tool 'odd' is left out" in problem.message
