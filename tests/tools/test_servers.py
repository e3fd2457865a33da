"""MCP servers: real ones, and ones that misbehave."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.message import JsonObject
from harnessd.facts.state import OpenCall
from harnessd.home.expand import MissingVariable
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.servers import Servers, open_servers
from harnessd.tools.tool import Outcome, Tool
from tests.tools.a_session import no_context, text

HOSTILE = Path(__file__).with_name("hostile_server.py")


@asynccontextmanager
async def servers_of(folder: Path, **servers: StdioServer | RemoteServer | MissingVariable) -> AsyncIterator[Servers]:
    async with open_servers(folder=folder, logs=folder / "logs") as opened:
        opened.configure(servers)
        await opened.ready(30)
        yield opened


def hostile(how: str, timeout: float | None = None) -> StdioServer:
    return StdioServer(command=sys.executable, args=(str(HOSTILE), how), timeout=timeout)


def tool(servers: Servers, name: str) -> Tool:
    return next(one for one in servers.tools() if name in {one.name, one.own_name})


async def call(one: Tool, **arguments: object) -> Outcome:
    with anyio.fail_after(one.timeout + 1):
        return await one.run(no_context(OpenCall()), arguments)


def alive(pid: int) -> bool:
    return stat_of(pid)[0] != "Z"


def living(group: int) -> list[int]:
    """The processes of a group; a zombie that nobody has collected does not live."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if stat_of(pid)[0] != "Z" and stat_of(pid)[2] == str(group)]


def stat_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", "", ""]


async def test_the_time_server_is_started_and_called(tmp_path: Path) -> None:
    time = StdioServer(command=sys.executable, args=("-m", "mcp_server_time", "--local-timezone", "Asia/Tokyo"))
    async with servers_of(tmp_path, time=time) as servers:
        event = servers.status()["time"]
        assert isinstance(event, McpConnected)
        assert event.tools == ("mcp__time__convert_time", "mcp__time__get_current_time")
        assert servers.tools() is servers.tools()
        convert = tool(servers, "convert_time")
        arguments = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}
        outcome = await call(convert, **arguments)
        assert outcome.status == "ok"
        assert "T00:30:00" in text(outcome)
        assert outcome.origin == "remote"
        wrong = await call(convert, **(arguments | {"time": "soon"}))
        assert wrong.status == "error"


def begin_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


async def test_the_git_server_marks_its_readers(tmp_path: Path) -> None:
    begin_repository(tmp_path)
    (tmp_path / "new.txt").write_text("x")
    git = StdioServer(
        command=sys.executable, args=("-m", "mcp_server_git"), tools=("git_status", "git_none"), trust="local"
    )
    async with servers_of(tmp_path, git=git) as servers:
        (status,) = servers.tools()
        assert "new.txt" in text(await call(status, repo_path=str(tmp_path)))
        assert status.origin == "local"
        assert servers.notes() == (("git", "it does not offer git_none"),)


NODE = Path(os.environ.get("HARNESSD_TEST_NODE", ".tools/node_modules/.bin"))


@pytest.mark.skipif(
    not (NODE / "mcp-server-filesystem").exists(),
    reason="needs npm's @modelcontextprotocol/server-filesystem; set HARNESSD_TEST_NODE to its node_modules/.bin",
)
async def test_the_filesystem_server_of_npm_is_started_and_called(tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("hello from node")
    command = str((NODE / "mcp-server-filesystem").absolute())
    async with servers_of(tmp_path, files=StdioServer(command=command, args=(str(tmp_path),))) as servers:
        read = tool(servers, "read_text_file")
        assert read.effect == "read"
        assert text(await call(read, path=str(tmp_path / "hello.txt"))) == "hello from node"
        assert tool(servers, "write_file").effect == "write"


@pytest.fixture
def web_server(tmp_path: Path) -> Iterator[str]:
    """An MCP server of the library's own over streamable HTTP, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"""
        from mcp.server.mcpserver import Context, MCPServer
        server = MCPServer("web")

        @server.tool()
        def add(a: int, b: int) -> int:
            "Adds."
            return a + b

        @server.tool()
        async def grow(ctx: Context) -> str:
            "Adds a tool."
            server.add_tool(lambda: "here", name="grown", description="New.")
            await ctx.notify_tools_changed()
            return "grown"

        server.run(transport="streamable-http", host="127.0.0.1", port={port})
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if b"running on" in line:
            break
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.communicate(timeout=10)


async def test_a_server_is_reached_over_streamable_http(tmp_path: Path, web_server: str) -> None:
    async with servers_of(tmp_path, web=RemoteServer(url=web_server, headers={"x-test": "1"})) as servers:
        assert text(await call(tool(servers, "add"), a=2, b=3)) == "5"


async def test_m2_a_modern_server_tells_of_new_tools(tmp_path: Path, web_server: str) -> None:
    async with servers_of(tmp_path, web=RemoteServer(url=web_server)) as servers:
        with anyio.fail_after(20):
            await call(tool(servers, "grow"))
            while len(servers.tools()) < 3:
                await anyio.lowlevel.checkpoint()
        assert text(await call(tool(servers, "grown"))) == "here"


async def test_m1_a_server_that_is_not_there_says_so(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with servers_of(
        tmp_path,
        gone=StdioServer(command="no-such-program"),
        web=RemoteServer(url=f"http://127.0.0.1:{port}/mcp"),
        unset=MissingVariable(name="TOKEN", field="env.TOKEN"),
        dead=hostile("dies at once"),
        off=StdioServer(command="whatever", enabled=False),
    ) as servers:
        told = servers.status()
        assert set(told) == {"gone", "web", "unset", "dead"}
        assert all(isinstance(event, McpFailed) for event in told.values())
        kinds = {name: event.failure.kind for name, event in told.items() if isinstance(event, McpFailed)}
        assert (kinds["gone"], kinds["unset"], kinds["dead"]) == ("cannot_start", "unset_variable", "disconnected")
        assert servers.tools() == ()
    assert "cannot find my settings" in (tmp_path / "logs/dead.log").read_text()


@pytest.mark.parametrize(
    ("how", "offered", "note"),
    [
        ("garbage", ["echo"], None),
        ("flood", ["echo"], None),
        ("duplicates", ["echo"], "two tools are named 'echo'"),
        ("bad schema", ["echo"], "'odd' is left out"),
        ("long description", ["echo"], None),
    ],
)
async def test_m1_what_can_be_used_of_a_hostile_server_is_used(
    tmp_path: Path, how: str, offered: list[str], note: str | None
) -> None:
    async with servers_of(tmp_path, bad=hostile(how)) as servers:
        assert [one.own_name for one in servers.tools()] == offered
        assert [note in said for _, said in servers.notes()] == ([True] if note else [])
        assert text(await call(tool(servers, "echo"))).startswith("pid ")
        assert all(len(one.description) < 5000 for one in servers.tools())


@pytest.mark.parametrize("how", ["no schema", "array schema", "list is no list"])
async def test_m1_a_list_that_is_no_mcp_costs_only_that_server(tmp_path: Path, how: str) -> None:
    async with servers_of(tmp_path, bad=hostile(how), good=hostile("well")) as servers:
        assert [one.name for one in servers.tools()] == ["mcp__good__echo"]
        assert [event.failure.kind for event in servers.status().values() if isinstance(event, McpFailed)] == [
            "not_mcp"
        ]


async def test_m1_thousands_of_tools_are_bounded_and_odd_names_made_fit(tmp_path: Path) -> None:
    async with servers_of(tmp_path, many=hostile("thousands"), odd=hostile("odd names")) as servers:
        names = [one.name for one in servers.tools()]
        assert len([name for name in names if name.startswith("mcp__many__")]) == 512
        odd = [name for name in names if name.startswith("mcp__odd__")]
        assert len(odd) == len(set(odd)) == 3
        assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names)
        assert any("more than 512" in note for _, note in servers.notes())


async def test_m1_a_server_that_hangs_costs_at_most_its_timeout(tmp_path: Path) -> None:
    async with open_servers(folder=tmp_path, logs=tmp_path / "logs") as servers:
        servers.configure({"slow": hostile("hangs", timeout=1.0), "good": hostile("well")})
        began = anyio.current_time()
        await servers.ready(0.5)
        assert anyio.current_time() - began < 1.0
        assert isinstance(servers.status()["slow"], McpFailed)
        await servers.ready(20)
        assert [one.name for one in servers.tools()] == ["mcp__good__echo"]
        assert isinstance(servers.status()["good"], McpConnected)


@pytest.mark.parametrize(
    ("how", "status", "kind"),
    [
        ("never answers", "timeout", "timeout"),
        ("content is no list", "error", "not_mcp"),
        ("says error", "error", "tool_error"),
        ("huge", "ok", None),
    ],
)
async def test_m1_a_bad_answer_is_a_failed_call(tmp_path: Path, how: str, status: str, kind: str | None) -> None:
    async with servers_of(tmp_path, bad=hostile(how, timeout=8 if how == "huge" else 2)) as servers:
        outcome = await call(tool(servers, "echo"))
        assert outcome.status == status
        assert (outcome.failure.kind if outcome.failure else None) == kind


async def test_m1_a_crash_is_a_failed_call_and_the_next_one_connects_anew(tmp_path: Path) -> None:
    async with servers_of(tmp_path, bad=hostile("crashes")) as servers:
        one = tool(servers, "echo")
        crashed = await call(one)
        assert crashed.status == "error"
        assert crashed.failure is not None
        assert crashed.failure.kind == "disconnected"
        assert "may have taken effect" in text(crashed)
        assert (await call(one)).failure.kind == "disconnected"  # type: ignore[union-attr]
        waiting = await call(one)
        assert waiting.failure is not None
        assert waiting.failure.kind == "not_connected"


async def test_m1_a_change_restarts_only_the_changed_server(tmp_path: Path) -> None:
    one, two = hostile("one"), hostile("two")
    async with servers_of(tmp_path, one=one, two=two) as servers:
        before = {name: text(await call(tool(servers, f"mcp__{name}__echo"))) for name in ("one", "two")}
        servers.configure({"one": one, "two": two.model_copy(update={"timeout": 30.0})})
        await servers.ready(30)
        after = {name: text(await call(tool(servers, f"mcp__{name}__echo"))) for name in ("one", "two")}
        assert before["one"] == after["one"]
        assert before["two"] != after["two"]
        servers.configure({"two": two.model_copy(update={"timeout": 30.0})})
        assert [one.name for one in servers.tools()] == ["mcp__two__echo"]
        assert text(await call(tool(servers, "echo"))) == after["two"]


async def test_m2_a_changed_list_of_tools_is_there_at_the_next_call(tmp_path: Path) -> None:
    async with servers_of(tmp_path, s=hostile("changes")) as servers:
        await call(tool(servers, "echo"))
        with anyio.fail_after(10):
            while len(servers.tools()) < 2:
                await anyio.lowlevel.checkpoint()
        event = servers.status()["s"]
        assert isinstance(event, McpConnected)
        assert event.tools == ("mcp__s__echo", "mcp__s__second")


async def test_m3_two_servers_with_one_tool_name_are_both_usable_in_any_order(tmp_path: Path) -> None:
    names = []
    for order in ({"a": "well", "b": "well"}, {"b": "well", "a": "well"}):
        async with servers_of(tmp_path, **{name: hostile(how) for name, how in order.items()}) as servers:
            names.append([one.name for one in servers.tools()])
            answers = {text(await call(one)) for one in servers.tools()}
            assert len(answers) == 2
    assert names[0] == names[1] == ["mcp__a__echo", "mcp__b__echo"]


@pytest.mark.parametrize("how", ["well", "deaf", "children"])
async def test_m1_no_process_is_left_after_close(tmp_path: Path, how: str) -> None:
    async with servers_of(tmp_path, s=hostile(how)) as servers:
        pid = int(text(await call(tool(servers, "echo"))).split()[1])
        group = os.getpgid(pid)
        assert alive(pid)
    with anyio.fail_after(2):
        while living(group):
            await anyio.lowlevel.checkpoint()


def start_and_kill(code: str) -> int:
    """Runs a process until it prints the pid of its server, then kills it; the server's pid."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(process.stdout.readline().split()[1])
    assert alive(pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return pid


async def test_m1_no_process_is_left_when_we_are_killed(tmp_path: Path) -> None:
    code = f"""
        import sys, anyio
        from pathlib import Path
        from harnessd.home.tools_file import StdioServer
        from harnessd.tools.servers import open_servers

        async def main():
            async with open_servers(folder=Path({str(tmp_path)!r}), logs=Path({str(tmp_path)!r})) as servers:
                servers.configure({{"s": StdioServer(command=sys.executable, args=({str(HOSTILE)!r}, "deaf"))}})
                await servers.ready(30)
                from tests.tools.a_session import no_context, text
                from harnessd.facts.state import OpenCall
                print(text(await servers.tools()[0].run(no_context(OpenCall()), {{}})), flush=True)
                await anyio.sleep_forever()

        anyio.run(main)
    """
    pid = await anyio.to_thread.run_sync(start_and_kill, textwrap.dedent(code))
    with anyio.fail_after(5):
        while alive(pid):
            await anyio.lowlevel.checkpoint()


async def test_p6_a_server_sees_only_the_environment_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "s3cret")
    code = "import json, os, sys; sys.stderr.write(json.dumps(dict(os.environ)))"
    async with servers_of(tmp_path, s=StdioServer(command=sys.executable, args=("-c", code), env={"GIVEN": "1"})):
        pass
    seen = (tmp_path / "logs/s.log").read_text()
    assert "s3cret" not in seen
    assert '"GIVEN": "1"' in seen


def test_nothing_here_imports_the_library_before_it_is_used() -> None:
    code = "import sys, harnessd.tools.servers, harnessd.tools.pipeline; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_the_idempotency_key_goes_along(tmp_path: Path) -> None:
    context = replace(no_context(OpenCall()), idempotency_key="key-1")
    arguments: JsonObject = {}
    async with servers_of(tmp_path, s=hostile("well")) as servers:
        assert (await servers.tools()[0].run(context, arguments)).status == "ok"
