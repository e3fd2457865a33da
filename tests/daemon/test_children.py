"""P1: whatever a home declares, a subagent may no more than the agent that it works for."""

import json
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.explain import Explained, explainer
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Mode
from harnessd.home.layout import Home
from tests.daemon.living import make_home, make_settings, write

MODES = ("plan", "default", "acceptEdits", "auto", "dontAsk", "bypassPermissions")
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
CALLS: tuple[tuple[str, JsonObject], ...] = (
    ("read", {"path": "AGENTS.md"}),
    ("read", {"path": "/srv/granted/x"}),
    ("write", {"path": "work/a.txt", "content": "x"}),
    ("write", {"path": "skills/tea/SKILL.md", "content": "x"}),
    ("write", {"path": "AGENTS.md", "content": "x"}),
    ("write", {"path": "/srv/granted/x", "content": "x"}),
    ("edit", {"path": "tools.json", "edits": [{"old": "a", "new": "b"}]}),
    ("remember", {"text": "tea"}),
    ("execute", {"command": "git log --oneline"}),
    ("execute", {"command": "rm -rf x"}),
    ("todo", {"todos": []}),
    ("delegate", {"agent": "explore", "task": "look"}),
    ("connect", {"action": "list"}),
    ("connect", {"action": "attach", "name": "x", "command": "true"}),
    ("brew", {}),
    ("mcp__far__look", {}),
    ("mcp__far__send", {"to": "x"}),
)
NAMES = ("read", "write", "edit", "remember", "execute", "todo", "delegate", "connect", "brew", "mcp__far__look")
SPECIFIC = ("write(work/**)", "write(AGENTS.md)", "execute(git log:*)", "execute(rm:*)", "read(AGENTS.md)")
RULES = st.lists(st.sampled_from((*NAMES, *SPECIFIC, "mcp__far__*", "mcp__*", "*", "send")), max_size=3, unique=True)
TOOLS = st.lists(st.sampled_from((*NAMES, *SPECIFIC, "mcp__far__*", "*")), max_size=5, unique=True)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(MODES),
        "tools": TOOLS,
        "disallowedTools": st.lists(st.sampled_from((*NAMES, *SPECIFIC)), max_size=2, unique=True),
        "workdirs": st.sampled_from([[], ["/srv/granted"]]),
    },
)
FILES = st.fixed_dictionaries({"allow": RULES, "ask": RULES, "deny": RULES})
DECLARED = {
    "mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}},
    "scripts": [{"name": "brew", "description": "Brews.", "command": "true"}],
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home in it, whose files each example writes anew."""
    folder = tmp_path_factory.mktemp("children")
    make_home(make_settings(folder, "http://127.0.0.1:9"))
    return folder


@settings(max_examples=25)
@given(
    headers=st.lists(HEADERS, min_size=2, max_size=3),
    declared=FILES,
    operator=FILES,
    ceiling=st.sampled_from(MODES),
    asked=st.sampled_from([None, *MODES]),
)
def test_p1_a_child_may_no_more_than_its_parent(
    base: Path, headers: list[JsonObject], declared: JsonObject, operator: JsonObject, ceiling: str, asked: Mode | None
) -> None:
    """For each agent of a line of delegates and each call: what it may unasked, every agent above it may unasked."""
    anyio.run(compare, base, headers, declared, {"ceiling": {"mode": ceiling}, "rules": operator}, asked)


async def compare(
    base: Path, headers: list[JsonObject], declared: JsonObject, operator: JsonObject, asked: Mode | None
) -> None:
    chosen = make_settings(base, "http://127.0.0.1:9", **operator)
    home = Home(chosen.workspaces / "ada")
    write(home.path / "tools.json", json.dumps({**DECLARED, **declared}))
    line: tuple[str, ...] = ()
    async with Runtime.open(chosen, {}, only_looks=True) as runtime:
        above = None
        for name, header in zip(("", "one", "two"), headers, strict=False):
            line = (*line, name) if name else ()
            about = {"description": "Helps. Use for help.", **header}
            write(
                home.path / (f"subagents/{name}.md" if name else "AGENTS.md"), f"---\n{json.dumps(about)}\n---\nHi.\n"
            )
        runtime.trust_home(home)
        for length in range(len(line) + 1):
            known = await explainer(runtime.resident(home), None, asked, line[:length])
            answers = [await known.explain(tool, arguments) for tool, arguments in CALLS]
            decided = [one.decision if isinstance(one, Explained) else "deny" for one in answers]
            for call, wide, narrow in zip(CALLS, above or decided, decided, strict=True):
                assert STRICTNESS[narrow] >= STRICTNESS[wide], (call, line[:length], wide, narrow)
            above = decided
