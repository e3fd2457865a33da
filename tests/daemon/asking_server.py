"""An MCP server of 2026, written by hand since that starts at once: its tools ask a person first, then append a line.

Its state, which it gives out with each question, holds only for its own process unless it is called with --lasting.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

FILE, LASTING = Path(sys.argv[1]), "--lasting" in sys.argv
CUPS = {"cups": {"type": "integer", "minimum": 1, "maximum": 9}, "sugar": {"type": "boolean", "default": False}}
MILK = {"milk": {"type": "string"}}
ROUNDS: dict[str, list[dict[str, tuple[str, Any]]]] = {
    "brew": [{"size": ("How much?", CUPS)}],
    "latte": [{"size": ("How much?", CUPS)}, {"milk": ("Which milk?", MILK)}],
    "set_table": [{"size": ("How much?", CUPS), "spoon": ("Which spoon?", MILK)}],
    "poison": [{"size": ("How much?", CUPS)}],
    "endless": [{"size": ("How much?", CUPS)}] * 100,
    "later": [{}, {}],
    "peek": [{"size": ("How much?", CUPS)}],
    "sample": [],
}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def done(number: int, text: str, error: bool = False) -> None:
    content = [{"type": "text", "text": text}]
    say(id=number, result={"resultType": "complete", "content": content, "isError": error})


def form(message: str, properties: Any) -> dict[str, Any]:
    required = [name for name, about in properties.items() if "default" not in about]
    schema = {"type": "object", "properties": properties, "required": required}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def call(number: int, params: dict[str, Any]) -> None:
    tool, sent = params["name"], params.get("requestState")
    if tool == "sample":
        asked = {"messages": [], "maxTokens": 9}
        requests = {"s": {"method": "sampling/createMessage", "params": asked}}
        return say(id=number, result={"resultType": "input_required", "inputRequests": requests})
    state: dict[str, Any] = json.loads(sent) if sent else {"maker": maker(), "given": {}}
    if state["maker"] != maker():
        error = {
            "code": -32602,
            "message": "Invalid or expired requestState",
            "data": {"reason": "invalid_request_state"},
        }
        return say(id=number, error=error)
    responses = params.get("inputResponses") or {}
    for key, answer in responses.items():
        if answer["action"] != "accept":
            return done(number, f"{answer['action']} of {key}", error=True)
        state["given"] |= answer["content"]
    at = state["round"] = state.get("round", 0) + bool(sent)
    if at < len(ROUNDS[tool]):
        asks = {key: form(*about) for key, about in ROUNDS[tool][at].items()}
        result = {"resultType": "input_required", "requestState": json.dumps(state)}
        return say(id=number, result=result | ({"inputRequests": asks} if asks else {}))
    with FILE.open("a", encoding="utf-8") as file:
        file.write(" ".join([tool, *map(str, state["given"].values())]) + "\n")
    if tool == "poison":
        os._exit(1)
    return done(number, f"made with {json.dumps(state['given'])}")


def maker() -> int:
    return 0 if LASTING else os.getpid()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "server/discover":
            able = message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            if "elicitation" not in able or "sampling" in able or "roots" in able:
                sys.exit(3)
            result = {"capabilities": {"tools": {}}, "supportedVersions": ["2026-07-28"]}
            info = {"io.modelcontextprotocol/serverInfo": {"name": "asking", "version": "1"}}
            cached = {"cacheScope": "private", "ttlMs": 0, "resultType": "complete"}
            say(id=number, result=result | cached | {"_meta": info})
        elif method == "tools/list":
            hints = {"peek": {"readOnlyHint": True}}
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, "annotations": hints.get(name, {})} for name in ROUNDS
            ]
            say(id=number, result={"resultType": "complete", "cacheScope": "private", "ttlMs": 0, "tools": tools})
        elif method == "tools/call":
            call(number, message["params"])
        elif number is not None:
            say(id=number, error={"code": -32601, "message": f"no method {method}"})


if __name__ == "__main__":
    main()
