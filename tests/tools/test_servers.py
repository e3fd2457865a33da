"""MCP servers: real ones, and ones that misbehave."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.message import JsonObject
from harnessd.facts.state import OpenCall
from harnessd.home.expand import MissingVariable
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.accepted import server_identity
from harnessd.tools.eras import Eras
from harnessd.tools.servers import open_servers
from tests.tools.a_session import no_context, text
from tests.tools.mcp_servers import call, hostile, living, servers_of, tool
from tests.tools.surroundings import surroundings


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
    repository = tmp_path / "repository"
    begin_repository(repository)
    (repository / "new.txt").write_text("x")
    git = StdioServer(
        command=sys.executable, args=("-m", "mcp_server_git"), tools=("git_status", "git_none"), trust="local"
    )
    async with servers_of(tmp_path, git=git) as servers:
        (status,) = servers.tools()
        assert "new.txt" in text(await call(status, repo_path=str(repository)))
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
        dead = told["dead"]
        assert isinstance(dead, McpFailed)
        assert "cannot find my settings" in dead.failure.message
        assert str(tmp_path / "logs/dead.log") in dead.failure.hint
        assert all(event.failure.hint for event in told.values() if isinstance(event, McpFailed))
        assert servers.tools() == ()
    assert "cannot find my settings" in (tmp_path / "logs/dead.log").read_text()


async def test_m1_thousands_of_tools_are_bounded_and_odd_names_made_fit(tmp_path: Path) -> None:
    async with servers_of(tmp_path, many=hostile("thousands"), odd=hostile("odd names")) as servers:
        names = [one.name for one in servers.tools()]
        assert len([name for name in names if name.startswith("mcp__many__")]) == 512
        odd = [name for name in names if name.startswith("mcp__odd__")]
        assert len(odd) == len(set(odd)) == 3
        assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names)
        assert any("more than 512" in note for _, note in servers.notes())


async def test_m1_a_server_that_hangs_costs_at_most_its_timeout(tmp_path: Path) -> None:
    async with open_servers(surroundings(tmp_path), logs=tmp_path / "logs") as servers:
        servers.configure({"slow": hostile("hangs", timeout=1.0), "good": hostile("well")})
        began = anyio.current_time()
        await servers.ready(0.5)
        assert anyio.current_time() - began < 1.0
        assert isinstance(servers.status()["slow"], McpFailed)
        await servers.ready(20)
        assert [one.name for one in servers.tools()] == ["mcp__good__echo"]
        assert isinstance(servers.status()["good"], McpConnected)


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
        changed = two.model_copy(update={"env": {"A": "1"}})
        servers.configure({"one": one, "two": changed})
        await servers.ready(30)
        after = {name: text(await call(tool(servers, f"mcp__{name}__echo"))) for name in ("one", "two")}
        assert before["one"] == after["one"]
        assert before["two"] != after["two"]
        servers.configure({"two": changed})
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


def whole(*hows: str) -> list[Any]:
    """Kinds that are tried only when all are."""
    return [pytest.param(how, marks=pytest.mark.matrix) for how in hows]


@pytest.mark.parametrize("how", ["well", "hides", *whole("deaf", "children")])
async def test_m1_no_process_is_left_after_close(tmp_path: Path, how: str) -> None:
    server = hostile(how)
    async with servers_of(tmp_path, s=server) as servers:
        await call(tool(servers, "echo"))
        assert living(server)
    assert not living(server)


def start_and_kill(code: str, server: StdioServer) -> None:
    """Runs a process until it says that it is connected, then kills it."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"connected\n"
    assert living(server)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("how", ["hides", *whole("deaf")])
async def test_m1_no_process_is_left_when_we_are_killed(tmp_path: Path, how: str) -> None:
    server = hostile(how)
    code = f"""
        import sys, anyio
        from pathlib import Path
        from harnessd.home.tools_file import StdioServer
        from harnessd.tools.servers import open_servers
        from tests.tools.surroundings import surroundings

        async def main():
            async with open_servers(surroundings(Path({str(tmp_path)!r})), logs=Path({str(tmp_path)!r})) as servers:
                servers.configure({{"s": StdioServer(command={server.command!r}, args={server.args!r})}})
                await servers.ready(30)
                print("connected", flush=True)
                await anyio.sleep_forever()

        anyio.run(main)
    """
    await anyio.to_thread.run_sync(start_and_kill, textwrap.dedent(code), server)
    with anyio.fail_after(3):
        while living(server):
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


@pytest.mark.parametrize(
    ("how", "status", "shown"),
    [
        ("structured", "ok", ['{"n": 1}']),
        ("structured and in words", "ok", ["in words"]),
        ("structured wrongly", "error", ['{"n": "one"}', "outputSchema"]),
        ("structured by an endless expression", "error", ['"n": 1', "outputSchema"]),
    ],
)
async def test_structured_content_is_checked_and_shown_once(
    tmp_path: Path, how: str, status: str, shown: list[str]
) -> None:
    async with servers_of(tmp_path, s=hostile(how)) as servers:
        outcome = await call(tool(servers, "echo"))
        assert outcome.status == status
        parts = [part.text for part in outcome.parts if part.type == "text"]
        assert len(parts) == len(shown)
        assert all(words in part for part, words in zip(parts, shown, strict=True))


@pytest.mark.matrix
async def test_the_protocol_of_a_server_is_remembered_when_everything_else_is_forgotten(tmp_path: Path) -> None:
    server, path = hostile("ignores what it does not know", timeout=15), tmp_path / "state/eras.json"
    took = []
    for _ in range(2):
        async with open_servers(surroundings(tmp_path, eras=path), logs=tmp_path / "logs") as servers:
            servers.configure({"s": server})
            began = anyio.current_time()
            await servers.ready(30)
            took.append(anyio.current_time() - began)
            assert [one.own_name for one in servers.tools()] == ["echo"]
    assert took[0] > 9  # as long as the library waits for an answer
    assert took[1] < 5


@pytest.mark.parametrize("raw", [b"", b"{", b"5", b'{"a": 1}', b"[5, null]"])
def test_a_broken_cache_of_protocols_is_none(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "eras.json").write_bytes(raw)
    eras = Eras(tmp_path / "eras.json")
    assert not eras.is_legacy("one")
    eras.learn("one", legacy=True)
    assert eras.is_legacy("one")
    eras.learn("one", legacy=False)
    assert not eras.is_legacy("one")


@pytest.mark.parametrize("changed", [{"trust": "local"}, {"tools": ("echo",)}, {"timeout": 9.0}])
async def test_m1_what_a_connection_is_not_made_from_changes_without_a_restart(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    server = hostile("well")
    async with servers_of(tmp_path, s=server) as servers:
        before = text(await call(tool(servers, "echo")))
        servers.configure({"s": server.model_copy(update=changed)})
        after = tool(servers, "echo")
        assert after.origin == ("local" if "trust" in changed else "remote")
        assert after.timeout == (9.5 if "timeout" in changed else 60.5)
        assert text(await call(after)) == before
        servers.configure({"s": server.model_copy(update={"tools": ("other",)})})
        assert servers.tools() == ()


@pytest.mark.parametrize("changed", [{"env": {"TOKEN": "new"}}, {"cwd": "work"}])
async def test_m1_another_value_of_a_variable_is_another_connection(tmp_path: Path, changed: dict[str, object]) -> None:
    (tmp_path / "work").mkdir()
    server = hostile("well").model_copy(update={"env": {"TOKEN": "old"}})
    async with servers_of(tmp_path, s=server) as servers:
        before = text(await call(tool(servers, "echo")))
        servers.configure({"s": server.model_copy(update=changed)})
        await servers.ready(30)
        assert text(await call(tool(servers, "echo"))) != before


async def test_p6_a_server_runs_in_the_sandbox_of_its_home(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/secret.txt").write_text("secret")
    code = """
        import pathlib, sys
        for path in ("agents/secret.txt", "AGENTS.md", "work/x.txt"):
            try:
                pathlib.Path(path).write_text("x")
                print("wrote", path, file=sys.stderr)
            except OSError:
                print("cannot write", path, file=sys.stderr)
    """
    (tmp_path / "work").mkdir()
    async with servers_of(tmp_path, s=StdioServer(command=sys.executable, args=("-c", textwrap.dedent(code)))):
        pass
    said = (tmp_path / "logs/s.log").read_text().splitlines()
    assert said == ["cannot write agents/secret.txt", "cannot write AGENTS.md", "wrote work/x.txt"]


async def test_a_server_without_a_sandbox_is_refused_unless_the_operator_says_otherwise(tmp_path: Path) -> None:
    around = surroundings(tmp_path)
    for sandbox, kind in (
        (replace(around.sandbox, program="/nonexistent"), McpFailed),
        (replace(around.sandbox, confined=False), McpConnected),
    ):
        async with open_servers(replace(around, sandbox=sandbox), logs=tmp_path / "logs") as servers:
            servers.configure({"s": hostile("well")})
            await servers.ready(30)
            assert isinstance(servers.status()["s"], kind)


async def test_a_server_that_is_known_to_be_older_is_not_asked_for_the_newer_protocol(tmp_path: Path) -> None:
    server, path = hostile("ignores what it does not know", timeout=5), tmp_path / "state/eras.json"
    Eras(path).learn(server_identity(server), legacy=True)
    async with open_servers(surroundings(tmp_path, eras=path), logs=tmp_path / "logs") as servers:
        servers.configure({"s": server})
        await servers.ready(30)
        assert [one.own_name for one in servers.tools()] == ["echo"]
