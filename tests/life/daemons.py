"""What the tests of the daemon's life share: a daemon as a process of its own, watched by a warden."""

import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from harnessd.daemon.whereabouts import find_daemon

ROOT = Path(__file__).parents[2]
WARDEN = ROOT / "tests" / "e2e" / "warden.py"
PATIENCE_S = 30.0


@dataclass
class Daemon:
    """A daemon in a process; `outlived` are the processes that were there after its end."""

    base: Path
    process: Process
    lines: BufferedByteReceiveStream
    told: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    code: int | None = None
    outlived: list[str] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.base / "state"

    @property
    def token(self) -> str:
        return (self.state / "token").read_text().strip()

    @property
    def pid(self) -> int:
        found = find_daemon(self.state)
        assert found is not None
        return found.pid

    @property
    def records(self) -> list[dict[str, Any]]:
        """Its log."""
        return [json.loads(line) for line in self.log.splitlines()]

    async def hears(self) -> dict[str, Any]:
        """The next thing it tells."""
        with anyio.fail_after(PATIENCE_S):
            line = await self.lines.receive_until(b"\n", 1 << 20)
        self.told.append(json.loads(line))
        return self.told[-1]

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request over the unix socket: status and JSON."""
        connector = aiohttp.UnixConnector(str(self.state / "daemon.sock"))
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as client,
            client.request(method, f"http://daemon{path}", json=body) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    @asynccontextmanager
    async def listens(self, session: str, agent: str = "ada") -> AsyncIterator[aiohttp.StreamReader]:
        """An event stream that somebody has open."""
        connector = aiohttp.UnixConnector(str(self.state / "daemon.sock"))
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"http://daemon/api/agents/{agent}/sessions/{session}/events?after=0"
        async with aiohttp.ClientSession(connector=connector, headers=headers) as client, client.get(url) as answer:
            assert answer.status == 200
            yield answer.content

    async def says(self, text: str, agent: str = "ada") -> tuple[str, int]:
        """A message in a new session: its id, and the seq that was acknowledged."""
        status, made = await self.ask("POST", f"/api/agents/{agent}/sessions", {})
        assert status == 201, made
        session = made["sessionId"]
        place = f"/api/agents/{agent}/sessions/{session}/control"
        status, answer = await self.ask("POST", place, {"control": "invoke", "input": text})
        assert status == 202, answer
        return session, answer["seq"]

    async def ends(self) -> int:
        """Waits for its end; what it leaves is known afterwards."""
        with anyio.fail_after(PATIENCE_S):
            with suppress(anyio.IncompleteRead):
                while True:
                    self.told.append(json.loads(await self.lines.receive_until(b"\n", 1 << 20)))
            self.code = await self.process.wait()
        return self.code

    async def stops(self, number: signal.Signals = signal.SIGTERM) -> int:
        os.kill(self.pid, number)
        return await self.ends()


@asynccontextmanager
async def daemon(base: Path, **env: str) -> AsyncIterator[Daemon]:
    """A daemon for as long as the block runs; afterwards its log and what it left are known, and nothing is left."""
    left, log = base / "outlived", base / "daemon.log"
    left.unlink(missing_ok=True)
    with log.open("wb") as err:
        process = await anyio.open_process(
            [sys.executable, str(WARDEN), str(left), sys.executable, "-m", "tests.life.child"],
            stdin=None,
            stderr=err,
            cwd=ROOT,
            env={
                **os.environ,
                "HOME": str(base),
                "PYTHONPATH": str(ROOT),
                "HARNESSD_WORKSPACES": str(base / "workspaces"),
                "HARNESSD_STATE": str(base / "state"),
                "HARNESSD_PORT": "0",
                "HARNESSD_LOG": "info",
                "HARNESSD_MODEL": "offline",
                "OPENAI_API_KEY": "a-key-of-tests",
                **env,
            },
        )
    assert process.stdout is not None
    one = Daemon(base, process, BufferedByteReceiveStream(process.stdout))
    try:
        yield one
        if one.code is None:
            await one.stops()
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.terminate()
                with anyio.move_on_after(10):
                    await process.wait()
            await process.aclose()
        one.log = log.read_text()
        one.outlived = left.read_text().splitlines() if left.exists() else ["(the warden did not say)"]
    assert one.outlived == [], one.log


@asynccontextmanager
async def systemd(path: Path) -> AsyncIterator[socket.socket]:
    """A socket at `path` as systemd would listen on it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(path))
        made.setblocking(False)
        yield made
