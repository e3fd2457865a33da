"""The least that an agent loop can do: a raw socket, the messages as bytes, one fdatasync a turn.

It keeps nothing else that harnessd keeps (no state, no approvals, no pin); it is the floor to measure against.
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

SYSTEM = "You are a benchmark. " * 200
TOOL = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read lines of a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "offset": {"type": "integer"}, "limit": {"type": "integer"}},
            "required": ["path"],
        },
    },
}


def run_bare(port: int, turns: int, home: Path, name: str = "bare") -> int:
    """Holds one conversation of `turns` turns in a home of `benchmarks.homes`, with the model server at `port`.

    `name` is the journal's. Returns how many requests were sent.
    """
    messages = [_encode({"role": "system", "content": SYSTEM}), _encode({"role": "user", "content": f"turns={turns}"})]
    tail = b'],"tools":[' + _encode(TOOL) + b'],"stream":true,"stream_options":{"include_usage":true}}'
    journal = os.open(home / f"{name}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    sent = 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            _request(connection, b'{"model":"bench","messages":[' + b",".join(messages) + tail)
            sent += 1
            text, calls = _reply(connection)
            new = [_encode({"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})})]
            for call in calls:
                result = (home / json.loads(call["function"]["arguments"])["path"]).read_text(encoding="utf-8")
                new.append(_encode({"role": "tool", "tool_call_id": call["id"], "content": result}))
            os.write(journal, b"\n".join(new) + b"\n")
            os.fdatasync(journal)
            messages += new
            if not calls:
                os.close(journal)
                return sent


def _request(connection: socket.socket, body: bytes) -> None:
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)


def _reply(connection: socket.socket) -> tuple[str, list[dict[str, Any]]]:
    """The text and the tool calls of one streamed answer."""
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("the server closed the connection in the middle of an answer")
        data += received
    text, calls = "", []
    for line in data.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for part in delta.get("tool_calls", ()):
                if "id" in part:
                    calls.append({**part, "function": dict(part["function"])})
                else:
                    calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    for call in calls:
        call.pop("index")
    return text, calls


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
