"""How is an MCP server spoken to that is a process: a message a line, bounded, and gone when it is let go."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream

from harnessd.home.tools_file import StdioServer
from harnessd.sandbox.bubblewrap import Sandbox, Started, Unavailable
from harnessd.tools.helper_log import HelperLog
from harnessd.tools.lines import LINE_AT_MOST, TooLong, lines

PARTS_AT_MOST = 300_000
"""Lists and objects of one message: eight megabytes of empty lists would be hundreds of them in memory."""

CLOSE_SECONDS = 1.5
"""How long a server may take to end by itself once its input is closed."""

LAST_WORDS_SECONDS = 0.5
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*[,}]')


class CannotStart(Exception):
    """The command does not exist or cannot be run; the message says which and why, `hint` what to do."""

    def __init__(self, unavailable: Unavailable) -> None:
        super().__init__(unavailable.message)
        self.hint = unavailable.hint


@asynccontextmanager
async def stdio(server: StdioServer, sandbox: Sandbox, log: HelperLog, ended: anyio.Event) -> AsyncIterator[Any]:
    """The two streams that the MCP library wants, to a process that lives as long as the block.

    It runs in `sandbox` with its own environment, in the home's folder or the one that it names there. `log` takes what
    it writes to stderr, `ended` is set when it closes its output. Raises `CannotStart`.
    """
    cwd = Path(await anyio.Path(sandbox.home, server.cwd or "").resolve())
    own = replace(sandbox, environment=server.env)
    to_session, from_server = anyio.create_memory_object_stream[Any](0)
    to_server, from_session = anyio.create_memory_object_stream[Any](0)

    async def hear(process: Started) -> None:
        with to_session:
            async for line in lines(process.output):
                message = _message(line)
                if message is None:
                    continue
                try:
                    await to_session.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    break
        ended.set()

    async def speak(process: Started) -> None:
        async for message in from_session:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await process.send(text.encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                to_session.close()
                ended.set()
                return

    command: Sequence[str] = (server.command, *server.args)
    with from_server, to_server, from_session, to_session:
        async with own.start(command, cwd=cwd, errors_apart=True) as process, anyio.create_task_group() as group:
            if isinstance(process, Unavailable):
                raise CannotStart(process)
            logged = anyio.Event()
            group.start_soon(_log, log, process.errors, logged)
            group.start_soon(hear, process)
            group.start_soon(speak, process)
            try:
                yield from_server, to_server
            finally:
                with anyio.CancelScope(shield=True):
                    await _let_go(process, logged)
                group.cancel_scope.cancel()


async def _log(log: HelperLog, errors: ByteReceiveStream | None, logged: anyio.Event) -> None:
    if errors is None:
        logged.set()
    else:
        await log.keep(errors, logged)


async def _let_go(process: Started, logged: anyio.Event) -> None:
    """Asks it to end, by the end of its input, and hears its last words; what is left then, the sandbox kills."""
    await process.close_input()
    with anyio.move_on_after(CLOSE_SECONDS):
        await process.wait()
        # Whoever left its group may hold the pipe open for ever.
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await logged.wait()


def _message(line: bytes | TooLong) -> Any | None:
    """The message in a line. What is none (a banner, garbage) is passed over; one that is too long is an error."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if isinstance(line, TooLong):
        return _too_large(line.head, line.tail, f"{line.size:,} bytes, more than the {LINE_AT_MOST:,} that are read")
    if not line.lstrip().startswith(b"{"):
        return None
    if line.count(b"{") + line.count(b"[") > PARTS_AT_MOST:
        return _too_large(line[:512], line[-512:], f"more than {PARTS_AT_MOST:,} lists and objects")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return _deep(line)


def _deep(line: bytes) -> Any | None:
    """An answer that is nested deeper than the library reads: one such tool is no reason to lose the others."""
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCResponse

    try:
        value = json.loads(line)
    except RecursionError:
        return _too_large(line[:512], line[-512:], "it is nested too deep")
    except ValueError:
        return None
    number, result = value.get("id"), value.get("result")
    if isinstance(number, int) and isinstance(result, dict):
        return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result=result))
    return None


def _too_large(head: bytes, tail: bytes, why: str) -> Any | None:
    """An error for the request that the message may have answered; None if that cannot be seen."""
    from mcp.shared.message import SessionMessage
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

    if not head.lstrip().startswith(b"{"):
        return None
    found = _ID.search(head) or next(reversed(list(_ID.finditer(tail))), None)
    if found is None:
        return None
    error = ErrorData(code=INTERNAL_ERROR, message=f"its answer is too large: {why}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
