"""What the end-to-end tests share: the real command in a process of its own, and a scripted model in both lanes."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from harnessd.models.script import Answer, Call, Request
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import ROOT, Said

WARDEN = Path(__file__).with_name("warden.py")
PATIENCE_S = 100
"""A first answer of the worker's lane may take long on a busy machine: litellm is imported first."""


@dataclass(frozen=True)
class Lane:
    """A lane: the model that takes it, the variables that lead it to the scripted server, how its wire is read."""

    name: str
    model: str
    key: str
    base: str
    suffix: str = ""

    def env(self, server: ScriptedServer) -> dict[str, str]:
        return {self.key: "sk-e2e-key", self.base: server.url + self.suffix}

    def prompt(self, request: Request) -> str:
        """The system message."""
        if self is DIRECT:
            return str(request.body["messages"][0]["content"])
        system = request.body["system"]
        return system if isinstance(system, str) else "".join(part["text"] for part in system)

    def tools(self, request: Request) -> list[str]:
        offered = request.body.get("tools", [])
        return [tool["function"]["name"] if self is DIRECT else tool["name"] for tool in offered]

    def said(self, request: Request) -> str:
        """Everything after the system message, as text."""
        return json.dumps(request.body["messages"][1 if self is DIRECT else 0 :], ensure_ascii=False)

    def results(self, request: Request) -> list[str]:
        """The results of tools that the model was shown, in order."""
        messages: list[dict[str, Any]] = request.body["messages"]
        if self is DIRECT:
            return [str(one["content"]) for one in messages if one["role"] == "tool"]
        parts = [part for one in messages if isinstance(one["content"], list) for part in one["content"]]
        return [json.dumps(part["content"], ensure_ascii=False) for part in parts if part["type"] == "tool_result"]


DIRECT = Lane("direct", "openai/gpt-5-mini", "OPENAI_API_KEY", "OPENAI_API_BASE", "/v1")
WORKER = Lane("litellm", "anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_API_BASE")
LANES = (DIRECT, WORKER)


async def harnessd(*args: object, env: Mapping[str, str] | None = None) -> Said:
    """One command, as a person would run it; nothing of it may be left when it has ended."""
    left = Path(os.environ["HOME"]) / "left"
    with anyio.fail_after(PATIENCE_S):
        done = await anyio.run_process(
            _command(left, args), cwd=ROOT, env=_env(env), stdin=subprocess.DEVNULL, check=False
        )
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in said.err, said.err
    assert left.read_text() == "", "a process is left behind"
    return said


class Talk:
    """A `harnessd chat --json` that is kept open: one process, so that the worker starts once."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._out = TextReceiveStream(process.stdout)
        self._pending = ""
        self.events: list[dict[str, Any]] = []

    async def say(self, text: str) -> list[dict[str, Any]]:
        """The events from this message to the end of its run."""
        await self._stdin.send(f"{text}\n".encode())
        began = len(self.events)
        with anyio.fail_after(PATIENCE_S):
            while not any(one["type"] == "run.finished" for one in self.events[began:]):
                await self._read()
        return self.events[began:]

    async def _read(self) -> None:
        while "\n" not in self._pending:
            self._pending += await self._out.receive()
        *lines, self._pending = self._pending.split("\n")
        self.events += [json.loads(line) for line in lines]


@asynccontextmanager
async def starting(*args: object, env: Mapping[str, str] | None = None) -> AsyncIterator[Process]:
    """One command, running; its end is waited for, and nothing of it may be left then."""
    left = Path(os.environ["HOME"]) / "left"
    async with await anyio.open_process(_command(left, args), cwd=ROOT, env=_env(env), stderr=None) as process:
        yield process
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.fail_after(PATIENCE_S):
            await process.wait()
    assert left.read_text() == "", "a process is left behind"


@asynccontextmanager
async def talking(*args: object, env: Mapping[str, str] | None = None) -> AsyncIterator[Talk]:
    async with starting("chat", *args, "--json", env=env) as process:
        yield Talk(process)


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all processes below one, by pid."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return {}
    below = {}
    for child in map(int, children):
        try:
            below[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        below |= descendants(child)
    return below


def of_type(events: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [one for one in events if one["type"] in types]


def calls(*names_and_arguments: tuple[str, dict[str, object]]) -> Answer:
    return Answer(calls=tuple(Call(name, dict(arguments)) for name, arguments in names_and_arguments))


def _command(left: Path, args: tuple[object, ...]) -> list[str]:
    return [sys.executable, str(WARDEN), str(left), sys.executable, "-m", "harnessd", *map(str, args)]


def _env(more: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **(more or {})}
