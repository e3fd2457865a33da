"""Does `permissions` tell what would be decided, layer by layer, and change nothing by telling it?"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import harnessd, make, start, workspaces, write

LAYERS = ["rules", "mode", "arguments", "hooks", "classifier", "person"]
CREATE = {"path": "work/a.txt", "content": "x"}


def explain(agent: object, tool: str, *more: object, **arguments: Any) -> dict[str, Any]:
    given = ("permissions", "explain", agent, "--tool", tool, "--arguments", json.dumps(arguments), "--json", *more)
    said = harnessd(*given)
    assert said.code == 0, said.err
    (answer,) = said.records
    return answer


def everything() -> dict[str, tuple[int, str]]:
    """Every file of every home and of the state, git's own included, by what it holds and when it changed."""
    root = workspaces().parent.parent
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}


def test_p1_each_layer_answers_and_one_decides() -> None:
    make()
    answer = explain("ada", "write", **CREATE)
    assert set(answer) == {"decision", "layer", "reason", "layers"}
    assert (answer["decision"], answer["layer"]) == ("ask", "mode")
    assert [one["layer"] for one in answer["layers"]] == LAYERS
    assert all(one["reason"] and one["verdict"] in {"allow", "deny", "ask", "none"} for one in answer["layers"])
    assert answer["layers"][-1]["reason"] == "would be asked"


@pytest.mark.parametrize(
    ("mode", "tool", "arguments", "decision", "layer"),
    [
        ("default", "read", {"path": "AGENTS.md"}, "allow", "mode"),
        ("plan", "remember", {"text": "tea"}, "deny", "mode"),
        ("default", "remember", {"text": "tea"}, "allow", "mode"),
        ("acceptEdits", "write", CREATE, "allow", "mode"),
        ("auto", "write", CREATE, "ask", "classifier"),
        ("auto", "write", {"path": "AGENTS.md", "content": "x"}, "ask", "arguments"),
        ("default", "write", {"path": ".git/config", "content": "x"}, "deny", "arguments"),
        ("default", "read", {"path": "/etc/passwd"}, "deny", "arguments"),
        ("dontAsk", "read", {"path": "AGENTS.md"}, "deny", "mode"),
        # The ceiling is auto: what is asked for beyond it is narrowed to it.
        ("bypassPermissions", "write", CREATE, "ask", "classifier"),
        ("default", "edit", {"path": "KNOWLEDGE.md", "edits": [{"old": "a", "new": "b"}]}, "deny", "rules"),
        ("dontAsk", "write", {"path": "work/mine.txt", "content": "x"}, "allow", "rules"),
        ("default", "todo", {"todos": []}, "ask", "rules"),
    ],
)
def test_p1_what_decides(mode: str, tool: str, arguments: dict[str, Any], decision: str, layer: str) -> None:
    rules = {"allow": ["write(work/mine.txt)"], "ask": ["todo"], "deny": ["edit(KNOWLEDGE.md)"]}
    make(tools_json=json.dumps(rules))
    answer = explain("ada", tool, "--mode", mode, **arguments)
    assert (answer["decision"], answer["layer"]) == (decision, layer), answer


def test_nothing_is_changed_started_or_asked() -> None:
    home = make()
    program = workspaces() / "hook.sh"
    program.write_text(f"#!/bin/sh\ntouch {workspaces()}/hooked\n")
    program.chmod(0o755)
    (workspaces() / "harnessd.yaml").write_text(f"hooks: {{beforeTool: [[{program}]]}}\nmodel: openai/nobody\n")
    script = {"name": "brew", "description": "Brews.", "command": "touch brewed"}
    server = {"command": "touch", "args": ["started"]}
    declared = {"mcpServers": {"s": server}, "scripts": [script], "ask": ["brew"]}
    write(home, "tools_json", json.dumps(declared))
    write(home, "AGENTS_md", "---\nmode: auto\n---\nNot committed.\n")
    harnessd("trust", "ada")
    before = everything()
    answer = explain("ada", "write", **CREATE)
    assert answer["layers"][3]["reason"] == f"would be asked: {program}; it may deny or ask"
    assert (answer["decision"], answer["layer"]) == ("ask", "classifier")
    assert explain("ada", "brew")["layer"] == "rules"
    assert "not asked" in explain("ada", "mcp__s__go")["layers"][1]["reason"]
    assert harnessd("permissions", "ada").code == 0
    assert everything() == before


def test_a_servers_tool_counts_as_a_writer_where_nobody_asked_the_server() -> None:
    servers = {"far": {"url": "http://127.0.0.1:9/mcp"}, "off": {"url": "http://127.0.0.1:9/x", "enabled": False}}
    some = {"url": "http://127.0.0.1:9/y", "tools": ["one"]}
    make(tools_json=json.dumps({"mcpServers": {**servers, "some": some}, "allow": ["mcp__far__get"]}))
    answer = explain("ada", "mcp__far__look")
    assert (answer["decision"], answer["layer"]) == ("ask", "mode")
    assert "the server far was not asked, so this counts as a writer" in answer["reason"]
    assert explain("ada", "mcp__far__get")["decision"] == "allow"
    assert explain("ada", "mcp__some__one")["decision"] == "ask"
    for name in ("mcp__off__get", "mcp__nobody__get", "mcp__some__two"):
        assert harnessd("permissions", "explain", "ada", "--tool", name).code == 2


def test_what_is_not_offered_is_denied_and_says_why(tmp_path: Path) -> None:
    script = {"name": "brew", "description": "Brews.", "command": "true"}
    home = make(
        tools_json=json.dumps({"deny": ["remember"], "scripts": [script]}),
        AGENTS_md="---\ndisallowedTools: [write]\n---\n",
    )
    denied = explain("ada", "remember", text="x")
    assert (denied["decision"], denied["layer"], denied["layers"][0]["rule"]) == ("deny", "rules", "remember")
    answer = explain("ada", "write", **CREATE)
    assert (answer["decision"], answer["layer"]) == ("deny", "rules")
    assert "disallowedTools" in answer["reason"]
    copy = tmp_path / "copied"
    home.rename(copy)
    write(copy, "tools_json", json.dumps({"mcpServers": {"s": {"command": "true"}}, "scripts": [script]}))
    for name in ("brew", "mcp__s__go"):
        answer = explain(copy, name)
        assert answer["decision"] == "deny"
        assert "not trusted" in answer["reason"]


def test_a_session_brings_its_mode_its_grants_and_what_it_has_seen() -> None:
    make()
    said = harnessd("run", "ada", 'write "work/a.txt": x', "--mode", "plan", "--json")
    session = json.loads(said.out.splitlines()[0])["sessionId"]
    assert explain("ada", "write", "--session", session, **CREATE)["decision"] == "deny"
    assert explain("ada", "write", "--session", "last", **CREATE)["decision"] == "deny"
    assert explain("ada", "write", "--session", "last", "--mode", "acceptEdits", **CREATE)["decision"] == "allow"
    assert explain("ada", "write", **CREATE)["decision"] == "ask"
    assert harnessd("permissions", "explain", "ada", "--tool", "read", "--session", "ses_no").code == 2


def test_a_subagent_is_judged_below_its_parent() -> None:
    make(
        AGENTS_md="---\nmode: default\n---\n",
        subagents__hand_md="---\ndescription: Helps. Use for it.\nmode: acceptEdits\ntools: read, write\n---\nHi.\n",
    )
    assert explain("ada", "write", "--subagent", "hand", **CREATE)["decision"] == "ask"
    assert explain("ada", "remember", "--subagent", "hand", text="x")["decision"] == "deny"
    assert harnessd("permissions", "explain", "ada", "--tool", "read", "--subagent", "nobody").code == 2


@pytest.mark.parametrize(
    ("given", "where", "said"),
    [
        (("--tool", "wirte"), "--tool", "did you mean write"),
        (("--tool", "write", "--arguments", '{"path": 1}'), "--arguments", "content"),
        (("--tool", "write", "--arguments", "nonsense"), "--arguments", "Line 1"),
        (("--tool", "write", "--arguments", "[]"), "--arguments", "object"),
        ((), None, "--tool or --batch"),
        (("--tool", "read", "--batch"), None, "--tool or --batch"),
        (("--tool", "read", "--mode", "wild"), None, "wild"),
    ],
)
def test_what_is_no_call_is_refused_with_the_way_out(given: tuple[str, ...], where: str | None, said: str) -> None:
    make()
    told = harnessd("permissions", "explain", "ada", *given, "--json")
    assert told.code == 2
    assert said in told.problem["detail"]
    assert told.problem.get("where") == where


def test_a_batch_answers_each_line_in_order_and_fast() -> None:
    make()
    good = [
        {"tool": "read", "arguments": {"path": "AGENTS.md"}},
        {"tool": "write", "arguments": CREATE, "mode": "acceptEdits"},
        {"tool": "write", "arguments": CREATE, "mode": None},
        {"tool": "write", "arguments": {"path": ".git/config", "content": ""}},
    ]
    bad = {
        "{nonsense": "line", "[]": "line", "": "line", '{"arguments": {}}': "tool", '{"tool": "raed"}': "tool",
        '{"tool": "read", "arguments": []}': "arguments", '{"tool": "read"}': "arguments",
        '{"tool": "read", "arguments": {"path": "x"}, "mode": "wild"}': "mode",
        '{"tool": "read", "arguments": {"path": "x"}, "made": "plan"}': "made",
    }  # fmt: skip
    lines = [*map(json.dumps, good), *bad, *(json.dumps(good[0]) for _ in range(500))]
    process = start("permissions", "explain", "ada", "--batch", stdin=-1)
    out, err = process.communicate("\n".join(lines) + "\n", timeout=30)
    assert process.returncode == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert [one.get("decision") for one in answers[:4]] == ["allow", "allow", "ask", "deny"]
    assert [one["error"]["field"] for one in answers[4 : 4 + len(bad)]] == list(bad.values())
    assert all(one["error"]["message"] for one in answers[4 : 4 + len(bad)])
    assert [one["decision"] for one in answers[4 + len(bad) :]] == ["allow"] * 500


def test_what_an_agent_may_at_a_glance() -> None:
    (workspaces()).mkdir(parents=True)
    (workspaces() / "harnessd.yaml").write_text("rules: {deny: [todo]}\nceiling: {mode: plan}\n")
    make(AGENTS_md="---\nmode: auto\ntools: read, execute(git log:*)\n---\n", tools_json='{"allow": ["read"]}')
    said = harnessd("permissions", "ada").out
    assert "ada: mode auto, ceiling plan, so plan counts" in said
    (told,) = harnessd("permissions", "show", "ada", "--json").records
    assert (told["mode"], told["ceiling"], told["inForce"]) == ("auto", "plan", ["plan"])
    rules = [(one["source"], one["verdict"], one["rule"]) for one in told["rules"]]
    assert ("operator", "deny", "todo") in rules
    assert ("home", "allow", "read") in rules
    assert ("home", "only", "execute(git log:*)") in rules
    assert told["modes"]["plan"]["writer"] == "deny"
    assert harnessd("permissions", "nobody").code == 2
