"""An MCP server over stdio, written by hand, that misbehaves in the way its argument names."""

import json
import os
import sys
import time
from pathlib import Path

HOW = sys.argv[1]
STARTED = time.monotonic_ns()
SIZE = int(os.environ.get("SIZE", "200000000"))
TOOL = {"name": "echo", "description": "Says it back.", "inputSchema": {"type": "object"}}
DEEP: dict = {"type": "object"}
for _ in range(400):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
STRUCTURED = {
    "structured": {"n": 1},
    "structured and in words": {"n": 1},
    "structured wrongly": {"n": "one"},
    "structured by an endless expression": {"n": 1, "s": "a" * 60 + "!"},
}
ENDLESS = {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}
BOMB = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}}
OBJECT = {"type": "object"}


def odd(**more: object) -> dict:
    return TOOL | {"name": "odd"} | more


LISTS = {how: [TOOL | {"outputSchema": OBJECT | {"properties": {"n": {"type": "integer"}}}}] for how in STRUCTURED}
LISTS["structured by an endless expression"] = [TOOL | {"outputSchema": OBJECT | {"properties": {"s": ENDLESS}}}]
LISTS |= {
    "duplicates": [TOOL, TOOL | {"description": "Another."}],
    "no schema": [TOOL, odd(inputSchema={})],
    "schema is null": [TOOL, odd(inputSchema=None)],
    "array schema": [TOOL, odd(inputSchema={"type": "array"})],
    "bad schema": [TOOL, odd(inputSchema=OBJECT | {"properties": {"a": {"type": 7}}})],
    "deep schema": [TOOL, odd(inputSchema=DEEP)],
    "schema bomb": [TOOL, odd(inputSchema=OBJECT | {"$ref": "#/$defs/a0", "$defs": BOMB})],
    "schema loop": [TOOL, odd(inputSchema=OBJECT | {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})],
    "schema elsewhere": [TOOL, odd(inputSchema=OBJECT | {"$ref": "http://127.0.0.1:9/"})],
    "huge schema": [TOOL, odd(inputSchema=OBJECT | {"description": "x" * 1_000_000})],
    "hidden in schema": [TOOL, odd(inputSchema=OBJECT | {"description": "a\U000e0041b"})],
    "bad output schema": [TOOL | {"outputSchema": 5}],
    "description is no text": [TOOL, odd(description=["x"])],
    "odd annotations": [TOOL | {"annotations": "readOnly"}],
    "entries are no tools": [None, 5, [], {}, {"name": 5}, TOOL],
    "odd names": [TOOL | {"name": "a b/c"}, TOOL | {"name": "x" * 200}, TOOL | {"name": "a_b_c"}],
    "thousands": [TOOL | {"name": f"tool{n}"} for n in range(5000)],
    "long description": [TOOL | {"description": "x" * 100_000}],
    "heavy": [TOOL, *(odd(name=f"odd{n}", inputSchema=OBJECT | {"description": "x" * 60_000}) for n in range(100))],
}


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def flood(message: dict, seconds: float = 3600) -> None:
    text = json.dumps({"jsonrpc": "2.0"} | message) + "\n"
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sys.stdout.write(text * 1000)


def long_line(number: object, size: int) -> None:
    sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"content": [{{"type": "text", "text": "')
    piece = "x" * (1024 * 1024)
    for _ in range(size // len(piece)):
        sys.stdout.write(piece)
    sys.stdout.write('"}]}}\n')
    sys.stdout.flush()


def answer(request: dict) -> None:
    method, number = request.get("method"), request.get("id")
    if method == "server/discover" and HOW == "ignores what it does not know":
        return
    if method == "initialize":
        if HOW == "hangs":
            time.sleep(3600)
        version = request["params"]["protocolVersion"]
        if HOW == "answers with another version":
            version = "1999-01-01"
        info = {"name": "hostile", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        say({"id": number, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        if HOW == "list is no list":
            say({"id": number, "result": {"tools": "none"}})
        elif HOW == "endless pages":
            say({"id": number, "result": {"tools": [TOOL], "nextCursor": str(time.monotonic_ns())}})
        elif HOW.startswith("list of "):
            with Path(HOW.removeprefix("list of ")).open() as file:
                say({"id": number, "result": {"tools": json.load(file)}})
        else:
            say({"id": number, "result": {"tools": LISTS.get(HOW, [TOOL])}})
    elif method == "tools/call":
        call(number)
    elif number is not None:
        say({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


def call(number: object) -> None:
    if HOW == "notification flood":
        flood({"method": "notifications/tools/list_changed"})
    if HOW == "log flood":
        flood({"method": "notifications/message", "params": {"level": "info", "data": "x" * 200}})
    if HOW == "request flood":
        flood({"method": "ping", "id": "same"})
    if HOW == "progress flood":
        flood({"method": "notifications/progress", "params": {"progressToken": number, "progress": 1}})
    if HOW == "a gigabyte":
        long_line(number, SIZE)
        return
    if HOW == "a gigabyte without end":
        sys.stdout.write("x" * SIZE)
        sys.stdout.flush()
        return
    if HOW == "empty lists":
        lists = "[" + "[]," * 2_500_000 + "[]]"
        sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"content": [], "more": {lists}}}}}\n')
        sys.stdout.flush()
        return
    if HOW == "drips":
        while True:
            sys.stdout.write("x")
            sys.stdout.flush()
            time.sleep(0.05)
    if HOW == "wrong ids":
        for other in (None, "x", -1, 10**30, number + 1000, [number]):
            say({"id": other, "result": {"content": [{"type": "text", "text": "not yours"}]}})
        return
    if HOW == "closes its output":
        os.close(1)
        time.sleep(3600)
    if HOW == "crashes":
        os._exit(1)
    if HOW == "never answers":
        return
    if HOW == "content is no list":
        say({"id": number, "result": {"content": 5}})
        return
    if HOW == "changes":
        LISTS["changes"] = [TOOL, TOOL | {"name": "second"}]
        say({"method": "notifications/tools/list_changed"})
    if HOW in STRUCTURED:
        content = [{"type": "text", "text": "in words"}] if HOW == "structured and in words" else []
        say({"id": number, "result": {"content": content, "structuredContent": STRUCTURED[HOW]}})
        return
    if HOW.startswith("list of "):
        say({"method": "notifications/tools/list_changed"})
    text = "x" * (3 * 1024 * 1024) if HOW == "huge" else f"pid {os.getpid()}, started at {STARTED}"
    say({"id": number, "result": {"content": [{"type": "text", "text": text}], "isError": HOW == "says error"}})


if HOW == "garbage":
    sys.stdout.write("Welcome!\n\x00\xff{not json}\n[1,2]\n" + "{" * 1000 + "\n")
if HOW == "flood":
    for _ in range(40):
        sys.stdout.write("x" * (1024 * 1024))
    sys.stdout.write("\n")
if HOW == "children" and os.fork() == 0:
    time.sleep(3600)
if HOW == "hides" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
if HOW in {"deaf", "hides"}:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if HOW == "dies at once":
    sys.stderr.write("cannot find my settings\n")
    sys.exit(3)
for line in sys.stdin:
    answer(json.loads(line))
if HOW in {"deaf", "children", "hides"}:
    time.sleep(3600)
