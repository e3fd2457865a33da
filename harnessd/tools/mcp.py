"""How one MCP server is spoken to: connected, asked for its tools, called. The only module that imports `mcp`."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import anyio
import anyio.to_thread

from harnessd.facts.message import JsonObject, Part, TextPart
from harnessd.facts.run import Failure
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.artifact_produced import BYTES_AT_MOST
from harnessd.tools.helper_log import HelperLog
from harnessd.tools.processes import CannotStart, LineProcess, line_process
from harnessd.tools.tool import Produced
from harnessd.tools.trim import SHOWN_AT_MOST

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

PAGES_AT_MOST = 50
TOOLS_AT_MOST = 512
TEXT_AT_MOST = SHOWN_AT_MOST
"""Characters of a resource that are shown as text; a longer one is kept as a file."""

HTTP_SECONDS = 30.0

Era = Literal["auto", "legacy"]


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server describes it; the schema as it came."""

    name: str
    description: str
    input_schema: JsonObject
    read_only: bool
    idempotent: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers, and whether there was more than is taken."""

    tools: tuple[ListedTool, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's answer; `is_error` is the server's own word, `files` are pictures, sounds and the like."""

    parts: tuple[Part, ...]
    is_error: bool
    files: tuple[Produced, ...] = ()


class Link:
    """A live connection. Any task may call; the task that opened it ends it."""

    def __init__(self, client: "Client", ended: anyio.Event) -> None:
        self._client = client
        self.ended = ended

    @property
    def protocol(self) -> str:
        """The negotiated version."""
        return self._client.protocol_version

    @property
    def era(self) -> Era:
        """How to connect to this server the next time without trying first what it does not know."""
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        return "legacy" if self.protocol in HANDSHAKE_PROTOCOL_VERSIONS else "auto"

    async def tools(self) -> Listing:
        """The server's tools. Raises whatever `failure_of` understands."""
        tools: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(PAGES_AT_MOST):
            page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
            tools += map(_listed, page.tools)
            cursor = page.next_cursor
            if not cursor or len(tools) > TOOLS_AT_MOST:
                break
        return Listing(tuple(tools[:TOOLS_AT_MOST]), cut=len(tools) > TOOLS_AT_MOST or bool(cursor))

    async def watch(self, changed: Callable[[], None]) -> None:
        """Calls `changed` whenever the server says that its tools changed, as servers of 2026 do it.

        Older ones send a notification by themselves, which `connect` passes on. Ends where the server has no such news.
        """
        offered = self._client.server_capabilities.tools
        if self.era == "legacy" or offered is None or not offered.list_changed:
            return
        async with self._client.listen(tools_list_changed=True) as news:
            changed()  # what changed before this stood was told to nobody
            async for _ in news:
                changed()

    async def call(
        self, name: str, arguments: JsonObject, *, seconds: float, key: str, tell_progress: Callable[[str], None]
    ) -> Answered:
        """Calls a tool. `key` is the call's idempotency key. Raises whatever `failure_of` understands."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            tell_progress(f"{message or 'working'} ({progress:g}{f' of {total:g}' if total else ''})\n")

        meta: Any = {"harnessd/idempotencyKey": key}
        result = await self._client.call_tool(
            name,
            arguments,
            read_timeout_seconds=seconds,
            progress_callback=tell,
            meta=meta,
        )
        # Off the event loop: what servers send as base64 may be megabytes.
        heavy = any(block.type != "text" for block in result.content)
        parts, files = await anyio.to_thread.run_sync(_content, result) if heavy else _content(result)
        return Answered(parts, bool(result.is_error), files)


@asynccontextmanager
async def connect(
    server: StdioServer | RemoteServer, *, cwd: Path, log: HelperLog, era: Era, tools_changed: Callable[[], None]
) -> AsyncIterator[Link]:
    """A connection for as long as the block runs; enter and leave it in one task.

    `cwd` is where a stdio server starts unless its configuration says otherwise, `log` takes what it writes to
    stderr. `tools_changed` is called when the server says that its tools changed.
    """
    from mcp import Client
    from mcp_types import ServerNotification, ToolListChangedNotification

    from harnessd import __version__

    async def notified(message: "ServerNotification | Exception") -> None:
        if isinstance(message, ToolListChangedNotification):
            tools_changed()

    ended = anyio.Event()
    transport: Any = _stdio(server, cwd, log, ended) if isinstance(server, StdioServer) else _remote(server)
    client = Client(
        transport,
        mode=era,
        message_handler=notified,
        client_info=_implementation("harnessd", __version__),
        read_timeout_seconds=server.timeout or 60.0,
        cache=None,
    )
    async with client:
        yield Link(client, ended)


def failure_of(error: BaseException) -> Failure | None:
    """Why a connection or a call failed; None if the error is not of that kind (it is a fault of ours).

    Looks into exception groups, since the library raises them around what really happened.
    """
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
    from pydantic import ValidationError

    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, CannotStart):
            return Failure(kind="cannot_start", message=str(leaf))
        if isinstance(leaf, MCPError):
            code = leaf.error.code
            kind = {CONNECTION_CLOSED: "disconnected", REQUEST_TIMEOUT: "timeout"}.get(code, "refused")
            return Failure(kind=kind, message=str(leaf)[:1000])
        if isinstance(leaf, ValidationError):
            return Failure(kind="not_mcp", message=f"it answered something that is not MCP: {_first_error(leaf)}")
    for leaf in leaves:
        if type(leaf).__module__.split(".")[0] in {"httpx2", "httpcore2", "anyio", "mcp", "mcp_types"} or isinstance(
            leaf, OSError
        ):
            return Failure(kind="unreachable", message=f"{type(leaf).__name__}: {leaf}"[:1000])
    return None


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def _first_error(error: Any) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"[:500]


def _implementation(name: str, version: str) -> Any:
    from mcp_types import Implementation

    return Implementation(name=name, version=version)


@asynccontextmanager
async def _stdio(server: StdioServer, cwd: Path, log: HelperLog, ended: anyio.Event) -> AsyncIterator[Any]:
    """Our own process instead of the library's: bounded lines, a group that is killed, no orphan after a crash."""
    folder = cwd / server.cwd if server.cwd else cwd
    to_session, from_server = anyio.create_memory_object_stream[Any](0)
    to_server, from_session = anyio.create_memory_object_stream[Any](0)

    async def hear(process: LineProcess) -> None:
        with to_session:
            async for line in process.lines():
                message = _message(line)
                if message is None:
                    continue
                try:
                    await to_session.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    break
        ended.set()

    async def speak(process: LineProcess) -> None:
        async for message in from_session:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await process.send(text.encode())
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                to_session.close()
                ended.set()
                return

    with from_server, to_server, from_session, to_session:
        async with (
            line_process(server.command, server.args, env=server.env, cwd=folder, log=log) as process,
            anyio.create_task_group() as group,
        ):
            group.start_soon(hear, process)
            group.start_soon(speak, process)
            try:
                yield from_server, to_server
            finally:
                group.cancel_scope.cancel()


def _message(line: bytes | None) -> "Any | None":
    """The message in a line. What is no message (a banner, garbage, a line that never ends) is passed over."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if line is None or not line.strip().startswith(b"{"):
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


@asynccontextmanager
async def _remote(server: RemoteServer) -> AsyncIterator[Any]:
    if server.type == "sse":
        from mcp.client.sse import sse_client

        async with sse_client(server.url, headers=dict(server.headers)) as streams:
            yield streams
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    seconds = httpx2.Timeout(HTTP_SECONDS, read=max(HTTP_SECONDS, server.timeout or 0.0) + 300)
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=seconds) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


def _listed(tool: "types.Tool") -> ListedTool:
    hints = tool.annotations
    read_only = bool(hints and hints.read_only_hint)
    return ListedTool(
        name=tool.name,
        description=tool.description or (hints.title if hints and hints.title else "") or "",
        input_schema=tool.input_schema,
        read_only=read_only,
        idempotent=read_only or bool(hints and hints.idempotent_hint),
    )


def _content(result: "types.CallToolResult") -> tuple[tuple[Part, ...], tuple[Produced, ...]]:
    """The result's texts and its files; the structured form only where there is nothing else to show."""
    parts: list[Part] = []
    files: list[Produced] = []
    for number, block in enumerate(result.content, 1):
        taken = _taken(block, number)
        if isinstance(taken, Produced):
            files.append(replace(taken, at=len(parts)))
        else:
            parts.append(TextPart(text=taken))
    if result.structured_content is not None and not any(isinstance(p, TextPart) and p.text.strip() for p in parts):
        parts.append(TextPart(text=json.dumps(result.structured_content, ensure_ascii=False)))
    return tuple(parts), tuple(files)


def _taken(block: Any, number: int) -> str | Produced:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            ending = block.mime_type.partition(";")[0].rpartition("/")[2].partition("+")[0]
            return _file(block.data, f"{block.type}-{number}.{ending}", block.mime_type)
        case "resource_link":
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.name} at {block.uri}{about}]"
        case "resource":
            inner = block.resource
            name = unquote(str(inner.uri).partition("?")[0].rpartition("/")[2]) or f"resource-{number}"
            text = getattr(inner, "text", None)
            if text is None:
                return _file(inner.blob, name, inner.mime_type or "", title=str(inner.uri))
            if len(text) <= TEXT_AT_MOST:
                return f"[resource {inner.uri}]\n{text}"
            return Produced(name, text.encode(errors="replace"), inner.mime_type or "text/plain", title=str(inner.uri))
        case kind:
            return f"[{kind}; not shown]"


def _file(data: str, name: str, media_type: str, *, title: str = "") -> Produced | str:
    """The file in a block; a note if it is too large to be one (a third is what base64 adds), or is garbled."""
    if len(data) > BYTES_AT_MOST * 3 // 2:
        return f"[{name}, {len(data):,} characters; not kept: it is too large]"
    try:
        return Produced(name, b64decode("".join(data.split()), validate=True), media_type, title=title)
    except ValueError:
        return f"[{name}; not kept: it is no valid base64]"
