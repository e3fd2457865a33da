"""O2, F9: a daemon starts whatever it finds, says where it is, and leaves nothing lost and nothing behind."""

import json
import os
import shutil
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import anyio
import pytest

from harnessd.api.serve import serve
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings
from harnessd.daemon.hold import STATE_LOCK
from harnessd.daemon.session import Accepted
from harnessd.daemon.starts import read_starts
from harnessd.daemon.whereabouts import find_daemon
from harnessd.errors import Locked, UsageError
from harnessd.facts.control import Invoke
from harnessd.facts.event import Event, MessageQueued, RunFinished, RunParked, RunResumed
from harnessd.home.layout import Home
from harnessd.journal.records import read_events
from harnessd.models.script import Answer, Call, Request, ScriptedReply, Silence
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings, write
from tests.life.daemons import ROOT, Daemon, daemon, systemd

TALLY = ROOT / "tests" / "daemon" / "tally_server.py"
SCRIPTED = "openai/scripted"
SESSIONS = 6


def home_with_a_server(settings: Settings, tally: Path) -> Home:
    server = {"command": sys.executable, "args": [str(TALLY), str(tally)], "trust": "local"}
    tools = {"mcpServers": {"tally": server}, "allow": ["mcp__tally__add"]}
    return make_home(settings, **{"tools.json": json.dumps(tools)})


def operator(settings: Settings, **more: object) -> None:
    """What the operator sets in harnessd.yaml."""
    lines = {"apiBase": settings.api_base, **more}
    write(settings.workspaces / "harnessd.yaml", "".join(f"{key}: {json.dumps(one)}\n" for key, one in lines.items()))


def journal(home: Home, session: str) -> list[Event]:
    return list(read_events(home.journal("main", session)))


def kinds(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


async def interrupted(settings: Settings, home: Home, server: ScriptedServer) -> str:
    """A session whose run was cut short while the model was silent."""
    async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
        session = await runtime.session(home)
        assert isinstance(await session.control(Invoke(input="hi")), Accepted)
        await server.arrived.wait()
        return session.session_id


async def test_o2_sigterm_under_load_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    asked = 0

    def script(request: Request) -> ScriptedReply:
        nonlocal asked
        asked += 1
        told = sum(message["role"] == "assistant" for message in request.body["messages"])
        if told < 4:
            return Answer(calls=(Call("mcp__tally__add", {"line": f"once {told}"}),), latency_s=0.05)
        return Answer("done")

    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        home = home_with_a_server(settings, tmp_path / "tally.txt")
        operator(settings, graceSeconds=5)
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as one:
            await one.hears()
            said: dict[str, int] = {}
            async with anyio.create_task_group() as tasks:
                for number in range(SESSIONS):
                    tasks.start_soon(say_into, one, said, number)
            while asked < SESSIONS:
                await anyio.sleep(0.005)
            begun = time.monotonic()
            assert await one.stops() == 0
            assert time.monotonic() - begun < 5 + 5
        assert one.told[-1]["told"] == "stopping"
        assert one.told[-1]["running"] > 0
        for session, seq in said.items():
            events = journal(home, session)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len(events) >= seq
            assert len(kinds(events, MessageQueued)) == 1
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as two:
            assert set((await two.hears())["resumed"]) <= set(said)
            while await two.ask("GET", "/api/agents/ada") and not all(
                kinds(journal(home, session), RunFinished) for session in said
            ):
                await anyio.sleep(0.02)
        ended = [event for session in said for event in kinds(journal(home, session), RunFinished)]
        assert [event.reason for event in ended if isinstance(event, RunFinished)] == ["completed"] * SESSIONS
        assert (tmp_path / "tally.txt").read_text().count("once") <= 4 * SESSIONS


async def say_into(one: Daemon, said: dict[str, int], number: int) -> None:
    session, seq = await one.says(f"go {number}")
    said[session] = seq


async def test_o2_a_run_that_outlasts_the_grace_goes_on_with_the_next_daemon(tmp_path: Path) -> None:
    async with ScriptedServer([Silence(), Answer("here I am")]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        operator(settings, graceSeconds=0.3)
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as one:
            await one.hears()
            session, _ = await one.says("hi")
            await server.arrived.wait()
            async with one.listens(session) as stream:
                while b"message.queued" not in await stream.readline():
                    pass
                begun = time.monotonic()
                assert await one.stops() == 0
                assert time.monotonic() - begun < 0.3 + 5
                with anyio.fail_after(5), suppress(aiohttp.ClientPayloadError):
                    await stream.read()  # it ends, or is cut as by any disconnection
        assert not kinds(journal(home, session), RunFinished)
        assert not (one.state / "daemon.json").exists()
        assert not (one.state / "daemon.sock").exists()
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as two:
            assert (await two.hears())["resumed"] == [session]
            while not kinds(journal(home, session), RunFinished):
                await anyio.sleep(0.02)
        assert len(kinds(journal(home, session), RunResumed)) == 1


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("background", [False, True])
async def test_f5_a_daemon_that_is_asked_to_end_leaves_no_command(tmp_path: Path, background: bool) -> None:
    hidden = "trap '' TERM; setsid sh -c 'sleep 300 & sleep 300' & touch up; sleep 300"
    begin = Call("execute", {"command": hidden, "background": background})
    async with ScriptedServer([Answer(calls=(begin,)), Answer("begun")]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings, **{"AGENTS.md": "---\nmode: bypassPermissions\n---\nYou are Ada.\n"})
        operator(settings, graceSeconds=0.2, ceiling={"mode": "bypassPermissions"})
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as one:
            await one.hears()
            await one.says("hi")
            with anyio.fail_after(10):
                while not (home.path / "work/up").exists():
                    await anyio.sleep(0.02)
            begun = time.monotonic()
            assert await one.stops() == 0
            assert time.monotonic() - begun < 5


async def test_o2_while_it_drains_no_control_is_taken_and_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with ScriptedServer([Silence()]) as server:
        settings = make_settings(tmp_path, server.url)
        home_with_a_server(settings, tmp_path / "tally.txt")
        operator(settings, graceSeconds=60)
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as one:
            await one.hears()
            session, _ = await one.says("hi")
            await server.arrived.wait()
            pid = one.pid
            os.kill(pid, signal.SIGTERM)
            assert (await one.hears())["told"] == "stopping"
            assert (await one.ask("GET", "/readyz"))[0] == 503
            assert (await one.ask("GET", "/healthz"))[0] == 200
            place = f"/api/agents/ada/sessions/{session}/control"
            status, problem = await one.ask("POST", place, {"control": "invoke", "input": "more"})
            assert status == 503, problem
            begun = time.monotonic()
            os.kill(pid, signal.SIGINT)
            assert await one.ends() == 130
            assert time.monotonic() - begun < 5
        assert not (one.state / "daemon.json").exists()


async def test_o2_after_three_starts_that_were_killed_it_comes_up_in_safe_mode_and_says_why(tmp_path: Path) -> None:
    async with ScriptedServer([Silence()]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        operator(settings, graceSeconds=0)
        session = await interrupted(settings, home, server)
        dies = {"TESTS_AT": "socket.bind", "HARNESSD_MODEL": SCRIPTED}
        for number in ("SIGKILL", "SIGKILL", "SIGTERM"):
            async with daemon(tmp_path, TESTS_SIGNAL=number, **dies) as dying:
                assert await dying.ends() == (0 if number == "SIGTERM" else -signal.SIGKILL % 256)
        assert len(read_starts(settings.state_dir).began) == 3
        before = len(server.requests)
        async with daemon(tmp_path, HARNESSD_MODEL=SCRIPTED) as safe:
            told = await safe.hears()
            assert "the last 3 starts ended before the daemon was ready" in told["safeMode"]
            assert told["parked"] == [session]
            assert told["resumed"] == []
            status, ready = await safe.ask("GET", "/readyz")
            assert (status, ready["note"]) == (200, f"safe mode: {told['safeMode']}")
            found = find_daemon(safe.state)
            assert found is not None
            assert found.safe_mode == told["safeMode"]
        assert [record["reason"] for record in safe.records if record["message"].startswith("safe mode")]
        [parked] = kinds(journal(home, session), RunParked)
        assert isinstance(parked, RunParked)
        assert parked.reason == "safe_mode"
        assert len(server.requests) == before
        assert read_starts(settings.state_dir).safe_mode is None


async def test_o2_a_second_daemon_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    async with daemon(tmp_path) as one:
        await one.hears()
        pid, found = one.pid, (one.state / "daemon.json").read_bytes()
        for state in ("state", "another"):
            settings = make_settings(tmp_path, "http://127.0.0.1:9", state_dir=tmp_path / state)
            with pytest.raises(Locked, match=f"process {pid}") as refused:
                await serve(settings, told=lambda _: None)
            assert refused.value.hint
        assert (one.state / "daemon.json").read_bytes() == found
        assert (await one.ask("GET", "/readyz"))[0] == 200


async def test_o2_what_a_killed_daemon_left_is_in_nobodys_way(tmp_path: Path) -> None:
    async with daemon(tmp_path) as one:
        await one.hears()
        token = one.token
        assert await one.stops(signal.SIGKILL) == -signal.SIGKILL % 256
    for left in ("daemon.json", "daemon.sock", STATE_LOCK):
        assert (one.state / left).exists()
    assert find_daemon(one.state) is None
    async with daemon(tmp_path) as two:
        assert (await two.hears())["told"] == "serving"
        assert two.token == token
        assert (await two.ask("GET", "/api/agents"))[0] == 200


async def test_o2_a_port_in_use_wakes_no_run_and_is_no_failed_start(tmp_path: Path) -> None:
    async with ScriptedServer([Silence()]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        await interrupted(settings, home, server)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(UsageError, match="in use") as refused:
                await serve(settings.model_copy(update={"port": port}), told=lambda _: None)
        assert refused.value.where == f"127.0.0.1:{port}"
        assert refused.value.hint
        assert read_starts(settings.state_dir).began == ()
        assert len(server.requests) == 1
        assert not (settings.state_dir / "daemon.json").exists()


async def test_f9_whatever_lies_in_the_workspaces_the_daemon_starts_and_names_it(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "http://127.0.0.1:9")
    make_home(settings, "good")
    for number, spoil in enumerate(SPOILS):
        home = make_home(settings, f"bad-{number}")
        spoil(home.path)
    (settings.workspaces / "loop").symlink_to("loop")
    (settings.workspaces / "a-file").write_text("x")
    async with daemon(tmp_path) as one:
        told = await one.hears()
        assert told["homes"] >= 1
        session, _ = await one.says("hello", "good")
        while not kinds(journal(Home(settings.workspaces / "good"), session), RunFinished):
            await anyio.sleep(0.02)
        assert (await one.ask("GET", "/readyz"))[0] == 200
    assert told["unreadable"]
    named = {record.get("where") for record in one.records if record["message"] == "cannot be read"}
    assert named == set(told["unreadable"])


def sessions_of(home: Path) -> Path:
    folder = home / "agents" / "main" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


SESSION = "ses_000000000-0000000.jsonl"
SPOILS = (
    lambda home: (sessions_of(home) / SESSION).write_bytes(os.urandom(4096)),
    lambda home: (sessions_of(home) / SESSION).write_bytes(b'{"crc":"00000000","seq":1}\n' * 50),
    lambda home: (sessions_of(home) / SESSION).write_bytes(b"\n" * 5000),
    lambda home: (sessions_of(home) / SESSION).mkdir(),
    lambda home: os.mkfifo(sessions_of(home) / SESSION),
    lambda home: (sessions_of(home) / SESSION).symlink_to(SESSION),
    lambda home: (sessions_of(home) / "no id.jsonl").write_text("x"),
    lambda home: (home / "agents").rename(home / "away") if (home / "agents").exists() else None,
    lambda home: (home / "AGENTS.md").write_bytes(b"\0\xff"),
    lambda home: (home / ".git" / "HEAD").write_bytes(b"\0"),
    lambda home: ((home / "AGENTS.md").unlink(), os.mkfifo(home / "AGENTS.md")),
    lambda home: ((home / ".git" / "HEAD").unlink(), (home / ".git" / "HEAD").symlink_to("HEAD")),
)
"""Ways in which a home or a session cannot be read."""


async def test_o2_it_tells_systemd_when_it_is_ready_and_when_it_stops_and_does_not_mind_a_hang_up(
    tmp_path: Path,
) -> None:
    async with systemd(tmp_path / "notify") as manager, daemon(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")) as one:
        await one.hears()
        assert manager.recv(4096).decode().startswith("READY=1\n")
        os.kill(one.pid, signal.SIGHUP)
        assert (await one.ask("GET", "/readyz"))[0] == 200
        await one.stops()
        assert manager.recv(4096).decode() == "STOPPING=1"
    messages = [record["message"] for record in one.records]
    assert messages[0] == "ready"
    assert messages[-2:] == ["stopping", "stopped"]


async def test_p5_the_token_is_made_once_for_its_owner_alone_and_told_nowhere(tmp_path: Path) -> None:
    async with daemon(tmp_path, HARNESSD_LOG="debug") as one:
        await one.hears()
        token = one.token
        about = (one.state / "token").stat()
        assert stat.S_IMODE(about.st_mode) == 0o600
        assert stat.S_IMODE(one.state.stat().st_mode) == 0o700
        for file in ("daemon.json", "daemon.sock", STATE_LOCK):
            assert stat.S_IMODE((one.state / file).stat().st_mode) == 0o600
        assert token.encode() not in Path(f"/proc/{one.pid}/cmdline").read_bytes()
        assert token.encode() not in Path(f"/proc/{one.pid}/environ").read_bytes()
    assert token not in one.log
    assert token not in json.dumps(one.told)
