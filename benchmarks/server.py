"""The models that the benchmarks talk to: a lean one over a bare socket, and the scripted server of the tests.

Both see how far a conversation is by counting tool messages, and how long it shall become by `turns=N` in the last user
message. The lean one never parses a request and answers with bytes that are ready, so that what is measured against it
is almost only the client.
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
def model_server(kind: Kind = "lean") -> Iterator[ModelServer]:
    """The server in a process of its own, until the block ends; `scripted` is the one that the tests use."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, kind), daemon=True)
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


def _serve(pipe: Connection, kind: Kind) -> None:
    asyncio.run((_lean if kind == "lean" else _scripted)(pipe, []))


async def _lean(pipe: Connection, arrivals: list[float]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Http(arrivals), "127.0.0.1", 0)
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

    def __init__(self, arrivals: list[float]) -> None:
        self.arrivals, self.buffer = arrivals, bytearray()

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
            self.transport.write(HEAD + _answer(body) if head.startswith(b"post") else _NOT_HERE)

    def _body(self, head: bytes, start: int) -> tuple[bytes, int] | None:
        """The body and where it ends, or None if it has not arrived whole."""
        if b"transfer-encoding: chunked" in head:
            end = self.buffer.find(b"0\r\n\r\n", start)
            return None if end < 0 else (bytes(self.buffer[start:end]), end + 5)
        length = re.search(rb"content-length: (\d+)", head)
        size = int(length[1]) if length else 0
        return None if len(self.buffer) < start + size else (bytes(self.buffer[start : start + size]), start + size)


def _answer(body: bytes) -> bytes:
    number = next_call(body)
    return _TEXT if number is None else _call(number)


def _stream(*deltas: dict[str, object], finish: str) -> bytes:
    """One whole chunked body: each delta an SSE event, then finish, usage and `[DONE]`."""
    choices: list[list[dict[str, object]]]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": finish}])
    events = [{**_FRAME, "choices": choice} for choice in choices] + [{**_FRAME, "choices": [], "usage": USAGE}]
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]
    return b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


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
_NOT_HERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

if __name__ == "__main__":
    with model_server() as running:
        print(running.base, flush=True)
        sys.stdin.read()
