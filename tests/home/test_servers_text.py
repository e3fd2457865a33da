"""A server put into tools.json and taken out again leaves every other byte as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.change import EditFile, Entries, PutFile, apply, smallest_edit
from harnessd.home.literal_secrets import literal_secrets
from harnessd.home.rules_text import NoPlace
from harnessd.home.servers_text import with_server, without_server
from harnessd.home.tools_file import RemoteServer, StdioServer, read_tools

NEW = {"url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer ${EXAMPLE_TOKEN}"}}
TEXTS = {
    "nothing": "",
    "empty": "{}",
    "rules only": '{\n  "deny": ["forget"]\n}\n',
    "map": '{\n  "mcpServers": {\n    "a": {"command": "x"}\n  },\n  "allow": []\n}\n',
    "empty map": '{"mcpServers": {}, "allow": []}',
    "other spelling": '{"mcp_servers": {"a": {"command": "x"}}}',
    "vscode": '{\n\t"servers": {\n\t\t"a": {"command": "x"},\n\t},\n}\n',
    "bare": '{\n  "a": {"command": "x"},\n  "odd": 1\n}\n',
    "list": '{"mcpServers": [{"name": "a", "url": "https://a.example"}], "allow": ["find"]}',
    "comments": (
        '{\n  // mine\n  "mcpServers": { // and mine\n    "a": {"command": "x"}, /* , */\n'
        '    "b": {"command": "y"}\n  }\n}\n'
    ),
    "crlf and bom": '\ufeff{\r\n  "mcpServers": {\r\n    "a": {"command": "x"}\r\n  }\r\n}\r\n',
}


@pytest.mark.parametrize("case", TEXTS)
def test_in_and_out_again(case: str) -> None:
    raw = TEXTS[case].encode()
    before, _ = read_tools(raw)
    added = with_server(raw, "new", NEW)
    assert isinstance(added, bytes), added
    tools, problems = read_tools(added)
    assert tools is not None
    assert before is not None
    assert tools.mcp_servers == {"new": RemoteServer(**NEW), **before.mcp_servers}
    assert not [problem for problem in problems if problem.severity == "error"]
    removed = without_server(added, "new")
    assert isinstance(removed, bytes), removed
    assert read_tools(removed)[0] == before
    if before.mcp_servers:
        assert removed == raw
    assert isinstance(with_server(added, "new", NEW), NoPlace)
    assert isinstance(without_server(raw, "new"), NoPlace)


@pytest.mark.parametrize("case", [name for name, text in TEXTS.items() if '"a"' in text])
def test_each_one_can_be_taken_out(case: str) -> None:
    raw = TEXTS[case].encode()
    before, _ = read_tools(raw)
    assert before is not None
    for name in before.mcp_servers:
        removed = without_server(raw, name)
        assert isinstance(removed, bytes), removed
        after, _ = read_tools(removed)
        assert after is not None
        assert set(after.mcp_servers) == set(before.mcp_servers) - {name}
        assert after.allow == before.allow


@pytest.mark.parametrize("text", ["[]", "{", '{"mcpServers": 1}', '{"a": 1, "a": 2}', "\udcff"])
def test_a_broken_file_is_left_alone(text: str) -> None:
    assert isinstance(with_server(text.encode("utf-8", "surrogateescape"), "new", NEW), NoPlace)


def test_a_name_that_means_something_else_there_is_refused() -> None:
    assert isinstance(with_server(b'{"a": {"command": "x"}}', "allow", {"command": "y"}), NoPlace)


NOTHING = Entries(add=lambda text, _entry, _heading: text, remove=lambda _text, _match: None)


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12))
def test_the_smallest_edit_makes_the_one_from_the_other(before: str, after: str) -> None:
    made = smallest_edit(before.encode(), after.encode())
    assert apply(made, before.encode(), NOTHING) == after.encode()
    assert isinstance(made, EditFile | PutFile)


LITERAL = [
    StdioServer(command="x", env={"API_KEY": "hunter2hunter2"}),
    StdioServer(command="x", env={"GITHUB_TOKEN": "${GITHUB_TOKEN:-hunter2hunter2}"}),
    StdioServer(command="x", env={"dbPassword": "correct-horse"}),
    StdioServer(command="x", env={"OTHER": "a1B2" * 8}),
    StdioServer(command="x", args=("--api-key", "hunter2hunter2")),
    StdioServer(command="x", args=("--token=hunter2hunter2",)),
    StdioServer(command="x", args=("postgres://bo:" + "hunter22@db.example/x",)),
    RemoteServer(url="https://x.example/?api_key=hunter2hunter2"),
    RemoteServer(url="https://x.example", headers={"Authorization": "Bearer hunter2hunter2"}),
    RemoteServer(url="https://x.example", headers={"X-Api-Key": "hunter2hunter2"}),
]
HARMLESS = [
    StdioServer(command="x", env={"API_KEY": "${API_KEY}", "B": "${B:-debug}", "TOKEN_LIMIT": "400000000"}),
    StdioServer(command="x", env={"KEY": "./keys/public.pem", "AUTH": "none", "LOG_LEVEL": "debug"}),
    StdioServer(command="npx", args=("-y", "@modelcontextprotocol/server-filesystem", "/home/bo/My Documents")),
    StdioServer(command="uvx", args=("--from", "git+https://github.com/a/b@0123456789abcdef01234567", "b")),
    RemoteServer(url="https://x.example/?key=${KEY}&page=12345678", headers={"Authorization": "Bearer ${TOKEN}"}),
    RemoteServer(url="https://x.example", headers={"Accept": "application/json", "X-Team": "gardeners"}),
]


@pytest.mark.parametrize("server", LITERAL)
def test_w3_a_secret_that_stands_there_as_it_is_is_found_and_not_told(server: StdioServer | RemoteServer) -> None:
    (found,) = literal_secrets(server)
    assert found.place
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize("server", HARMLESS)
def test_what_is_no_secret_may_stand_there(server: StdioServer | RemoteServer) -> None:
    assert literal_secrets(server) == ()
