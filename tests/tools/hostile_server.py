"""An MCP server over stdio, written by hand, that misbehaves in the way its argument names."""

import json
import os
import sys
import time

HOW = sys.argv[1]
TOOL = {"name": "echo", "description": "Says it back.", "inputSchema": {"type": "object"}}
LISTS = {
    "duplicates": [TOOL, TOOL | {"description": "Another."}],
    "no schema": [TOOL | {"name": "odd", "inputSchema": {}}],
    "array schema": [TOOL, TOOL | {"name": "odd", "inputSchema": {"type": "array"}}],
    "bad schema": [TOOL, TOOL | {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"type": 7}}}}],
    "odd names": [TOOL | {"name": "a b/c"}, TOOL | {"name": "x" * 200}, TOOL | {"name": "a_b_c"}],
    "thousands": [TOOL | {"name": f"tool{n}"} for n in range(3000)],
    "long description": [TOOL | {"description": "x" * 100_000}],
}


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def answer(request: dict) -> None:
    method, number = request.get("method"), request.get("id")
    if method == "initialize":
        if HOW == "hangs":
            time.sleep(3600)
        version = request["params"]["protocolVersion"]
        info = {"name": "hostile", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        say({"id": number, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        if HOW == "list is no list":
            say({"id": number, "result": {"tools": "none"}})
        else:
            say({"id": number, "result": {"tools": LISTS.get(HOW, [TOOL])}})
    elif method == "tools/call":
        call(number)
    elif number is not None:
        say({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


def call(number: object) -> None:
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
    text = "x" * (3 * 1024 * 1024) if HOW == "huge" else f"pid {os.getpid()}"
    say({"id": number, "result": {"content": [{"type": "text", "text": text}], "isError": HOW == "says error"}})


if HOW == "garbage":
    sys.stdout.write("Welcome!\n\x00\xff{not json}\n[1,2]\n" + "{" * 1000 + "\n")
if HOW == "flood":
    for _ in range(40):
        sys.stdout.write("x" * (1024 * 1024))
    sys.stdout.write("\n")
if HOW == "children" and os.fork() == 0:
    time.sleep(3600)
if HOW == "deaf":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if HOW == "dies at once":
    sys.stderr.write("cannot find my settings\n")
    sys.exit(3)
for line in sys.stdin:
    answer(json.loads(line))
if HOW in {"deaf", "children"}:
    time.sleep(3600)
