"""An MCP server over stdio, written by hand, whose one tool answers with the content that its argument names."""

import base64
import json
import sys

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(24)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: str, kind: str = "image/png") -> dict:
    return {"type": "image", "data": data, "mimeType": kind}


def resource(**inner: str) -> dict:
    return {"type": "resource", "resource": inner}


TEXT = {"type": "text", "text": "before"}
CONTENT = {
    "image": [TEXT, image(b64(PNG)), {"type": "text", "text": "after"}],
    "audio": [{"type": "audio", "data": b64(WAV), "mimeType": "audio/wav"}],
    "blob": [resource(uri="file:///reports/Q3%20plan.bin?x=1", mimeType="application/x-odd", blob=b64(b"\0\1\2" * 99))],
    "small text": [resource(uri="memo://one", text="a short memo")],
    "big text": [resource(uri="memo://two.md", mimeType="text/markdown", text="# Long\n" + "word " * 20_000)],
    "link": [{"type": "resource_link", "name": "tea", "uri": "https://tea.example", "description": "on tea"}],
    "garbled": [TEXT, image("not base64!")],
    "a page as a picture": [image(b64(b"<!doctype html><script>steal()</script>"))],
    "escaping": [resource(uri="file:///x/..%2f..%2f..%2fAGENTS.md", blob=b64(b"gotcha"))],
    "dots": [resource(uri="file:///..", blob=b64(b"gotcha"))],
    "no name": [resource(uri="memo:", blob=b64(b"gotcha"))],
    "odd type": [image(b64(PNG), "../../etc/passwd; x=\u202e")],
    "many": [image(b64(PNG + bytes([n]))) for n in range(20)],
    "error": [TEXT, image(b64(PNG))],
}


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method, number = request.get("method"), request.get("id")
        if method == "initialize":
            info = {"name": "producing", "version": "1"}
            version = request["params"]["protocolVersion"]
            say(
                {
                    "id": number,
                    "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            schema = {"type": "object", "properties": {"what": {"type": "string"}}}
            hints = {"readOnlyHint": True}
            say({"id": number, "result": {"tools": [{"name": "make", "inputSchema": schema, "annotations": hints}]}})
        elif method == "tools/call":
            what = request["params"]["arguments"]["what"]
            say({"id": number, "result": {"content": CONTENT[what], "isError": what == "error"}})
        elif number is not None:
            say({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


if __name__ == "__main__":
    main()
