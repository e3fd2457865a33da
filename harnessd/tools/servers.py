"""Which MCP servers does a home have, how are they, and which tools do they offer?

Connections stay open between runs; a change of tools.json restarts only the servers whose configuration changed.
A server that is slow, broken or hostile loses its own tools and nothing else.
"""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.run import Failure
from harnessd.home.expand import MissingVariable
from harnessd.tools.connection import CLOSE_SECONDS, Connected, Connecting, Connection, Surroundings
from harnessd.tools.helper_log import HelperLog
from harnessd.tools.mcp import Server
from harnessd.tools.offered import Offered
from harnessd.tools.tool import Tool


@asynccontextmanager
async def open_servers(
    surroundings: Surroundings, *, logs: Path, redact: Callable[[bytes], bytes] = lambda text: text
) -> AsyncIterator["Servers"]:
    """The servers of one home while the block runs; at its end every connection is closed and every process gone.

    `logs` takes one file of error output per server, which `redact` keeps free of secrets.
    """
    async with anyio.create_task_group() as group:
        servers = Servers(group, surroundings, logs, redact)
        try:
            yield servers
        finally:
            servers.close()
            group.cancel_scope.deadline = anyio.current_time() + CLOSE_SECONDS


class Servers:
    """The connections of one home. Made by `open_servers`."""

    def __init__(
        self, group: TaskGroup, surroundings: Surroundings, logs: Path, redact: Callable[[bytes], bytes]
    ) -> None:
        self._group = group
        self._around = surroundings
        self._logs = logs
        self._redact = redact
        self._connections: dict[str, Connection] = {}
        self._missing: dict[str, McpFailed] = {}
        self._stamp = self._accepted_stamp()
        self._tools: tuple[tuple[Tool, ...], ...] = ()
        self._flat: tuple[Tool, ...] = ()

    def configure(self, servers: Mapping[str, Server | MissingVariable]) -> None:
        """Makes the connections fit: starts what is new, ends what is gone, restarts what changed, keeps the rest.

        Returns at once; connecting goes on in the background. A server whose variable is not set counts as failed.
        """
        wanted = {name: server for name, server in servers.items() if not isinstance(server, MissingVariable)}
        wanted = {name: server for name, server in wanted.items() if server.enabled}
        self._missing = {
            name: _failed(
                name,
                "unset_variable",
                f"${{{server.name}}} in {server.field} is not set",
                f"put {server.name}=… into the file of secrets, or name an environment variable in allowEnv",
            )
            for name, server in servers.items()
            if isinstance(server, MissingVariable)
        }
        for name, connection in list(self._connections.items()):
            if name not in wanted or not connection.take_up(wanted[name]):
                connection.close()
                del self._connections[name]
        for name, server in wanted.items():
            if name not in self._connections:
                log = HelperLog(self._logs / f"{_file_name(name)}.log", self._redact)
                connection = Connection(name, server, self._around, log)
                self._connections[name] = connection
                self._group.start_soon(connection.own)
            else:
                self._connections[name].wake()
        self._review()

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
        offered = tuple(state.offered.tools for state in states if isinstance(state, Connected))
        if len(offered) != len(self._tools) or any(a is not b for a, b in zip(offered, self._tools, strict=True)):
            self._tools = offered
            named = {tool.name: tool for tools in offered for tool in tools}
            self._flat = tuple(tool for _, tool in sorted(named.items()))
        return self._flat

    def status(self) -> dict[str, McpConnected | McpFailed]:
        """How every configured server is at this moment, as the fact that says so."""
        now: dict[str, McpConnected | McpFailed] = dict(self._missing)
        for name, connection in sorted(self._connections.items()):
            state = connection.state
            now[name] = _slow(name) if isinstance(state, Connecting) else state.event
        return now

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What of a server's tools was left out or shortened, and why: pairs of server and sentence."""
        return tuple(
            (name, note)
            for name, connection in sorted(self._connections.items())
            if isinstance(connection.state, Connected)
            for note in connection.state.offered.notes
        )

    def unaccepted(self) -> tuple[tuple[str, Offered], ...]:
        """The connected servers with tools that the operator has not accepted: held ones, or new ones."""
        return tuple(
            (name, connection.state.offered)
            for name, connection in sorted(self._connections.items())
            if isinstance(connection.state, Connected)
            and (connection.state.offered.held or connection.state.offered.new)
        )

    def close(self) -> None:
        """Ends every connection; `open_servers` waits for that."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}

    def _review(self) -> None:
        """Has the connected ones looked at again if the operator accepted something since."""
        stamp = self._accepted_stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            for connection in self._connections.values():
                connection.review()

    def _accepted_stamp(self) -> tuple[int, ...]:
        return () if self._around.accepted is None else self._around.accepted.stamp()


def _slow(server: str) -> McpFailed:
    return _failed(server, "slow", "it is still connecting; its tools are not there yet")


def _failed(server: str, kind: str, message: str, hint: str = "") -> McpFailed:
    return McpFailed(server=server, failure=Failure(kind=kind, message=message, hint=hint))


def _file_name(server: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", server)[:80]
    return plain if plain == server and plain else f"{plain}-{hashlib.sha256(server.encode()).hexdigest()[:10]}"
