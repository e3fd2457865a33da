"""How is one MCP server kept: connected, listed, called, connected anew, or let be for a while?

One task owns the connection for its whole life. Whatever goes wrong becomes its state.
"""

import math
import time
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from harnessd.errors import StorageError
from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Failure
from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.tools.accepted import AcceptedTools, Judged, server_identity
from harnessd.tools.eras import Eras
from harnessd.tools.exchange import Exchange
from harnessd.tools.helper_log import HelperLog
from harnessd.tools.mcp import Era, Link, Server, connect, load_library
from harnessd.tools.mcp_failure import failure_of
from harnessd.tools.offered import Offered, Reviewed, bad_schemas, offered, origin_of
from harnessd.tools.tool import Asks, Outcome, ToolContext, failed

START_SECONDS = 20.0
"""How long a server may take to connect and list its tools, unless its own `timeout` is shorter."""

BACKOFF_AT_MOST = 60.0
CLOSE_SECONDS = 8.0
RELIST_SECONDS = 0.5
"""A list of tools is asked for at most that often, however often the server says that it changed."""


@dataclass(frozen=True)
class Surroundings:
    """What the connections of one home share: where stdio servers run, and what is known of them.

    They start in the home's folder. `accepted` None: whatever they say of their tools is accepted.
    """

    sandbox: Sandbox
    accepted: AcceptedTools | None
    eras: Eras


@dataclass(frozen=True)
class Connecting:
    """Being connected, or about to be."""


@dataclass(frozen=True)
class Connected:
    """Its tools are there."""

    reviewed: Reviewed
    offered: Offered
    event: McpConnected
    link: Link


@dataclass(frozen=True)
class Failed:
    """Left alone until `retry_at`, a monotonic time."""

    event: McpFailed
    retry_at: float


class Connection:
    """One server, owned by the task that runs `own`."""

    def __init__(self, name: str, server: Server, surroundings: Surroundings, log: HelperLog) -> None:
        self.name = name
        self.server = server
        self.promising = True
        self.state: Connecting | Connected | Failed = Connecting()
        self._around = surroundings
        self._log = log
        self._identity = server_identity(server)
        self._failures = 0
        self._closing = False
        self._wake = anyio.Event()
        self._settled = anyio.Event()
        self._over = anyio.Event()
        self._relist = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._exchange = Exchange(name, lambda: origin_of(self.server))

    async def own(self) -> None:
        """Connects, keeps the connection, connects anew when it is wanted; until it is closed."""
        while not self._closing:
            self._over, self._wake, self._relist = anyio.Event(), anyio.Event(), anyio.Event()
            await self._once()
            if not self._wake.is_set():
                self._settled.set()
            await self._wake.wait()

    def take_up(self, server: Server) -> bool:
        """Goes on with a changed configuration; False if that needs another connection."""
        if server == self.server:
            return True
        if _of_connection(server) != _of_connection(self.server):
            return False
        changed_trust = server.trust != self.server.trust
        self.server = server
        if isinstance(self.state, Connected):
            self._show(self.state.link, self.state.reviewed, self.state.event.duration_ms)
            if changed_trust:
                self.review()
        return True

    def wake(self) -> None:
        """Wants the connection: one that failed is tried again, unless it failed a moment ago."""
        if isinstance(self.state, Failed) and time.monotonic() >= self.state.retry_at:
            self._settled = anyio.Event()
            self.state = Connecting()
            self._wake.set()

    def renew(self) -> None:
        """Connects now if it had failed, however often; else lists the tools again."""
        if isinstance(self.state, Failed):
            self.state, self._failures = replace(self.state, retry_at=0.0), 0
            self.wake()
        else:
            self._relist.set()

    def review(self) -> None:
        """Lists the tools again and compares them with what is accepted by now; `settled` waits for it."""
        if isinstance(self.state, Connected):
            self._settled = anyio.Event()
        self._relist.set()

    def close(self) -> None:
        """Ends it; its task finishes soon after."""
        self._closing = True
        self._over.set()
        self._wake.set()
        if self._scope is not None and not isinstance(self.state, Connected):
            self._scope.cancel()

    async def settled(self) -> None:
        """Returns once it is connected or has failed."""
        await self._settled.wait()

    async def call(self, tool: str, context: ToolContext, arguments: JsonObject, seconds: float) -> Outcome | Asks:
        """Calls one of the server's tools, or goes on with a call whose questions are answered.

        Connects anew first if the connection broke.
        """
        origin, began = origin_of(self.server), anyio.current_time()
        self.wake()
        with anyio.move_on_after(seconds):
            await self.settled()
        if not isinstance(self.state, Connected):
            reason = self.state.event.failure.message if isinstance(self.state, Failed) else "it is still connecting"
            return failed("not_connected", f"The server {self.name} is not connected: {reason}", origin=origin)
        left = max(0.1, seconds - (anyio.current_time() - began))
        try:
            answer = await self._exchange.make(self.state.link, tool, context, arguments, left)
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            return self._call_failed(failure)
        if isinstance(answer, Asks | Outcome):
            return answer
        if not answer.is_error:
            self._failures = 0
            return Outcome("ok", answer.parts, changed=True, origin=origin, files=answer.files)
        failure = Failure(kind="tool_error", message="the tool reported an error")
        return Outcome("error", answer.parts, origin=origin, failure=failure, files=answer.files)

    def _call_failed(self, failure: Failure) -> Outcome:
        origin, text = origin_of(self.server), f"{self.name}: {failure.message}"
        if failure.kind in {"disconnected", "unreachable", "not_let_in", "not_secure"}:
            self._over.set()
            text = f"The server {self.name} went away during the call, which may have taken effect; check first."
            self._fail(failure)
        if failure.kind == "timeout":
            return failed("timeout", f"{text} It may have taken effect.", status="timeout", origin=origin)
        return failed(failure.kind, text, origin=origin)

    async def _once(self) -> None:
        """One connection from its beginning to its end. Whatever goes wrong becomes the state."""
        await load_library()
        began = time.monotonic()
        limit = min(self.server.timeout or START_SECONDS, START_SECONDS)
        legacy = await anyio.to_thread.run_sync(self._around.eras.is_legacy, self._identity)
        era: Era = "legacy" if legacy else "auto"
        with anyio.CancelScope(deadline=anyio.current_time() + limit) as scope:
            self._scope = scope
            try:
                async with connect(
                    self.server,
                    sandbox=self._around.sandbox,
                    log=self._log,
                    era=era,
                    tools_changed=self._tools_changed,
                    ask=self._exchange.ask,
                ) as link:
                    await self._learn(legacy=link.era == "legacy")
                    await self._take(link, began)
                    scope.deadline = math.inf
                    self._settled.set()
                    await self._keep(link, began)
                    scope.deadline = anyio.current_time() + CLOSE_SECONDS
            except Exception as error:  # noqa: BLE001 - the library raises whatever a transport or a server brings about
                failure = failure_of(error) or _ours(error)
                if legacy and failure.kind == "refused":
                    await self._learn(legacy=False)  # it may have learnt the newer one
                self._ended(failure)
        if scope.cancelled_caught and isinstance(self.state, Connecting):
            self._ended(Failure(kind="timeout", message=f"it did not connect within {limit:g} s"))
        self._ended(Failure(kind="disconnected", message="the connection ended"))

    async def _learn(self, *, legacy: bool) -> None:
        await anyio.to_thread.run_sync(lambda: self._around.eras.learn(self._identity, legacy=legacy))

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
                    self._settled.set()
                    await anyio.sleep(RELIST_SECONDS)

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
        said = {tool.name: tool.said for tool in listing.tools}
        accepted, judged = self._around.accepted, Judged()
        if accepted is not None:
            judged = await anyio.to_thread.run_sync(accepted.judge, self.name, self.server, said)
        known = self.state.reviewed if isinstance(self.state, Connected) else None
        if known is not None and known.listing == listing:
            bad = known.bad
            if known.judged == judged:
                return
        else:
            bad = await anyio.to_thread.run_sync(bad_schemas, listing)
        if not self._over.is_set():
            self._show(link, Reviewed(listing, bad, judged), round((time.monotonic() - began) * 1000))

    def _show(self, link: Link, reviewed: Reviewed, duration_ms: int) -> None:
        """From now on these are its tools."""
        shown = offered(self.name, self.server, reviewed, self.call)
        names = tuple(tool.name for tool in shown.tools)
        event = McpConnected(server=self.name, protocol=link.protocol, tools=names, duration_ms=duration_ms)
        self.state = Connected(reviewed, shown, event, link)
        self.promising = True

    def _ended(self, failure: Failure) -> None:
        """The connection is over; unless that is known already, or it is wanted anew by now."""
        if not isinstance(self.state, Failed) and not self._wake.is_set():
            self._fail(self._with_last_words(failure))

    def _with_last_words(self, failure: Failure) -> Failure:
        """A process that is gone said why on its way out, if it said anything."""
        if failure.kind != "disconnected" or not self._log.last_words:
            return failure
        message = f"{failure.message}; the last it wrote: {self._log.last_words}"
        return Failure(kind=failure.kind, message=message, hint=f"all that it wrote: {self._log.path}")

    def _fail(self, failure: Failure) -> None:
        self.promising = isinstance(self.state, Connected)
        delay = min(BACKOFF_AT_MOST, 2.0 ** (self._failures - 1)) if self._failures else 0.0
        self._failures += 1
        self.state = Failed(McpFailed(server=self.name, failure=failure), time.monotonic() + delay)


def _of_connection(server: Server) -> Server:
    """The part of the configuration that a connection is made from; the rest may change while it stands."""
    return server.model_copy(update={"trust": "remote", "tools": None, "timeout": None})


def _ours(error: Exception) -> Failure:
    """A failure that neither the server nor the way to it has brought about."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if isinstance(inner, StorageError):
        return Failure(kind="no_record", message=str(inner), hint=inner.hint or "")
    kind = "refused" if isinstance(inner, RuntimeError) else type(inner).__name__  # so the library tells other versions
    return Failure(kind=kind, message=str(inner)[:500])
