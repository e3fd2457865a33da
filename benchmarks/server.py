"""The models that the benchmarks talk to: a lean one over a bare socket, and the scripted server of the tests.

Both see how far a conversation is by counting tool messages, and how long it shall become by `turns=N` in the last user
message. The lean one never parses a request and answers with bytes that are ready, so that what is measured against it
is almost only the client; it can wait before it answers, as a model does, and `pieces=N` makes it stream N pieces of
text, one every `PIECE_SECONDS`.
"""

import asyncio
import json
import multiprocessing
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal

Kind = Literal["lean", "scripted"]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WANTED = re.compile(rb"turns=(\d+)")
STREAMED = re.compile(rb"pieces=(\d+)")
PIECE_SECONDS = 0.02
USAGE = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}


@dataclass(frozen=True)
class ModelServer:
    """A running server; `base` is what clients take as their API base, `port` where a raw socket connects."""

    port: int
    _pipe: Connection

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def arrivals(self) -> list[float]:
        """When each request since the last call had arrived whole: seconds of `time.monotonic`."""
        self._pipe.send("arrivals")
        times: list[float] = self._pipe.recv()
        return times


@contextmanager
def model_server(kind: Kind = "lean", latency: float = 0.0) -> Iterator[ModelServer]:
    """The server in a process of its own, until the block ends; `scripted` is the one that the tests use.

    The lean one answers `latency` seconds after a request has arrived.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, kind, latency), daemon=True)
    process.start()
    try:
        yield ModelServer(ours.recv(), ours)
    finally:
        process.terminate()
        process.join()


def next_call(body: bytes) -> int | None:
    """The number of the tool call that answers this request, None if the run has had its turns."""
    last = body.rfind(b'"role":"user"')
    wanted = WANTED.findall(body, max(last, 0))
    done = body.count(b'"role":"tool"', max(last, 0))
    return done if wanted and done + 1 < int(wanted[-1]) else None


def arguments_of(number: int) -> str:
    """What call `number` reads: a note of its own, so that each turn brings something new."""
    return json.dumps({"path": f"work/note-{number}.txt"})


def _serve(pipe: Connection, kind: Kind, latency: float) -> None:
    asyncio.run(_lean(pipe, [], latency) if kind == "lean" else _scripted(pipe, []))


async def _lean(pipe: Connection, arrivals: list[float], latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Http(arrivals, latency), "127.0.0.1", 0, backlog=1024)
    await _report(pipe, server.sockets[0].getsockname()[1], arrivals)


async def _scripted(pipe: Connection, arrivals: list[float]) -> None:
    from harnessd.models.script import Answer, Call, Request
    from harnessd.models.scripted import ScriptedServer

    text = Answer("All notes read.")
    calls: dict[int, Answer] = {}

    def script(request: Request) -> Answer:
        arrivals.append(time.monotonic())
        number = next_call(request.raw)
        if number is None:
            return text
        if number not in calls:
            calls[number] = Answer(f"Reading note {number}.", calls=(Call("read", arguments_of(number)),))
        return calls[number]

    async with ScriptedServer(script, keep=False) as server:
        await _report(pipe, int(server.url.rpartition(":")[2]), arrivals)


async def _report(pipe: Connection, port: int, arrivals: list[float]) -> None:
    """Tells the port, then the arrivals whenever asked, until the other side is gone."""
    gone = asyncio.Event()

    def tell() -> None:
        try:
            pipe.recv()
            pipe.send(list(arrivals))
            arrivals.clear()
        except (EOFError, OSError):
            gone.set()

    asyncio.get_running_loop().add_reader(pipe.fileno(), tell)
    pipe.send(port)
    await gone.wait()


class _Http(asyncio.Protocol):
    """Just enough HTTP/1.1: one request after the other, each with a Content-Length or in chunks."""

    def __init__(self, arrivals: list[float], latency: float) -> None:
        self.arrivals, self.latency, self.buffer = arrivals, latency, bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end]).lower()
            taken = self._body(head, end + 4)
            if taken is None:
                return
            body, rest = taken
            self.arrivals.append(time.monotonic())
            del self.buffer[:rest]
            self._answer(body if head.startswith(b"post") else None)

    def _answer(self, body: bytes | None) -> None:
        if body is None:
            self.transport.write(_NOT_HERE)
            return
        loop, pieces = asyncio.get_running_loop(), _pieces(body)
        if not self.latency and len(pieces) == 1:
            self.transport.write(HEAD + pieces[0])
            return
        self._send(iter((HEAD + pieces[0], *pieces[1:])), loop.time() + self.latency)

    def _send(self, pieces: Iterator[bytes], when: float) -> None:
        """Sends one piece at `when`, and the others after it, unless the client is gone."""
        loop = asyncio.get_running_loop()

        def send() -> None:
            piece = next(pieces, None)
            if piece is not None and not self.transport.is_closing():
                self.transport.write(piece)
                self._send(pieces, loop.time() + PIECE_SECONDS)

        loop.call_at(when, send)

    def _body(self, head: bytes, start: int) -> tuple[bytes, int] | None:
        """The body and where it ends, or None if it has not arrived whole."""
        if b"transfer-encoding: chunked" in head:
            end = self.buffer.find(b"0\r\n\r\n", start)
            return None if end < 0 else (bytes(self.buffer[start:end]), end + 5)
        length = re.search(rb"content-length: (\d+)", head)
        size = int(length[1]) if length else 0
        return None if len(self.buffer) < start + size else (bytes(self.buffer[start : start + size]), start + size)


def _pieces(body: bytes) -> tuple[bytes, ...]:
    """The chunked body of the answer, in the pieces in which it is sent."""
    if streamed := STREAMED.findall(body, max(body.rfind(b'"role":"user"'), 0)):
        return (*([_WORD] * int(streamed[-1])), _TEXT)
    number = next_call(body)
    return (_TEXT if number is None else _call(number),)


def _stream(*deltas: dict[str, object], finish: str) -> bytes:
    """One whole chunked body: each delta an SSE event, then finish, usage and `[DONE]`."""
    usage: dict[str, object] = {**_FRAME, "choices": [], "usage": USAGE}
    parts = [*map(_event, deltas), _event({}, finish), _chunk(json.dumps(usage).encode()), _chunk(b"[DONE]")]
    return b"".join(parts) + b"0\r\n\r\n"


def _event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _chunk(json.dumps({**_FRAME, "choices": [choice]}).encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\ndata: %s\n\n\r\n" % (len(data) + 8, data)


def _call(number: int) -> bytes:
    """A streamed call of `read`, made once."""
    if number not in _CALLS:
        function = {"name": "read", "arguments": ""}
        head: dict[str, object] = {"index": 0, "id": f"c{number}", "type": "function", "function": function}
        tail = {"index": 0, "function": {"arguments": arguments_of(number)}}
        _CALLS[number] = _stream(
            {"role": "assistant", "content": f"Reading note {number}."},
            {"tool_calls": [head]},
            {"tool_calls": [tail]},
            finish="tool_calls",
        )
    return _CALLS[number]


_FRAME: dict[str, object] = {"id": "bench", "object": "chat.completion.chunk", "created": 0, "model": "bench"}
_CALLS: dict[int, bytes] = {}
_TEXT = _stream({"role": "assistant", "content": "All "}, {"content": "notes "}, {"content": "read."}, finish="stop")
_WORD = _event({"content": "word "})
_NOT_HERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

if __name__ == "__main__":
    with model_server() as running:
        print(running.base, flush=True)
        sys.stdin.read()
