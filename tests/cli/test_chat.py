"""Can one talk, decide in place, interrupt and leave?"""

import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from harnessd.cli.lines import Lines
from harnessd.cli.output import Output
from harnessd.models.script import Silence
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import ROOT, Said, harnessd, make, start


def chat(*lines: str, args: tuple[str, ...] = ()) -> Said:
    process = start("chat", "ada", *args, stdin=subprocess.PIPE)
    out, err = process.communicate("".join(f"{line}\n" for line in lines), timeout=60)
    assert "Traceback" not in err
    return Said(process.returncode, out, err)


def test_a_conversation_is_one_session() -> None:
    make()
    said = chat("say one", "say two", "/quit", "say never")
    assert said.code == 0
    assert said.out == "one\ntwo\n"
    assert len(harnessd("sessions", "ada", "--json").records) == 1


def test_the_end_of_input_ends_as_the_last_run_did() -> None:
    make()
    assert chat("say one").code == 0
    assert chat("read AGENTS.md\x20", "in AGENTS.md replace Short with Brief", args=("--json",)).code == 3


def test_f1_an_approval_is_decided_in_place_with_its_diff() -> None:
    home = make()
    said = chat("read AGENTS.md", "in AGENTS.md replace Short with Brief", "what?", "n", "say on")
    assert "+- Answer first, explain after. Brief beats" in said.err
    assert said.out.endswith("on\n")
    assert "Brief" not in (home / "AGENTS.md").read_text()
    said = chat("read AGENTS.md", "in AGENTS.md replace Short with Brief", "y")
    assert said.code == 0
    assert "Brief" in (home / "AGENTS.md").read_text()


def test_f1_an_approval_left_for_later_is_there_when_one_comes_back() -> None:
    home = make()
    left = chat("read AGENTS.md", "in AGENTS.md replace Short with Brief", "l", "/quit")
    assert left.code == 0
    back = chat("y", args=("--session", "last"))
    assert back.code == 0
    assert "Brief" in (home / "AGENTS.md").read_text()


def test_a_run_that_waits_can_be_stopped() -> None:
    make()
    said = chat("read AGENTS.md", "in AGENTS.md replace Short with Brief", "l", "/stop", "say free")
    assert said.code == 0
    assert said.out.endswith("free\n")


def test_commands() -> None:
    make()
    said = chat("/help", "say one", "/new", "say two", "/sessions", "/show", "/quit")
    assert said.code == 0
    assert all(command in said.out for command in ("/help", "/sessions", "/new", "/stop", "/show", "/quit"))
    assert said.out.count("ses_") >= 3
    assert "main: two" in said.out
    assert len(harnessd("sessions", "ada", "--json").records) == 2


def test_a_command_that_is_none_is_not_said_to_the_agent() -> None:
    make()
    said = chat("/halp", "say /etc is a folder", "/quit")
    assert said.out == "/etc is a folder\n"
    assert "/halp is no command; /help lists them" in said.err


def test_json_prints_events_only() -> None:
    make()
    said = chat("say one", "say two", args=("--json",))
    assert said.code == 0
    assert [one["type"] for one in said.records].count("run.finished") == 2


@contextmanager
def at_a_terminal(env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A chat whose standard streams are a terminal; yields it and the other end of the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "harnessd", "chat", "ada", "--model", "openai/scripted"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **env},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, wanted: str) -> str:
    seen = ""
    while wanted not in seen:
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen


async def test_f5_ctrl_c_stops_the_run_and_a_second_one_leaves() -> None:
    make()
    async with ScriptedServer([Silence()]) as server:
        env = {"OPENAI_API_BASE": f"{server.url}/v1", "OPENAI_API_KEY": "test-key"}
        with at_a_terminal(env) as (process, terminal):
            await anyio.to_thread.run_sync(read_until, terminal, "> ")
            os.write(terminal, b"hello\n")
            await server.arrived.wait()
            process.send_signal(signal.SIGINT)
            seen = await anyio.to_thread.run_sync(read_until, terminal, "\n> ")
            assert "the run ended: stopped" in seen
            process.send_signal(signal.SIGINT)
            await anyio.to_thread.run_sync(process.wait)
    assert process.returncode == 130
    assert harnessd("sessions", "ada", "--json").records[0]["status"] == "stopped"


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"a", ["a"]), (b"a\n", ["a"]), (b"\n", [""]), (b"a\n\nb", ["a", "", "b"]), (b"\xff\n", ["�"]),
     ("grüße\nzwei\n".encode(), ["grüße", "zwei"])], ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_lines_of_a_pipe_and_a_file(data: bytes, lines: list[str], kind: str, tmp_path: Path) -> None:
    if kind == "pipe":
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
    else:
        (tmp_path / "lines").write_bytes(data)
        reading = os.open(tmp_path / "lines", os.O_RDONLY)
    try:
        source = Lines(reading, Output(out=io.StringIO(), err=io.StringIO()))
        found = []
        while (line := await source.next("> ")) is not None:
            found.append(line)
        assert found == lines
        assert await source.next() is None
    finally:
        os.close(reading)


async def test_what_is_pasted_into_a_terminal_is_one_message() -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"one\ntwo\nthree\n")
        source = Lines(theirs, Output(out=io.StringIO(), err=io.StringIO()))
        assert await source.next("> ") == "one\ntwo\nthree"
    finally:
        os.close(ours)
        os.close(theirs)


def test_f1_what_a_subagent_asks_for_is_decided_in_place() -> None:
    home = make(subagents__scout_md="---\nname: scout\ndescription: Looks.\n---\nLook.\n")
    asked = "delegate to scout: in AGENTS.md replace Short with Brief"
    said = chat(asked, "y", "say on")
    assert said.out.endswith("on\n")
    assert "✓ delegate" in said.err
    assert "Brief" in (home / "AGENTS.md").read_text(), said
