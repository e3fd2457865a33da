"""An MCP server whose tools write down each use of them, so that effects can be counted outside any journal.

Standard library only, so that it starts at once. `python tally.py EFFECTS DAEMON [WHEN N]` appends each effect to
the file EFFECTS. With WHEN (`before_effect` or `after_effect`) it kills the process named in the file DAEMON at the
N-th effect, in the midst of the call.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"
DONE = ".killed"
"""The ending of a file beside EFFECTS: while it is there, nobody is killed."""

KEY = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"], "additionalProperties": False}
TOOLS = [
    {"name": "look", "description": "Looks.", "inputSchema": KEY, "annotations": {"readOnlyHint": True}},
    {"name": "put", "description": "Puts.", "inputSchema": KEY, "annotations": {"idempotentHint": True}},
    {"name": "pay", "description": "Pays.", "inputSchema": KEY},
    {"name": "hang", "description": "Begins and never ends.", "inputSchema": KEY},
]


def serve(effects: Path, daemon: Path, when: str, at: int) -> None:
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
            case "tools/call":
                use(request["params"], effects, daemon, when, at)
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


def use(params: dict[str, Any], effects: Path, daemon: Path, when: str, at: int) -> None:
    """The effect: one line, with the key that the harness gave the call."""
    number = len(effects.read_bytes().splitlines()) + 1 if effects.exists() else 1
    if when == "before_effect" and number == at:
        kill(daemon, effects)
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
        kill(daemon, effects)


def kill(daemon: Path, effects: Path) -> None:
    """Kills the daemon that started this server, and with it, soon, this process; in a trial only once."""
    done = effects.with_suffix(DONE)
    if done.exists():
        return
    done.touch()
    os.kill(json.loads(daemon.read_text(encoding="utf-8"))["pid"], signal.SIGKILL)


def say(message: dict[str, Any]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, where, whom, *point = sys.argv
    serve(Path(where), Path(whom), *((point[0], int(point[1])) if point else ("", 0)))
