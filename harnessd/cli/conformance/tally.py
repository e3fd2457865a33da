"""An MCP server whose tools write down each use of them, so that effects can be counted outside any journal.

Standard library only, so that it starts at once. `python tally.py EFFECTS [WHEN N]` appends each effect to the file
EFFECTS. With WHEN (`before_effect` or `after_effect`) it has the daemon killed at the N-th effect, in the midst of the
call: it runs in a sandbox, from which no daemon can be reached, so it says that it is there and waits for its end.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"
REACHED = ".reached"
"""The ending of a file beside EFFECTS: made when the point is reached. While it is there, no other is waited at."""

KEY = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"], "additionalProperties": False}
FORM = {"type": "object", "properties": {"much": {"type": "integer", "default": 1}}}
TOOLS = [
    {"name": "look", "description": "Looks.", "inputSchema": KEY, "annotations": {"readOnlyHint": True}},
    {"name": "put", "description": "Puts.", "inputSchema": KEY, "annotations": {"idempotentHint": True}},
    {"name": "pay", "description": "Pays.", "inputSchema": KEY},
    {"name": "ask", "description": "Asks, then puts.", "inputSchema": KEY, "annotations": {"idempotentHint": True}},
    {"name": "hang", "description": "Begins and never ends.", "inputSchema": KEY},
]


def serve(effects: Path, when: str, at: int) -> None:
    """Answers requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result: Any
        match request["method"]:
            case "initialize":
                server = {"name": "tally", "version": "1"}
                result = {"protocolVersion": PROTOCOL, "capabilities": {"tools": {}}, "serverInfo": server}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call" if request["params"]["name"] == "ask" and not agreed(request["params"]):
                result = {"content": [{"type": "text", "text": "declined"}], "isError": True}
            case "tools/call":
                use(request["params"], effects, when, at)
                if request["params"]["name"] == "hang":
                    continue
                result = {"content": [{"type": "text", "text": "done"}]}
            case "ping":
                result = {}
            case _:
                error = {"code": -32601, "message": "no such method"}
                say({"jsonrpc": "2.0", "id": request["id"], "error": error})
                continue
        say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def use(params: dict[str, Any], effects: Path, when: str, at: int) -> None:
    """The effect: one line, with the key that the harness gave the call."""
    number = len(effects.read_bytes().splitlines()) + 1 if effects.exists() else 1
    if when == "before_effect" and number == at:
        be_killed(effects)
    meta = params.get("_meta") or {}
    told = {
        "tool": params["name"],
        "key": params.get("arguments", {}).get("key", ""),
        "call": str(meta.get("harnessd/idempotencyKey", "")),
        "pid": os.getpid(),
    }
    with effects.open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")
    if when == "after_effect" and number == at:
        be_killed(effects)


def agreed(params: dict[str, Any]) -> bool:
    """Asks the person behind the call, and waits for the answer."""
    form = {"message": f"How much of {params['arguments']['key']}?", "requestedSchema": FORM}
    say({"jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": form})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == "question":
            return bool(answer.get("result", {}).get("action") == "accept")
    return False


def be_killed(effects: Path) -> None:
    """Waits for the death of the daemon that started this server, and so for its own; in a trial only once."""
    reached = effects.with_suffix(REACHED)
    if reached.exists():
        return
    reached.touch()
    while True:
        signal.pause()


def say(message: dict[str, Any]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, where, *point = sys.argv
    serve(Path(where), *((point[0], int(point[1])) if point else ("", 0)))
