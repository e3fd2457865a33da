"""Servers that others wrote, of both eras of the protocol, side by side: connected, listed and called as in a run."""

import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from harnessd.facts.run import Question
from harnessd.facts.state import OpenCall, QuestionAnswer
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.elicitation import check_answer
from harnessd.tools.servers import Servers
from harnessd.tools.tool import Outcome, ToolContext
from tests.mcp.peers import needs, npm, python
from tests.tools.a_session import no_context, text
from tests.tools.mcp_servers import servers_of, tool

OLD, NEW = "2025-11-25", "2026-07-28"
SQLITE = "from mcp_server_sqlite import main; main()"


def everything(how: str = "stdio") -> list[str]:
    return [*npm("server-everything"), how]


def program(command: list[str], **env: str) -> StdioServer:
    return StdioServer(command=command[0], args=tuple(command[1:]), env=env, timeout=60)


def sqlite(base: Path) -> StdioServer:
    return program([python("sqlite"), "-c", SQLITE, "--db-path", str(base / "tea.db")])


def memory(base: Path, name: str = "memory") -> StdioServer:
    return program(npm("server-memory"), MEMORY_FILE_PATH=str(base / f"{name}.jsonl"))


def clock(base: Path) -> StdioServer:
    return program([sys.executable, "-m", "mcp_server_time", "--local-timezone", "Asia/Tokyo"])


def git(base: Path) -> StdioServer:
    subprocess.run(["git", "init", "-q", str(base / "repository")], check=True)
    (base / "repository" / "new.txt").write_text("x")
    return program([sys.executable, "-m", "mcp_server_git"])


def files(base: Path) -> StdioServer:
    (base / "hello.txt").write_text("hello from node")
    return program([*npm("server-filesystem"), str(base)])


def fetch(base: Path) -> StdioServer:
    return program([python("fetch"), "-m", "mcp_server_fetch", "--allow-private-ips", "--ignore-robots-txt"])


def work_of(home: Path) -> Path:
    """Where a server of the home may write."""
    (home / "work").mkdir()
    return home / "work"


async def call(servers: Servers, name: str, context: ToolContext | None = None, **arguments: object) -> Outcome:
    one = tool(servers, name)
    with anyio.fail_after(one.timeout + 1):
        done = await one.run(context or no_context(OpenCall()), arguments)
    assert isinstance(done, Outcome), done
    return done


@needs("server-everything", "server-memory", "sqlite")
@pytest.mark.timeout(120)
async def test_m1_m3_old_and_new_servers_work_side_by_side(tmp_path: Path) -> None:
    """An SDK of 2025, one of 2026 and two of node; two of them offer the same names, which do not depend on order."""
    work = work_of(tmp_path)
    first = {"sq": sqlite(work), "now": clock(work), "a": memory(work, "a"), "b": memory(work, "b")}
    async with servers_of(tmp_path, **first, all=program(everything())) as servers:
        protocols = {name: getattr(one, "protocol", one) for name, one in servers.status().items()}
        assert protocols == {"sq": OLD, "now": NEW, "a": OLD, "b": OLD, "all": OLD}
        await call(servers, "mcp__sq__create_table", query="create table tea (name text)")
        await call(servers, "mcp__sq__write_query", query="insert into tea values ('sencha')")
        assert "sencha" in text(await call(servers, "mcp__sq__read_query", query="select * from tea"))
        done = await call(
            servers, "convert_time", source_timezone="Asia/Tokyo", time="09:30", target_timezone="Etc/UTC"
        )
        assert "T00:30:00" in text(done)
        for name in ("a", "b"):
            entity = {"name": f"tea of {name}", "entityType": "drink", "observations": ["green"]}
            await call(servers, f"mcp__{name}__create_entities", entities=[entity])
        for name, other in (("a", "b"), ("b", "a")):
            known = text(await call(servers, f"mcp__{name}__read_graph"))
            assert f"tea of {name}" in known
            assert f"tea of {other}" not in known
        names = [one.name for one in servers.tools()]
    turned = dict(reversed(first.items()))
    async with servers_of(tmp_path, all=program(everything()), **turned) as servers:
        assert [one.name for one in servers.tools()] == names


@needs("server-everything")
@pytest.mark.timeout(120)
async def test_pictures_structure_progress_and_questions_of_a_server_come_through(tmp_path: Path) -> None:
    told: list[str] = []
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        must = {name: "Ada" for name, about, needed in question.blanks if needed and "default" not in about}
        answer = check_answer(question, must)
        assert isinstance(answer, dict), answer
        return QuestionAnswer(question=question, outcome="allowed", arguments=answer)

    context = replace(no_context(OpenCall()), delta=told.append, ask=ask)
    async with servers_of(tmp_path, all=program(everything())) as servers:
        assert "hi" in text(await call(servers, "echo", message="hi"))
        picture = await call(servers, "get-tiny-image")
        assert [file.media_type for file in picture.files] == ["image/png"]
        assert picture.files[0].data.startswith(b"\x89PNG")
        assert "temperature" in text(await call(servers, "get-structured-content", location="Chicago"))
        await call(servers, "trigger-long-running-operation", context, duration=0.5, steps=2)
        assert told, "progress reaches whoever watches"
        done = await call(servers, "trigger-elicitation-request", context)
        assert done.status == "ok", done
        assert len(asked) == 1
        assert len(asked[0].blanks) > 5


@dataclass(frozen=True)
class Peer:
    """A server, a call of it, and what is to be seen in the answer."""

    name: str
    of: str
    protocol: str
    server: object
    tool: str
    arguments: dict[str, object]
    shown: str


PEERS = (
    Peer("sqlite", "sqlite", OLD, sqlite, "list_tables", {}, "["),
    Peer("time", "", NEW, clock, "get_current_time", {"timezone": "Asia/Tokyo"}, "+09:00"),
    Peer("git", "", NEW, git, "git_status", {"repo_path": "{base}/repository"}, "new.txt"),
    Peer("filesystem", "server-filesystem", OLD, files, "read_text_file", {"path": "{base}/hello.txt"}, "from node"),
    Peer("memory", "server-memory", OLD, memory, "read_graph", {}, "entities"),
    Peer("fetch", "fetch", NEW, fetch, "fetch", {"url": "{site}/"}, "a page about tea"),
    Peer("everything over http", "server-everything", OLD, "streamableHttp", "get-sum", {"a": 40, "b": 2}, "42"),
    Peer("everything over sse", "server-everything", OLD, "sse", "get-sum", {"a": 40, "b": 2}, "42"),
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(
            one,
            id=one.name,
            marks=[
                *([needs(one.of)] if one.of else []),
                *([pytest.mark.matrix] if one.name in {"memory", "filesystem", "sqlite", "time", "git"} else []),
            ],
        )
        for one in PEERS
    ],
)
async def test_m1_a_server_of_others_is_connected_listed_and_called(peer: Peer, tmp_path: Path) -> None:
    work = work_of(tmp_path)
    with site() as url, reached(peer, work) as server:
        arguments = {
            name: value.format(base=work, site=url) if isinstance(value, str) else value
            for name, value in peer.arguments.items()
        }
        async with servers_of(tmp_path, peer=server) as servers:
            status = servers.status()["peer"]
            assert getattr(status, "protocol", status) == peer.protocol
            done = await call(servers, peer.tool, **arguments)
            assert done.status == "ok", done
            assert peer.shown in text(done)


@contextmanager
def reached(peer: Peer, base: Path) -> Iterator[StdioServer | RemoteServer]:
    """The server's configuration; one that is reached over HTTP runs while the block does."""
    if callable(peer.server):
        yield peer.server(base)
        return
    how = str(peer.server)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(everything(how), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            while b"listening" not in (line := process.stderr.readline()) and b"running on" not in line:
                assert line, "it ended"
            path = "sse" if how == "sse" else "mcp"
            yield RemoteServer(url=f"http://127.0.0.1:{port}/{path}", type="sse" if how == "sse" else "http")
        finally:
            process.kill()


@contextmanager
def site() -> Iterator[str]:
    """A page on this machine, since no test leaves it."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(b"a page about tea")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
