"""An MCP server of 2025, written by hand: it asks while its call waits, or has a page visited before it is called."""

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1])
FORM = {"type": "object", "properties": {"cups": {"type": "integer", "minimum": 1}}, "required": ["cups"]}
TOOLS: dict[str, dict[str, Any]] = {
    "pour": {},
    "peek": {"readOnlyHint": True},
    "pour_again": {"idempotentHint": True},
    "visit": {},
    "guess": {},
    "behind_a_page": {},
    "sample": {},
    "die_asking": {},
}
waiting: dict[str, tuple[int, str, int]] = {}
visited = False


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result(number: int, text: str, error: bool = False) -> None:
    say(id=number, result={"content": [{"type": "text", "text": text}], "isError": error})


def effect(text: str) -> None:
    with FILE.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def ask(number: int, tool: str, round: int = 1) -> None:  # noqa: A002
    request = f"ask-{number}-{round}"
    waiting[request] = (number, tool, round)
    params: dict[str, Any] = {"message": "How many cups?", "requestedSchema": FORM}
    if tool == "visit":
        params = {"mode": "url", "message": "Sign in", "url": "https://tea.example/in", "elicitationId": "e1"}
    method = "elicitation/create"
    if tool == "sample":
        method, params = "sampling/createMessage", {"messages": [], "maxTokens": 9}
    say(id=request, method=method, params=params)


def call(number: int, tool: str) -> None:
    global visited
    if tool == "behind_a_page" and not visited:
        visited = True
        page = {"mode": "url", "message": "Sign in", "url": "https://tea.example/in", "elicitationId": "e1"}
        say(id=number, error={"code": -32042, "message": "visit first", "data": {"elicitations": [page]}})
    elif tool == "behind_a_page":
        effect("entered")
        result(number, "entered")
    else:
        ask(number, tool)
        if tool == "die_asking":
            sys.exit(1)


def answered(request: str, message: dict[str, Any]) -> None:
    number, tool, round = waiting.pop(request)  # noqa: A001
    if "error" in message:
        return result(number, message["error"]["message"], error=True)
    answer = message["result"]
    if tool == "guess" and round < 3:
        return ask(number, tool, round + 1)
    if answer["action"] == "accept":
        effect(f"{tool} {answer.get('content', {}).get('cups')}")
    result(number, f"{answer['action']} {json.dumps(answer.get('content'))}")
    return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            able = "elicitation" in message["params"]["capabilities"]
            if not able or "sampling" in message["params"]["capabilities"]:
                sys.exit(3)
            info = {"name": "holding", "version": "1"}
            reply = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            say(id=number, result=reply)
        elif method == "tools/list":
            listed = [
                {"name": name, "inputSchema": {"type": "object"}, "annotations": hints} for name, hints in TOOLS.items()
            ]
            say(id=number, result={"tools": listed})
        elif method == "tools/call":
            call(number, message["params"]["name"])
        elif method is None and number in waiting:
            answered(number, message)
        elif number is not None and method is not None:
            say(id=number, error={"code": -32601, "message": f"no method {method}"})


if __name__ == "__main__":
    main()
