"""Does a command find the daemon that is there, leave alone the one that is not, and bear its death?"""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from harnessd.cli.output import Output
from harnessd.cli.reach import Refused
from harnessd.cli.there import there
from harnessd.client.connection import Unreachable
from harnessd.daemon.config import load_settings
from harnessd.facts.control import Invoke, Stop
from harnessd.home.layout import find_home
from harnessd.models.script import Answer, Silence
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import ASKS, ROOT, Said, harnessd, make, start, waiting
from tests.cli.daemon import Daemon, serving


@dataclass(frozen=True)
class Scene:
    """A daemon whose agents think with a scripted model."""

    daemon: Daemon
    server: ScriptedServer
    folder: Path

    def start(self, *args: str, **how: Any) -> subprocess.Popen[str]:
        """A command in a process of its own that finds the daemon."""
        return start(*args, env=self.daemon.env, **how)

    async def say(self, *args: str) -> Said:
        """A command from its beginning to its end."""
        return await ended(self.start(*args))


@asynccontextmanager
async def scene(folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> AsyncIterator[Scene]:
    async with ScriptedServer(list(answers)) as server:
        monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("HARNESSD_MODEL", "openai/scripted")
        monkeypatch.setenv("HARNESSD_WORKSPACES", str(folder / "workspaces"))
        monkeypatch.setenv("HARNESSD_STATE", str(folder / "state"))
        make()
        with serving(folder) as daemon:
            yield Scene(daemon, server, folder)


async def ended(process: subprocess.Popen[str]) -> Said:
    out, err = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=60))
    assert "Traceback" not in err
    return Said(process.returncode, out, err)


async def line_of(process: subprocess.Popen[str], wanted: str) -> str:
    """Standard error up to the line that holds `wanted`."""
    assert process.stderr is not None
    seen = ""
    while wanted not in seen:
        line = await anyio.to_thread.run_sync(process.stderr.readline)
        assert line, f"{wanted!r} never came: {seen}"
        seen += line
    return seen


async def test_the_daemon_does_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, monkeypatch, Silence(), Silence(), Silence(), Answer("one")) as here:
        process = here.start("run", "ada", "hello")
        await here.server.arrived.wait()
        process.kill()
        await ended(process)
        [shown] = harnessd("ps", "--json").records
        assert shown["status"] == "running", "the run outlives the command that began it"
        assert (await here.say("stop", "ada")).code == 0
        assert harnessd("ps", "--json").out == ""
        for number in (signal.SIGINT, signal.SIGTERM):
            process = here.start("run", "ada", "hello", "--json")
            assert process.stdout is not None
            while "turn.started" not in await anyio.to_thread.run_sync(process.stdout.readline):
                pass
            process.send_signal(number)
            said = await ended(process)
            assert said.code == 130, said
            assert harnessd("sessions", "ada", "--json").records[0]["status"] == "stopped"
        assert here.daemon.stop() == 0
        assert (await here.say("run", "ada", "hello")).out == "one\n", "then this process does it"


async def test_a_second_signal_leaves_also_when_the_daemon_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch, Silence()) as here:
        process = here.start("run", "ada", "hello", "--json")
        assert process.stdout is not None
        while "turn.started" not in await anyio.to_thread.run_sync(process.stdout.readline):
            pass
        here.daemon.process.send_signal(signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)  # of the same signal twice at once only one arrives
            with anyio.fail_after(15):
                assert (await ended(process)).code == 130
        finally:
            here.daemon.process.kill()  # its grace for the run that never ends is of no interest here


async def test_a_message_to_a_busy_session_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, monkeypatch, Silence(), Answer("second"), Answer("third")) as here:
        first = here.start("run", "ada", "hello")
        await here.server.arrived.wait()
        rejected = await here.say("run", "ada", "again", "--session", "last", "--when-busy", "reject")
        assert rejected.code == 5
        assert "busy" in rejected.err
        second = here.start("run", "ada", "again", "--session", "last")
        await line_of(second, "waits its turn")
        assert (await here.say("stop", "ada", "--json")).code == 0
        assert (await ended(first)).code == 0
        assert (await ended(second)).out.endswith("second\n")


@pytest.mark.matrix
async def test_f1_a_daemon_that_is_killed_while_a_chat_is_open_ends_it_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch, Silence()) as here:
        chat = here.start("chat", "ada", stdin=subprocess.PIPE)
        assert chat.stdin is not None
        chat.stdin.write("hello\n")
        chat.stdin.flush()
        await here.server.arrived.wait()
        here.daemon.kill()
        await line_of(chat, "the daemon is gone")
        said = await ended(chat)
        assert said.code == 5
        assert "the daemon does not answer" in said.err


async def test_f1_a_daemon_that_stays_away_is_an_error_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = io.StringIO()
    async with scene(tmp_path, monkeypatch, Silence()) as here:
        settings = load_settings()
        home = find_home("ada", settings.workspaces)
        async with (
            there(settings, Output(out=io.StringIO(), err=err), patience=0.2) as place,
            place.session(home) as session,
        ):
            assert not isinstance(await session.control(Invoke(input="hello")), Refused)
            await here.server.arrived.wait()
            here.daemon.kill()
            with pytest.raises(Unreachable) as raised:
                await session.idle()
            assert raised.value.exit_code == 5
            assert raised.value.hint
            with pytest.raises(Unreachable):
                await session.control(Stop())
    assert "the daemon is gone" in err.getvalue()


async def test_f1_a_daemon_that_comes_back_goes_on_under_an_open_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch, Silence(), Answer("here I am again")) as here:
        asking = here.start("chat", "ada", stdin=subprocess.PIPE)
        assert asking.stdin is not None
        asking.stdin.write("hello\n")
        asking.stdin.flush()
        await here.server.arrived.wait()
        here.daemon.kill()
        await line_of(asking, "the daemon is gone")
        with serving(here.folder) as again:
            assert len(again.ready["resumed"]) == 1
            said = await ended(asking)
        assert said.code == 0, said
        assert said.out.endswith("here I am again\n")
        assert "it is back" in said.err


WRITTEN = {"pid": os.getpid(), "host": "127.0.0.1", "port": 9, "version": "0.1.0"}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", json.dumps({**WRITTEN, "pid": 2**22 + 1}), json.dumps({**WRITTEN, "pid": -1}),
     json.dumps(WRITTEN), json.dumps({**WRITTEN, "socket": "/nowhere"}), json.dumps({**WRITTEN, "port": "x"})],
    ids=["empty", "torn", "list", "dead", "odd-pid", "nobody-listens", "no-socket", "odd-port"],
)  # fmt: skip
def test_what_a_dead_daemon_left_is_no_daemon(text: str) -> None:
    make()
    state = Path(os.environ["HOME"]) / ".local" / "state" / "harnessd"
    state.mkdir(parents=True, exist_ok=True)
    (state / "daemon.json").write_text(text.replace('"version"', f'"workspaces": "{state}", "version"'))
    assert harnessd("run", "ada", "say one").out == "one\n"
    assert harnessd("stop", "ada").code == 0


def test_a_session_that_another_process_holds_is_named_with_its_pid(tmp_path: Path) -> None:
    make()
    holder = start("chat", "ada", "--json", stdin=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    for line in ASKS.splitlines():
        holder.stdin.write(line.removeprefix("then ") + "\n")
    holder.stdin.flush()
    while "tool.approval_required" not in holder.stdout.readline():
        pass
    approval = harnessd("ps", "--json").records[0]["waiting"][0]["id"]
    for args in (["stop", "ada"], ["approve", "ada", approval], ["run", "ada", "say hi", "--session", "last"]):
        said = harnessd(*args)
        assert said.code == 5
        assert f"open in process {holder.pid}" in said.err
    holder.communicate(timeout=30)
    assert harnessd("deny", "ada", approval).code == 0


@contextmanager
def served(folder: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("HARNESSD_WORKSPACES", str(folder / "workspaces"))
    monkeypatch.setenv("HARNESSD_STATE", str(folder / "state"))
    make()
    with serving(folder) as daemon:
        yield daemon


def test_which_daemon_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this state directory, with this token, for homes in its workspaces; a path to one of these is one of these."""
    with served(tmp_path, monkeypatch) as daemon:
        outside = tmp_path / "elsewhere" / "bea"
        assert harnessd("init", outside).code == 0
        monkeypatch.setenv("HARNESSD_TOKEN", "wrong")
        for agent in ("ada", str(daemon.workspaces / "ada")):
            said = harnessd("run", agent, "say one")
            assert said.code == 5, "only a daemon asks for a token"
            assert "token" in said.err
        assert harnessd("run", outside, "say two").out == "two\n"
        monkeypatch.setenv("HARNESSD_STATE", str(tmp_path / "other-state"))
        assert harnessd("run", "ada", "say three").out == "three\n"
        monkeypatch.setenv("HARNESSD_STATE", str(daemon.state_dir))
        monkeypatch.delenv("HARNESSD_TOKEN")
        code = "import sys\nfrom harnessd.cli.main import run\nrun(['run', 'ada', 'say hi'])\n"
        code += (
            "print([name for name in sys.modules if name.startswith(('harnessd.loop', 'harnessd.daemon.assemble'))])"
        )
        outcome = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert outcome.stdout == "hi\n[]\n", "with a daemon a command does not load what runs agents"
        link = tmp_path / "link"
        link.symlink_to(daemon.workspaces)
        assert harnessd("run", "ada", "say four", "--workspaces", link).out == "four\n"


def test_a_session_keeps_its_model_in_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch):
        assert harnessd("run", "ada", "say one", "--model", "offline").out == "one\n"
        assert harnessd("run", "ada", "say two", "--model", "offline", "--session", "last").out == "two\n"
        said = harnessd("run", "ada", "say three", "--model", "openai/other", "--session", "last")
        assert said.code == 2
        assert "keeps the model" in said.err


def test_f1_what_waits_when_the_daemon_starts_is_told_and_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESSD_WORKSPACES", str(tmp_path / "workspaces"))
    monkeypatch.setenv("HARNESSD_STATE", str(tmp_path / "state"))
    make()
    approval = waiting()
    with serving(tmp_path) as daemon:
        assert daemon.ready["homes"] == 1
        assert len(daemon.ready["waiting"]) == 1
        assert harnessd("approve", "ada", approval).code == 0
