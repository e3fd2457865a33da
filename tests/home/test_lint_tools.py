"""lint: what in tools.json loads and does nothing, or not what was meant, with its line."""

import json

import pytest

from harnessd.home.files_in_memory import FilesInMemory
from harnessd.home.lint import lint_files
from harnessd.permissions.rules import unreadable

HI = {"name": "hi", "description": "Says hi. Use when greeted, not else.", "command": "echo"}
SERVER = {"mcpServers": {"web": {"url": "https://web.example"}}}


def found(tools: object, **files: str) -> list[tuple[int, str]]:
    text = tools if isinstance(tools, str) else json.dumps(tools, indent=1)
    contents = {"AGENTS.md": b"You are Ada.\n", "tools.json": text.encode()}
    problems = lint_files(FilesInMemory(contents | {k: v.encode() for k, v in files.items()}), unreadable=unreadable)
    assert all(problem.fix and problem.message and problem.path == "tools.json" for problem in problems)
    return [(problem.line, problem.code) for problem in problems if problem.code != "not-run-yet"]


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        ({"deny": ["query/log"]}, "rule-unreadable"),
        ({"deny": ["wirte"]}, "unknown-tool"),
        ({"allow": ["query_log"]}, "unknown-tool"),
        ({"deny": ["mcp__gone__drop"]}, "unknown-tool"),
        ({**SERVER, "deny": ["exceute(rm:*)"]}, "unknown-tool"),
        ({"checks": [{"after": "wriite(**/*.py)", "command": "ruff check"}]}, "unknown-tool"),
        ({"results": {"query_log": {"maxChars": 10}}}, "unknown-tool"),
        ({"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "hunter2hunter2"}}}}, "secret-literal"),
        ({"mcpServers": [{"name": "a", "url": "https://a.example", "headers": {"X-Token": "hunter2hunter2"}}]},
         "secret-literal"),
        ({"mcpServers": {"a": {"command": "uvx mcp-server-time"}}}, "server-command"),
        ({"servers": {"a": {"command": "sh -c ls", "trust": "local"}}}, "server-command"),
        ({"scripts": [{**HI, "readonly": True}]}, "unknown-key"),
        ({"checks": [{"before": "finish", "command": "true", "timeOut": 3}]}, "unknown-key"),
        ({"results": {"read": {"maxchars": 3}}}, "unknown-key"),
        ({"scripts": [{"name": "hi", "command": "echo hi"}]}, "no-description"),
        ({"scripts": [{"name": "hi", "description": "Says hi.", "command": "echo hi"}]}, "description-when"),
        ({"scripts": [{**HI, "command": "python ../skills/hi/hi.py"}]}, "script-missing"),
        ({"scripts": [{**HI, "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}}]},
         "parameter-unclear"),
    ],
)  # fmt: skip
def test_each_fault_is_found_on_its_line(tools: dict[str, object], code: str) -> None:
    ((line, what),) = found(tools)
    assert what == code
    assert line > 1


@pytest.mark.parametrize(
    "tools",
    [
        {"allow": ["write(work/**)", "Bash(git log:*)", "*", "mcp__*__read"], "deny": ["execute", "connect"]},
        {**SERVER, "allow": ["query_log", "mcp__web__search", "mcp__web__*"], "results": {"query_log": {}}},
        {"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "${API_KEY}", "LOG": "debug"}}}},
        {"scripts": [{**HI, "command": "python ../skills/hi/hi.py $X"}],
         "results": {"hi": {"maxChars": 10}}, "checks": [{"after": "hi", "command": "true"}]},
        {"scripts": [{**HI, "command": "uvx tool ./x.py /bin/true"}]},
        {"mcpServers": {"a": {"command": "/opt/my tools/server", "args": ["a b"]}, "b": {"url": "https://b.example"}}},
        {"scripts": [{**HI, "readOnly": True, "concurrency_safe": True, "idempotent": True, "timeout": 3}]},
    ],
)  # fmt: skip
def test_what_is_right_is_left_in_peace(tools: dict[str, object]) -> None:
    assert found(tools, **{"skills/hi/hi.py": "print()\n"}) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"allow": 1}'])
def test_a_broken_file_is_reported_once_by_its_reader(text: str) -> None:
    assert "unknown-tool" not in {code for _, code in found(text)}
