"""The least MCP server over stdio: one tool that says a word. What a call of it costs is what client and pipe cost."""

import json
import sys

TOOL = {
    "name": "echo",
    "description": "Says a word.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}


def main() -> None:
    """Answers one request after another until its input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if (answer := answer_to(request)) is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
            sys.stdout.flush()


def answer_to(request: dict[str, object]) -> dict[str, object] | None:
    """None for what wants no answer."""
    if "id" not in request:
        return None
    match request.get("method"):
        case "initialize":
            info = {"name": "echo", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": "word"}]}}
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    main()
