"""The issue's MCP servers, really started and called through a home's tools.json, in both lanes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessd.models.script import Answer, Request
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import make, write
from tests.e2e.lanes import LANES, Lane, calls, harnessd, of_type

NODE = Path(os.environ.get("HARNESSD_TEST_NODE", ".tools/node_modules/.bin")).absolute() / "mcp-server-filesystem"
WEB = """
import anyio, socket, uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("web")

@server.tool()
def add(a: int, b: int) -> str:
    "Adds."
    return f"the sum is {a + b}"

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
config = uvicorn.Config(server.streamable_http_app(), log_level="error")
anyio.run(lambda: uvicorn.Server(config).serve(sockets=[listening]))
"""


@pytest.fixture
def web_url() -> Iterator[str]:
    """An MCP server over streamable HTTP, in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", WEB], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_time_git_and_a_web_server_are_called_from_one_home(lane: Lane, web_url: str, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("x")
    make()
    await _call_all(
        lane,
        {
            "time": {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "Asia/Tokyo"]},
            "git": {"command": sys.executable, "args": ["-m", "mcp_server_git"], "tools": ["git_status"]},
            "web": {"type": "http", "url": web_url},
        },
        (
            ("mcp__time__convert_time", {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}),
            ("mcp__git__git_status", {"repo_path": str(repository)}),
            ("mcp__web__add", {"a": 40, "b": 2}),
        ),
        ("T00:30:00", "new.txt", "the sum is 42"),
    )


@pytest.mark.timeout(240)
@pytest.mark.skipif(
    not NODE.exists(),
    reason="needs npm's @modelcontextprotocol/server-filesystem; set HARNESSD_TEST_NODE to its node_modules/.bin",
)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_the_filesystem_server_of_npm_is_called(lane: Lane, tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("hello from node")
    make()
    await _call_all(
        lane,
        {"files": {"command": str(NODE), "args": [str(tmp_path)], "tools": ["read_text_file"]}},
        (("mcp__files__read_text_file", {"path": str(tmp_path / "hello.txt")}),),
        ("hello from node",),
    )


async def _call_all(
    lane: Lane,
    servers: dict[str, object],
    wanted: tuple[tuple[str, dict[str, object]], ...],
    shown: tuple[str, ...],
) -> None:
    """One run that calls each tool: it is offered, allowed by the home's rule, called, and its result shown."""
    home = Path(os.environ["HOME"]) / "harnessd" / "workspaces" / "ada"
    names = [name for name, _ in wanted]
    write(home, "tools_json", json.dumps({"mcpServers": servers, "allow": names}))

    def script(request: Request) -> Answer:
        return Answer("done") if lane.results(request) else calls(*wanted)

    async with ScriptedServer(script) as server:
        said = await harnessd("run", "ada", "Call them.", "--model", lane.model, "--json", env=lane.env(server))
        assert said.code == 0, said
        offered = lane.tools(server.requests[0])
        results = lane.results(server.requests[-1])
    connected = {one["server"] for one in of_type(said.records, "mcp.connected")}
    assert connected == set(servers)
    assert set(names) <= set(offered)
    statuses = [(one["toolName"], one["status"]) for one in of_type(said.records, "tool.call.completed")]
    assert sorted(statuses) == sorted((name, "ok") for name in names), said.records
    assert len(results) == len(shown)
    for text, result in zip(shown, results, strict=True):
        assert text in result
