"""MCP servers at a URL: that work, that want to know who asks, that lead elsewhere, that answer without end."""

import json
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from harnessd.facts.event import McpFailed
from harnessd.facts.run import Failure
from harnessd.home.expand import MissingVariable, expand
from harnessd.home.tools_file import RemoteServer
from tests.tools.a_session import text
from tests.tools.mcp_servers import call, servers_of, tool
from tests.tools.test_servers_hostile import MEMORY, resident_bytes

ECHO = {"name": "echo", "description": "Says it back.", "inputSchema": {"type": "object"}}


class Site:
    """Answers every request as its path says, and remembers the headers that came."""

    def __init__(self) -> None:
        self.url = ""
        self.elsewhere = ""
        self.seen: list[dict[str, str]] = []

    async def serve(self, stream: SocketStream) -> None:
        async with stream:
            try:
                while request := await self._request(stream):
                    await self._answer(stream, *request)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _request(self, stream: SocketStream) -> tuple[str, Any]:
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += await stream.receive()
            if not raw[:1].isalpha():
                raise anyio.EndOfStream  # it speaks TLS
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += await stream.receive()
        self.seen.append(headers)
        return first.split()[1], json.loads(body or b"{}")

    async def _answer(self, stream: SocketStream, path: str, asked: Any) -> None:
        kind = path.removeprefix("/")
        if kind.isdigit():
            await self._say(stream, int(kind), b"{}", "application/json")
        elif kind == "redirect":
            await self._say(stream, 307, b"", "text/plain", f"Location: {self.elsewhere}/mcp\r\n")
        elif kind == "html":
            await self._say(stream, 200, b"<html>", "text/html")
        elif kind == "packed":
            await self._say(stream, 200, b"x", "application/json", "Content-Encoding: gzip\r\n")
        elif asked.get("method") == "tools/call" and kind in {"endless", "endless-event"}:
            await self._endless(stream, "text/event-stream" if "event" in kind else "application/json")
        else:
            await self._speak(stream, asked)

    async def _speak(self, stream: SocketStream, asked: Any) -> None:
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            },
            "tools/list": {"tools": [ECHO, {"name": "odd", "inputSchema": {}}]},
            "tools/call": {"content": [{"type": "text", "text": "here"}]},
        }
        if "id" not in asked:
            await self._say(stream, 202, b"", "text/plain")
            return
        known = results.get(asked["method"])
        answer = {"result": known} if known else {"error": {"code": -32601, "message": "no such method"}}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | answer).encode()
        await self._say(stream, 200, body, "application/json")

    async def _say(self, stream: SocketStream, status: int, body: bytes, kind: str, more: str = "") -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        await stream.send(head.encode() + body)

    async def _endless(self, stream: SocketStream, kind: str) -> None:
        await stream.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\ndata: ".encode())
        while True:
            await stream.send(b"x" * 1_000_000)


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    one = Site()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        one.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        group.start_soon(listener.serve, one.serve)
        yield one
        group.cancel_scope.cancel()


async def failure(tmp_path: Path, url: str, **more: Any) -> Failure:
    async with servers_of(tmp_path, web=RemoteServer(url=url, **more)) as servers:
        told = servers.status()["web"]
        assert isinstance(told, McpFailed), told
        return told.failure


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    ("path", "expected", "said"),
    [
        ("401", "not_let_in", "401"),
        ("403", "not_let_in", "403"),
        ("404", "refused", "404"),
        ("500", "refused", "500"),
        ("html", "refused", "text/html"),
        ("packed", "unreachable", "encoding"),
        ("redirect", "refused", "edirect"),
    ],
)
async def test_m1_a_url_that_is_no_server_says_what_is_wrong(
    tmp_path: Path, path: str, expected: str, said: str, kind: str
) -> None:
    async with site() as here, site() as elsewhere:
        here.elsewhere = elsewhere.url
        told = await failure(tmp_path, f"{here.url}/{path}", type=kind, headers={"authorization": "Bearer s3cret"})
        assert told.kind == (expected if kind == "http" or expected != "refused" else "unreachable"), told
        assert said in told.message
        assert "s3cret" not in told.message
        assert here.seen
        assert all(headers["authorization"] == "Bearer s3cret" for headers in here.seen)
        assert elsewhere.seen == []
        if expected == "not_let_in":
            assert "headers" in told.hint
            assert "OAuth" in told.hint


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://127.0.0.1:{port}/mcp", "not_secure"),
        ("http://127.0.0.1:1/mcp", "unreachable"),
        ("http://no-such-host.invalid/mcp", "unreachable"),
        ("ftp://127.0.0.1/mcp", "unreachable"),
        ("http://", "unreachable"),
        ("nonsense", "unreachable"),
    ],
)
async def test_m1_a_wrong_url_says_so(tmp_path: Path, url: str, expected: str) -> None:
    async with site() as here:
        told = await failure(tmp_path, url.format(port=here.url.rpartition(":")[2]))
        assert told.kind == expected, told


async def test_m1_one_bad_tool_of_a_remote_server_is_left_out(tmp_path: Path) -> None:
    async with site() as here, servers_of(tmp_path, web=RemoteServer(url=f"{here.url}/well")) as servers:
        assert [one.own_name for one in servers.tools()] == ["echo"]
        assert "'odd' is left out" in servers.notes()[0][1]
        assert text(await call(tool(servers, "echo"))) == "here"


@pytest.mark.parametrize("how", ["endless", "endless-event"])
async def test_m1_an_endless_answer_is_cut_off(tmp_path: Path, how: str) -> None:
    async with site() as here, servers_of(tmp_path, web=RemoteServer(url=f"{here.url}/{how}", timeout=10)) as servers:
        memory = resident_bytes()
        outcome = await call(tool(servers, "echo"))
        assert outcome.status == "error"
        assert resident_bytes() - memory < MEMORY


def test_a_header_is_filled_in_from_what_the_operator_grants() -> None:
    server = RemoteServer(url="https://example.org/mcp", headers={"Authorization": "Bearer ${TOKEN}"})
    filled = expand(server, {"TOKEN": "t"}.get)
    assert isinstance(filled, RemoteServer)
    assert filled.headers == {"Authorization": "Bearer t"}
    assert isinstance(expand(server, {}.get), MissingVariable)


@pytest.fixture
def older_server() -> Iterator[str]:
    """A server of the library's own over the older SSE, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"""
        from mcp.server.mcpserver import MCPServer
        server = MCPServer("older")

        @server.tool()
        def add(a: int, b: int) -> int:
            "Adds."
            return a + b

        server.run(transport="sse", host="127.0.0.1", port={port})
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if b"running on" in line:
            break
    yield f"http://127.0.0.1:{port}/sse"
    process.kill()
    process.communicate(timeout=10)


async def test_a_server_is_reached_over_the_older_sse(tmp_path: Path, older_server: str) -> None:
    async with servers_of(tmp_path, web=RemoteServer(url=older_server, type="sse")) as servers:
        assert text(await call(tool(servers, "add"), a=2, b=3)) == "5"
