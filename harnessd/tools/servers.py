"""Which MCP servers does a home have, how are they, and which tools do they offer?

One task owns each connection for its whole life. Connections stay open between runs; a change of tools.json
restarts only the servers whose configuration changed. A server that is slow, broken or hostile loses its own tools
and nothing else.
"""

import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.message import JsonObject, Origin
from harnessd.facts.run import Failure
from harnessd.home.expand import MissingVariable
from harnessd.home.hidden import strip_hidden
from harnessd.home.mcp_names import mcp_tool_name
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.arguments import BadSchema, compile_schema
from harnessd.tools.helper_log import HelperLog
from harnessd.tools.mcp import Era, Link, ListedTool, Listing, connect, failure_of
from harnessd.tools.tool import Outcome, Tool, ToolContext, failed

Server = StdioServer | RemoteServer

START_SECONDS = 20.0
"""How long a server may take to connect and list its tools, unless its own `timeout` is shorter."""

CALL_SECONDS = 60.0
DESCRIPTION_AT_MOST = 4000
BACKOFF_AT_MOST = 60.0
CLOSE_SECONDS = 8.0


@dataclass(frozen=True)
class _Connecting:
    """Being connected, or about to be."""


@dataclass(frozen=True)
class _Connected:
    link: Link
    listing: Listing
    tools: tuple[Tool, ...]
    event: McpConnected
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Failed:
    event: McpFailed
    retry_at: float


@asynccontextmanager
async def open_servers(
    *, folder: Path, logs: Path, redact: Callable[[bytes], bytes] = lambda text: text
) -> AsyncIterator["Servers"]:
    """The servers of one home while the block runs; at its end every connection is closed and every process gone.

    `folder` is where stdio servers start, `logs` takes one file of error output per server,
    which `redact` keeps free of secrets.
    """
    async with anyio.create_task_group() as group:
        servers = Servers(group, folder, logs, redact)
        try:
            yield servers
        finally:
            servers.close()
            group.cancel_scope.deadline = anyio.current_time() + CLOSE_SECONDS


class Servers:
    """The connections of one home. Made by `open_servers`."""

    def __init__(self, group: TaskGroup, folder: Path, logs: Path, redact: Callable[[bytes], bytes]) -> None:
        self._group = group
        self._folder = folder
        self._logs = logs
        self._redact = redact
        self._connections: dict[str, _Connection] = {}
        self._missing: dict[str, McpFailed] = {}
        self._tools: tuple[tuple[Tool, ...], ...] = ()
        self._flat: tuple[Tool, ...] = ()

    def configure(self, servers: Mapping[str, Server | MissingVariable]) -> None:
        """Makes the connections fit: starts what is new, ends what is gone, restarts what changed, keeps the rest.

        Returns at once; connecting goes on in the background. A server whose variable is not set counts as failed.
        """
        wanted = {name: server for name, server in servers.items() if not isinstance(server, MissingVariable)}
        wanted = {name: server for name, server in wanted.items() if server.enabled}
        self._missing = {
            name: _failed(name, "unset_variable", f"${{{server.name}}} in {server.field} is not set")
            for name, server in servers.items()
            if isinstance(server, MissingVariable)
        }
        for name, connection in list(self._connections.items()):
            if wanted.get(name) != connection.server:
                connection.close()
                del self._connections[name]
        for name, server in wanted.items():
            if name not in self._connections:
                log = HelperLog(self._logs / f"{_file_name(name)}.log", self._redact)
                connection = _Connection(name, server, self._folder, log)
                self._connections[name] = connection
                self._group.start_soon(connection.own)
            else:
                self._connections[name].wake()

    def reconnect(self) -> None:
        """Tries those that failed again at once, and asks the others anew what they offer."""
        for connection in self._connections.values():
            connection.renew()

    async def ready(self, seconds: float) -> None:
        """Waits until every server is connected or has failed, at most so many seconds.

        One that has not managed to connect before is not waited for again; its tools come when they come.
        """
        with anyio.move_on_after(seconds):
            for connection in list(self._connections.values()):
                if connection.promising:
                    await connection.settled()

    def tools(self) -> tuple[Tool, ...]:
        """The tools of all connected servers, by name; the same object as long as none of them changed."""
        states = [connection.state for _, connection in sorted(self._connections.items())]
        offered = tuple(state.tools for state in states if isinstance(state, _Connected))
        if len(offered) != len(self._tools) or any(a is not b for a, b in zip(offered, self._tools, strict=True)):
            self._tools = offered
            self._flat = tuple(sorted((tool for tools in offered for tool in tools), key=lambda tool: tool.name))
        return self._flat

    def status(self) -> dict[str, McpConnected | McpFailed]:
        """How every configured server is at this moment, as the fact that says so."""
        now: dict[str, McpConnected | McpFailed] = dict(self._missing)
        for name, connection in sorted(self._connections.items()):
            state = connection.state
            now[name] = _slow(name) if isinstance(state, _Connecting) else state.event
        return now

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What of a server's tools was left out or shortened, and why: pairs of server and sentence."""
        return tuple(
            (name, note)
            for name, connection in sorted(self._connections.items())
            if isinstance(connection.state, _Connected)
            for note in connection.state.notes
        )

    def close(self) -> None:
        """Ends every connection; `open_servers` waits for that."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}


class _Connection:
    """One server, owned by the task that runs `own`."""

    def __init__(self, name: str, server: Server, folder: Path, log: HelperLog) -> None:
        self.name = name
        self.server = server
        self.promising = True
        self.state: _Connecting | _Connected | _Failed = _Connecting()
        self._folder = folder
        self._log = log
        self._era: Era = "auto"
        self._failures = 0
        self._closing = False
        self._wake = anyio.Event()
        self._settled = anyio.Event()
        self._over = anyio.Event()
        self._relist = anyio.Event()
        self._scope: anyio.CancelScope | None = None

    async def own(self) -> None:
        """Connects, keeps the connection, connects anew when it is wanted; until it is closed."""
        while not self._closing:
            self._over, self._wake, self._relist = anyio.Event(), anyio.Event(), anyio.Event()
            await self._once()
            if not self._wake.is_set():
                self._settled.set()
            await self._wake.wait()

    def wake(self) -> None:
        """Wants the connection: one that failed is tried again, unless it failed a moment ago."""
        if isinstance(self.state, _Failed) and time.monotonic() >= self.state.retry_at:
            self._settled = anyio.Event()
            self.state = _Connecting()
            self._wake.set()

    def renew(self) -> None:
        """Connects now if it had failed, however often; else lists the tools again."""
        if isinstance(self.state, _Failed):
            self.state, self._failures = replace(self.state, retry_at=0.0), 0
            self.wake()
        else:
            self._relist.set()

    def close(self) -> None:
        """Ends it; its task finishes soon after."""
        self._closing = True
        self._over.set()
        self._wake.set()
        if self._scope is not None and not isinstance(self.state, _Connected):
            self._scope.cancel()

    async def settled(self) -> None:
        """Returns once it is connected or has failed."""
        await self._settled.wait()

    async def call(self, name: str, context: ToolContext, arguments: JsonObject, seconds: float) -> Outcome:
        """Calls one of the server's tools; connects anew first if the connection broke."""
        origin = self.origin
        self.wake()
        with anyio.move_on_after(seconds):
            await self.settled()
        if not isinstance(self.state, _Connected):
            reason = self.state.event.failure.message if isinstance(self.state, _Failed) else "it is still connecting"
            return failed("not_connected", f"The server {self.name} is not connected: {reason}", origin=origin)
        try:
            answer = await self.state.link.call(
                name, arguments, seconds=seconds, key=context.idempotency_key, tell_progress=context.delta
            )
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            return self._call_failed(failure)
        if not answer.is_error:
            self._failures = 0
            return Outcome("ok", answer.parts, changed=True, origin=origin, files=answer.files)
        failure = Failure(kind="tool_error", message="the tool reported an error")
        return Outcome("error", answer.parts, origin=origin, failure=failure, files=answer.files)

    @property
    def origin(self) -> Origin:
        """Local only if tools.json says so."""
        return "local" if self.server.trust == "local" else "remote"

    def _call_failed(self, failure: Failure) -> Outcome:
        text = f"{self.name}: {failure.message}"
        if failure.kind in {"disconnected", "unreachable"}:
            self._over.set()
            text = f"The server {self.name} went away during the call, which may have taken effect; check first."
            self._fail(failure)
        if failure.kind == "timeout":
            return failed("timeout", f"{text} It may have taken effect.", status="timeout", origin=self.origin)
        return failed(failure.kind, text, origin=self.origin)

    async def _once(self) -> None:
        """One connection from its beginning to its end. Whatever goes wrong becomes the state."""
        began = time.monotonic()
        limit = min(self.server.timeout or START_SECONDS, START_SECONDS)
        with anyio.CancelScope(deadline=anyio.current_time() + limit) as scope:
            self._scope = scope
            try:
                async with connect(
                    self.server, cwd=self._folder, log=self._log, era=self._era, tools_changed=self._tools_changed
                ) as link:
                    self._era = link.era
                    await self._take(link, began)
                    scope.deadline = math.inf
                    self._settled.set()
                    await self._keep(link, began)
                    scope.deadline = anyio.current_time() + CLOSE_SECONDS
            except Exception as error:  # noqa: BLE001 - the library raises whatever a transport or a server brings about
                self._ended(failure_of(error) or Failure(kind=type(error).__name__, message=str(error)[:500]))
        if scope.cancelled_caught and isinstance(self.state, _Connecting):
            self._ended(Failure(kind="timeout", message=f"it did not connect within {limit:g} s"))
        self._ended(Failure(kind="disconnected", message="the connection ended"))

    async def _keep(self, link: Link, began: float) -> None:
        """Until the connection is over; takes up new tools when the server says that they changed."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await link.ended.wait()
                self._over.set()

            async def listen() -> None:
                try:
                    await link.watch(self._tools_changed)
                except Exception as error:
                    # Without the news the tools stay as they are; whether the connection is over is for others to say.
                    if failure_of(error) is None and not isinstance(error, TimeoutError):
                        raise

            async def relist() -> None:
                while True:
                    await self._relist.wait()
                    self._relist = anyio.Event()
                    await self._take(link, began)

            group.start_soon(watch)
            group.start_soon(listen)
            group.start_soon(relist)
            await self._over.wait()
            group.cancel_scope.cancel()

    def _tools_changed(self) -> None:
        self._relist.set()

    async def _take(self, link: Link, began: float) -> None:
        """The server's tools as ours. One that cannot be used is left out and named; the others stand."""
        listing = await link.tools()
        if isinstance(self.state, _Connected) and self.state.listing == listing:
            return
        notes = [f"it offers more than {len(listing.tools)} tools; the rest is left out"] if listing.cut else []
        wanted = None if self.server.tools is None else set(self.server.tools)
        offered = [tool for tool in listing.tools if wanted is None or tool.name in wanted]
        bad = await anyio.to_thread.run_sync(_bad_schemas, offered)
        tools: dict[str, Tool] = {}
        seen: set[str] = set()
        for tool in offered:
            if tool.name in seen:
                notes.append(f"two tools are named {tool.name!r}; the first one stands")
            elif tool.name in bad:
                notes.append(f"the tool {tool.name!r} is left out: {bad[tool.name]}")
            else:
                name = mcp_tool_name(self.name, tool.name, tuple(tools))
                tools[name] = self._tool(name, tool)
            seen.add(tool.name)
        if wanted is not None and wanted - seen:
            notes.append(f"it does not offer {', '.join(sorted(wanted - seen))}")
        event = McpConnected(
            server=self.name,
            protocol=link.protocol,
            tools=tuple(sorted(tools)),
            duration_ms=round((time.monotonic() - began) * 1000),
        )
        self.state = _Connected(link, listing, tuple(tools.values()), event, tuple(notes))
        self.promising = True

    def _tool(self, name: str, listed: ListedTool) -> Tool:
        seconds = self.server.timeout or CALL_SECONDS

        async def run(context: ToolContext, arguments: JsonObject) -> Outcome:
            return await self.call(listed.name, context, arguments, seconds)

        return Tool(
            name=name,
            own_name=listed.name,
            kind="mcp",
            description=_short(listed.description),
            input_schema=listed.input_schema,
            run=run,
            effect="read" if listed.read_only else "write",
            idempotent=listed.idempotent,
            origin=self.origin,
            # The call's own timeout comes first, so that its message says more.
            timeout=seconds + 0.5,
            server=self.name,
        )

    def _ended(self, failure: Failure) -> None:
        """The connection is over; unless that is known already, or it is wanted anew by now."""
        if not isinstance(self.state, _Failed) and not self._wake.is_set():
            self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        self.promising = isinstance(self.state, _Connected)
        delay = min(BACKOFF_AT_MOST, 2.0 ** (self._failures - 1)) if self._failures else 0.0
        self._failures += 1
        self.state = _Failed(McpFailed(server=self.name, failure=failure), time.monotonic() + delay)


def _bad_schemas(tools: list[ListedTool]) -> dict[str, str]:
    compiled = ((tool.name, compile_schema(tool.input_schema)) for tool in tools)
    return {name: result.reason for name, result in compiled if isinstance(result, BadSchema)}


def _slow(server: str) -> McpFailed:
    return _failed(server, "slow", "it is still connecting; its tools are not there yet")


def _failed(server: str, kind: str, message: str) -> McpFailed:
    return McpFailed(server=server, failure=Failure(kind=kind, message=message))


def _short(description: str) -> str:
    """A description without characters that only a model sees, and of bounded length."""
    description = strip_hidden(description)
    if len(description) <= DESCRIPTION_AT_MOST:
        return description
    return f"{description[:DESCRIPTION_AT_MOST]} [… {len(description) - DESCRIPTION_AT_MOST:,} characters left out]"


def _file_name(server: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", server)[:80] or "server"
