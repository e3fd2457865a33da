"""F2: an MCP server is told the call's key, the same at a rerun, so that it can do the thing once."""

import json
import sys
from pathlib import Path

import anyio

from harnessd.home.tools_file import StdioServer
from harnessd.tools.pipeline import Done
from harnessd.tools.servers import open_servers
from tests.tools.a_session import a_call, a_turn, run
from tests.tools.surroundings import surroundings

SERVER = """
import json, sys
schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
tool = {"name": "add", "description": "Adds.", "inputSchema": schema, "annotations": {"idempotentHint": True}}
for line in sys.stdin:
    request = json.loads(line)
    match request["method"]:
        case "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "s", "version": "1"}}
        case "tools/list":
            result = {"tools": [tool]}
        case "tools/call":
            with open(sys.argv[1], "a") as told:
                told.write(json.dumps(request["params"].get("_meta")) + "\\n")
            if len(sys.argv) > 2:
                open(sys.argv[2], "a").close()
                continue
            result = {"content": [{"type": "text", "text": "added"}]}
        case _:
            result = None
    if "id" not in request:
        continue
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\\n")
    sys.stdout.flush()
"""


async def test_f2_a_server_is_told_the_same_key_at_a_rerun_and_another_for_another_call(tmp_path: Path) -> None:
    work = tmp_path / "work"  # all that a server in the sandbox of its home can write there
    work.mkdir()
    script, told, hung = tmp_path / "server.py", work / "told", work / "hung"
    script.write_text(SERVER)
    memory = a_turn(*(a_call("mcp__s__add", '{"n": 7}', f"call_{number}") for number in range(2)))
    for arguments in ((str(told), str(hung)), (str(told),)):  # the first one never answers
        async with open_servers(surroundings(tmp_path), logs=tmp_path / "logs") as servers:
            servers.configure({"s": StdioServer(command=sys.executable, args=(str(script), *arguments))})
            await servers.ready(30)
            async with anyio.create_task_group() as group:

                async def go(tools: tuple[object, ...] = servers.tools()) -> None:
                    assert await run(memory, *tools) == Done()  # type: ignore[arg-type]
                    group.cancel_scope.cancel()

                group.start_soon(go)
                with anyio.fail_after(20):
                    while not hung.exists() and len(arguments) > 1:
                        await anyio.sleep(0.01)
                    if len(arguments) > 1:
                        group.cancel_scope.cancel()  # as if the process ended while the call was in flight
    assert memory.statuses() == ["ok", "ok"]
    keys = [json.loads(line)["harnessd/idempotencyKey"] for line in told.read_text().splitlines()]
    created = memory.of("tool.call.created")
    first, second = (event.idempotency_key for event in created)  # type: ignore[attr-defined]
    assert keys == [first, first, second]
    assert first != second
    reruns = [event.rerun for event in memory.of("tool.call.running")]  # type: ignore[attr-defined]
    assert reruns == [False, True, False]
