"""H1 through the real command: an edit of each part of a home is in the next request, in both lanes."""

import json
from collections.abc import Callable

import anyio
import pytest

from harnessd.models.script import Answer, Request
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import make, write
from tests.e2e.lanes import LANES, Lane, calls, harnessd, of_type, talking

SKILL = "---\nname: tea\ndescription: Brews tea. Use when somebody is thirsty.\n---\nBoil water.\n"
SUBAGENT = "---\nname: scout\ndescription: Scouts ahead. Use for searches.\n---\nYou look.\n"


def in_prompt(text: str) -> Callable[[Lane, Request], bool]:
    return lambda lane, request: text in lane.prompt(request)


EDITS: dict[str, tuple[str, Callable[[Lane, Request], bool]]] = {
    "AGENTS.md": ("# Ada\n\nAlways answer in rhyme.\n", in_prompt("Always answer in rhyme.")),
    "MEMORY.md": ("# Memory\n\n- The user likes green tea\n", in_prompt("The user likes green tea")),
    "KNOWLEDGE.md": ("# Field\n\nWater boils at 100 degrees.\n", in_prompt("Water boils at 100 degrees.")),
    "tools.json": ('{"deny": ["todo"]}', lambda lane, request: "todo" not in lane.tools(request)),
    "skills/tea/SKILL.md": (SKILL, in_prompt("Brews tea.")),
    "subagents/scout.md": (SUBAGENT, in_prompt("Scouts ahead.")),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_h1_each_edit_is_in_the_next_request(lane: Lane) -> None:
    home = make()
    async with ScriptedServer([Answer("ok")]) as server:
        async with talking("ada", "--model", lane.model, env=lane.env(server)) as talk:
            await talk.say("hello")
            for path, (text, shows) in EDITS.items():
                assert not shows(lane, server.requests[-1]), path
                write(home, path, text)
                events = await talk.say(f"hello after {path}")
                assert shows(lane, server.requests[-1]), path
                assert f"hello after {path}" in lane.said(server.requests[-1])
            [started] = of_type(events, "run.started")
        assert all(request.wire == ("anthropic" if lane.name == "litellm" else "openai") for request in server.requests)
    assert len(server.requests) == len(EDITS) + 1
    why = await harnessd("why", "ada", started["runId"], "--json")
    told = json.dumps(why.records)
    assert why.code == 0
    assert started["pin"] in told
    assert all(path in told for path in EDITS), told


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_w7_what_the_agent_learns_is_a_commit_and_in_the_next_request(lane: Lane) -> None:
    home = make()
    learn = calls(
        ("remember", {"text": "the kettle is in the cellar"}),
        ("write", {"path": "skills/tea/SKILL.md", "content": SKILL}),
    )
    async with ScriptedServer([learn, Answer("noted")]) as server:
        async with talking("ada", "--model", lane.model, env=lane.env(server)) as talk:
            events = await talk.say("Learn it.")
            learned = of_type(events, "tool.call.completed")
            assert [one["status"] for one in learned] == ["ok", "ok"], learned
            await talk.say("/new\nAnd now?")
        assert "in the cellar" not in lane.prompt(server.requests[0])
        assert "in the cellar" in lane.prompt(server.requests[-1])
        assert "Brews tea." in lane.prompt(server.requests[-1])
    log = await harnessd("log", "ada", "--json")
    for one in learned:
        entry = json.dumps(next(entry for entry in log.records if one["commit"] in json.dumps(entry)))
        assert all(one[field] in entry for field in ("sessionId", "runId", "toolCallId")), entry
    status = await anyio.run_process(["git", "-C", str(home), "status", "--porcelain"])
    assert status.stdout == b""
