"""What the tests of the HTTP door share: a living home behind a real server on loopback, and requests of any shape."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harnessd.api.app import make_app
from harnessd.api.door import Door, Limits
from harnessd.api.listen import Addresses, listening
from harnessd.facts.message import JsonObject
from harnessd.models.script import Answer, Call, Script
from tests.daemon.living import Living, living

TOKEN = "let-me-in-" + "x" * 24
AUTH = {"Authorization": f"Bearer {TOKEN}"}
PROBLEM = "application/problem+json"
HELLO = (Answer("Hello."),)


@dataclass
class Reply:
    """An answer as it came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    repeated: list[tuple[str, str]] = field(default_factory=list)

    @property
    def json(self) -> JsonObject:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """The last part of a problem's type."""
        assert self.headers["content-type"].startswith(PROBLEM), (self.status, self.headers, self.body)
        problem = self.json
        assert problem["status"] == self.status
        assert problem["title"]
        return str(problem["type"]).rpartition(":")[2]


@dataclass
class Served:
    """A door that is open, and the living home behind it."""

    living: Living
    at: Addresses
    base: Path

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        raw: bytes | None = None,
        unix: bool = False,
    ) -> Reply:
        """One request with the token and a JSON body; a header of None is left out."""
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        lines: dict[str, str | None] = {"Host": f"127.0.0.1:{self.at.port}", **AUTH, "Connection": "close"}
        if content or body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        lines |= headers or {}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in lines.items() if value is not None
        )
        reply = await self.send(head.encode("utf-8", "surrogateescape") + b"\r\n" + content, unix=unix)
        assert reply is not None, "the server closed without an answer"
        return reply

    async def send(self, data: bytes, *, unix: bool = False) -> Reply | None:
        """These bytes, and the first answer to them; None if there is none."""
        reader, writer = await self.connect(unix=unix)
        try:
            writer.write(data)
            return await read_reply(reader, head=data.startswith(b"HEAD"))
        finally:
            writer.close()

    async def connect(self, *, unix: bool = False) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if unix:
            return await asyncio.open_unix_connection(str(self.at.socket))
        return await asyncio.open_connection("127.0.0.1", self.at.port)

    async def session(self, **asked: object) -> str:
        made = await self.ask("POST", "/api/agents/ada/sessions", asked)
        assert made.status == 201, made.body
        return str(made.json["sessionId"])

    async def control(self, session_id: str, **control: object) -> Reply:
        return await self.ask("POST", f"/api/agents/ada/sessions/{session_id}/control", control)

    async def say(self, session_id: str, text: str) -> None:
        """A message and everything that follows from it."""
        answer = await self.control(session_id, control="invoke", input=text)
        assert answer.status == 202, answer.body
        async with self.living.runtime.visit(self.living.home, session_id) as session:
            await session.idle()

    def snapshot(self) -> dict[str, str]:
        """Every file and folder of the workspaces and the state directory, with its content's hash."""
        return tree(self.base / "workspaces") | tree(self.base / "state")


@asynccontextmanager
async def served(
    base: Path,
    script: Script = HELLO,
    *,
    limits: Limits | None = None,
    hosts: tuple[str, ...] = (),
    settings: dict[str, object] | None = None,
    **files: str,
) -> AsyncIterator[Served]:
    async with living(base, script, settings=settings, **files) as alive:
        app = make_app(alive.runtime, Door(TOKEN, hosts=hosts, limits=limits or Limits()))
        async with listening(app, "127.0.0.1", 0, base / "state" / "d.sock") as at:
            yield Served(alive, at, base)


def tree(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        found[os.fspath(path)] = f"{kind:o} {path.lstat().st_mtime_ns} {content}"
    return found


async def read_reply(reader: asyncio.StreamReader, *, head: bool = False) -> Reply | None:
    """The next answer on a connection; None at its end."""
    try:
        first = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    lines = first.decode("latin-1").split("\r\n")
    pairs = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:-2])]
    headers = dict(pairs)
    status = int(lines[0].split(" ")[1])
    body = b""
    if not head and status not in {204, 304}:
        if "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        else:
            body = await reader.read()
    return Reply(status, headers, body, pairs)


def a_write(path: str = "KNOWLEDGE.md", content: str = "# Tea\n\nHot.\n") -> Answer:
    """An answer that asks for a call which waits for a person."""
    return Answer(calls=(Call("write", {"path": path, "content": content}),))
