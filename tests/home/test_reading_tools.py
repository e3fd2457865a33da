"""tools.json in all its forms; H5: it is read whole or not at all; M3: names that depend on no order."""

import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.expand import MissingVariable, expand, variables
from harnessd.home.mcp_names import mcp_tool_name
from harnessd.home.tools_file import RemoteServer, StdioServer, ToolsFile, read_tools

CASES = Path(__file__).parent / "cases" / "tools"
TIME = StdioServer(command="mcp-server-time")


def read(text: str) -> ToolsFile:
    tools, problems = read_tools(text.encode())
    assert tools is not None, problems
    return tools


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"time": {"command": "mcp-server-time"}}}',
        '{"mcpServers": [{"name": "time", "command": "mcp-server-time"}]}',
        '{"servers": {"time": {"type": "stdio", "command": "mcp-server-time"}}}',
        '{"time": {"command": "mcp-server-time"}}',
        '{"time": {"command": "mcp-server-time"}, "deny": []}',
        '{"mcpServers": {"time": {"type": "local", "command": ["mcp-server-time"]}}}',
        '{"mcp_servers": {"time": {"command": "mcp-server-time"}}}',
    ],
)
def test_every_form_gives_the_same_servers(text: str) -> None:
    assert dict(read(text).mcp_servers) == {"time": TIME}


def test_h3_cases() -> None:
    read_all = {path.stem: read_tools(path.read_bytes(), path.name) for path in CASES.iterdir()}
    assert dict(read_all["bare-map"][0].mcp_servers) == {"time": TIME}  # type: ignore[union-attr]
    vscode, problems = read_all["vscode"]
    assert vscode
    assert dict(vscode.mcp_servers) == {"time": TIME}
    assert [problem.code for problem in problems] == ["json-comment", "json-comma"]
    listed = read_all["list-form"][0]
    assert listed
    assert listed.offer_only_allowed
    assert list(listed.mcp_servers) == ["log-server", "alert"]
    assert listed.deny == ("drop_table",)
    mapped = read_all["map-form"][0]
    assert mapped
    assert not mapped.offer_only_allowed
    web = mapped.mcp_servers["web"]
    assert isinstance(web, RemoteServer)
    assert web.type == "http"
    assert web.headers == {"Authorization": "Bearer ${CASE_TOKEN}"}
    tools, problems = read_all["truncated"]
    assert tools is None
    assert [(problem.severity, problem.line, problem.column) for problem in problems] == [("error", 1, 34)]
    tools, problems = read_all["wrong-types"]
    assert tools is None
    assert {(problem.line, problem.column) for problem in problems} >= {(1, 15)}
    unset = read_all["unset-variable"][0]
    assert unset
    assert expand(unset.mcp_servers["x"], {}.get) == MissingVariable("CASE_UNSET", "command")
    assert expand(unset.mcp_servers["ok"], {}.get) == TIME


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n  "allow": ["a"],\n  "deny": ["ok", 7]\n}', 3, 18),
        ('{"mcpServers": {\n  "a": {"command": "x"},\n  "b": {"command": 7}}}', 3, 20),
        ('{"mcpServers": [\n  {"name": "a", "url": "http://x", "timeout": -1}]}', 2, 47),
        ('{"servers": {"a":\n {"url": []}}}', 2, 10),
        ('{"a": {"command": "x",\n "timeout": "soon"}}', 2, 13),
        ('{"mcpServers": {"a": {\n"type": "carrier-pigeon"}}}', 2, 9),
        ('{"scripts": [{"name": "x y", "command": "z"}]}', 1, 23),
        ('{"checks": [\n{"command": "z"}]}', 2, 1),
        ('{"results": {"t": {"importance": "high"}}}', 1, 34),
        ('{"allow": []\n "deny": []}', 2, 2),
        ('{"deny": ["a"],\n "deny": []}', 2, 2),
        ('{"timeout": NaN}', 1, 1),
        ('{"mcpServers": {"a": 1}}', 1, 22),
        ('{"mcpServers": {"a": {}}}', 1, 22),
        ('{"mcpServers": [{"command": "x"}]}', 1, 17),
        ('{"denny": ["x"]}', 1, 11),
        ('{"mcpServers": {}, "servers": {}}', 1, 31),
        ("[]", 1, 1),
        ("null", 1, 1),
        ("{" * 100000, 1, 2),
        ("[" * 100000, 1, 1),
        ('{"a": "\\ud800" /* open', 1, 23),
    ],
)
def test_h5_what_breaks_the_schema_names_its_place(text: str, line: int, column: int) -> None:
    tools, problems = read_tools(text.encode())
    assert tools is None
    errors = [problem for problem in problems if problem.severity == "error"]
    assert (errors[0].line, errors[0].column) == (line, column), errors
    assert all(problem.message and problem.fix and problem.path == "tools.json" for problem in problems)


@pytest.mark.parametrize("text", ['{"allow": ["execute(ls"]}', '{"deny": "write"}', '{"results": []}',
                                  '{"mcpServers": {"a": {"command": "sh", "args": "-c"}}}'])  # fmt: skip
def test_what_breaks_the_schema_is_told_in_words(text: str) -> None:
    _, problems = read_tools(text.encode())
    said = problems[0].message
    assert not any(jargon in said for jargon in ("tuple", "dictionary", "pattern", "^")), said


def test_unknown_keys_are_kept_and_reported() -> None:
    text = '{"x": 1, "mcpServers": {"a": {"command": "c", "category": "time"}}}'
    tools, problems = read_tools(text.encode())
    assert tools
    assert tools.model_extra == {"x": 1}
    assert tools.mcp_servers["a"].model_extra == {"category": "time"}
    assert {(problem.code, problem.column) for problem in problems} == {
        ("unknown-key", 7),
        ("unknown-key", 59),
    }


def test_comments_and_slashes_in_strings_are_text() -> None:
    text = '{\n// c\n"a": {"url": "http://x/*y*/,]",/* d\n */ "headers": {"k": "// \\" ,}",},},}'
    server = read(text).mcp_servers["a"]
    assert isinstance(server, RemoteServer)
    assert server.url == "http://x/*y*/,]"
    assert server.headers == {"k": '// " ,}'}


def test_scalars_in_env_and_args_mean_their_text() -> None:
    server = read('{"a": {"command": "c", "args": [1, true, "x"], "env": {"P": 80, "D": false}}}').mcp_servers["a"]
    assert isinstance(server, StdioServer)
    assert server.args == ("1", "true", "x")
    assert server.env == {"P": "80", "D": "false"}


def test_disabled_is_not_enabled() -> None:
    assert not read('{"a": {"command": "c", "disabled": true}}').mcp_servers["a"].enabled


def test_an_empty_file_declares_nothing() -> None:
    assert read("") == ToolsFile()
    assert read(" \n") == ToolsFile()
    assert read("{}") == ToolsFile()


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=4) | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "mcpServers",
                        "servers",
                        "a",
                        "command",
                        "url",
                        "type",
                        "deny",
                        "checks",
                        "scripts",
                        "results",
                        "name",
                        "args",
                    ]
                ),
                inner,
            )
        ),
    )
)
def test_h5_any_json_is_read_or_refused(value: object) -> None:
    tools, problems = read_tools(json.dumps(value).encode())
    assert (tools is None) == any(problem.severity == "error" for problem in problems)
    assert all(problem.line >= 1 for problem in problems)


@given(st.binary(max_size=100))
def test_h5_any_bytes_are_read_or_refused(raw: bytes) -> None:
    tools, problems = read_tools(raw)
    assert (tools is None) == any(problem.severity == "error" for problem in problems)


SERVER = StdioServer(
    command="${DIR}/run", args=("--key=${KEY:-none}", "$DIR"), env={"A": "${KEY}x${DIR}"}, cwd="${DIR}"
)


def test_variables_are_filled_in_only_on_demand() -> None:
    assert variables(SERVER) == ("DIR", "KEY")
    filled = expand(SERVER, {"DIR": "/d", "KEY": "k"}.get)
    assert filled == StdioServer(command="/d/run", args=("--key=k", "$DIR"), env={"A": "kx/d"}, cwd="/d")
    assert expand(SERVER, {"DIR": "/d"}.get) == MissingVariable("KEY", "env.A")
    assert "${KEY}" in str(expand(SERVER, {"DIR": "/d"}.get))
    remote = RemoteServer(url="http://${HOST:-localhost}/", headers={"X": "${T}"})
    assert expand(remote, {"HOST": "", "T": ""}.get) == RemoteServer(url="http://localhost/", headers={"X": ""})
    assert expand(remote, {}.get) == MissingVariable("T", "headers.X")


def test_a_value_is_not_expanded_again() -> None:
    assert expand(StdioServer(command="${A}"), {"A": "${B}", "B": "x"}.get) == StdioServer(command="${B}")


NAMES = ["a", "b", "a_", "_a", "a__b", "a b", "a.b", "A", "é", "", "-", "_", "x" * 70, "x" * 69 + "y"]


def test_m3_names_are_distinct_and_safe_whatever_the_order() -> None:
    pairs = list(itertools.product(NAMES, NAMES))
    names = {pair: mcp_tool_name(*pair) for pair in pairs}
    assert len(set(names.values())) == len(pairs)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names.values())
    assert all(name.startswith("mcp__") for name in names.values())
    assert names["a", "b"] == "mcp__a__b"


@given(st.text(max_size=80), st.text(max_size=80))
def test_m3_any_name_is_safe_and_stable(server: str, tool: str) -> None:
    name = mcp_tool_name(server, tool)
    assert re.fullmatch(r"mcp__[A-Za-z0-9_-]{1,59}", name)
    assert name == mcp_tool_name(server, tool)


NAME_PARTS = st.text(st.sampled_from("aA_-. é\u0301/0f"), max_size=12) | st.text(max_size=80)


@given(st.lists(st.tuples(NAME_PARTS, NAME_PARTS), min_size=2, max_size=20, unique=True))
def test_m3_no_two_tools_of_any_servers_share_a_name(pairs: list[tuple[str, str]]) -> None:
    assert len({mcp_tool_name(*pair) for pair in pairs}) == len(pairs)


@given(st.text(max_size=80), st.text(max_size=80))
def test_m3_a_forged_name_does_not_displace(server: str, own: str) -> None:
    honest = mcp_tool_name(server, own)
    for forger in ("a", server):
        for forged in (honest, honest.removeprefix(f"mcp__{forger}__"), honest.rpartition("__")[2]):
            assert mcp_tool_name(forger, forged) != honest or (forger, forged) == (server, own)
