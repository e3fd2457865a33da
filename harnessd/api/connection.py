"""What one connection may cost: bounded heads and waits, and a client that takes nothing of its answer is cut off."""

import asyncio
import logging
from typing import Any, cast

from aiohttp import hdrs, web

from harnessd.api.door import Limits
from harnessd.api.problem import Problem, respond

log = logging.getLogger(__name__)

LINE = 8190
FIELDS = 64
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that the client sees the answer instead of a reset."""

_FULL = b'{"type":"urn:harnessd:problem:too-many-connections","title":"Too many connections","status":503}'
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 5\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)


class Connections:
    """Makes the protocol of each connection, up to the limit."""

    def __init__(self, server: web.Server, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self.limits = limits
        self.open = 0
        self._server = server
        self._loop = loop

    def new(self) -> "Connection":
        """The protocol of a connection that was just accepted."""
        return Connection(
            self,
            self._server,
            loop=self._loop,
            access_log=None,
            keepalive_timeout=self.limits.idle_seconds,
            lingering_time=LINGER_SECONDS,
            max_line_size=LINE,
            max_field_size=LINE,
            max_headers=FIELDS,
            auto_decompress=False,
        )


class Connection(web.RequestHandler):
    """aiohttp's connection, with what it leaves open.

    Its `keepalive_timeout` runs from the opening and from each answer, and so bounds a head that trickles in as well.
    It sets no bound to an answer that is not taken: that is added here, as are the number of connections and the
    shape of the errors that it answers itself.
    """

    __slots__ = ("_all", "_stall")

    def __init__(self, all_of_them: Connections, server: web.Server, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._all = all_of_them
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the connection, or says that there are too many."""
        self._all.open += 1
        super().connection_made(transport)
        writing = cast(asyncio.Transport, transport)
        writing.set_write_buffer_limits(high=0)  # so that any unsent byte counts as waiting
        if self._all.open > self._all.limits.connections:
            writing.write(FULL)
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is no more."""
        self._all.open -= 1
        self._clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes nothing: it has some time."""
        super().pause_writing()
        transport = self.transport
        if self._stall is None and transport is not None:
            loop = asyncio.get_running_loop()
            self._stall = loop.call_later(self._all.limits.stall_seconds, transport.abort)

    def resume_writing(self) -> None:
        """The client took everything."""
        self._clear()
        super().resume_writing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no HTTP, and to a fault outside of the application."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client is gone, which is nobody's fault
        if request.writer.output_size > 0:
            raise ConnectionResetError("the answer had begun when this went wrong")
        if status == 400:
            said = (message or "").splitlines()
            problem = Problem(400, "malformed-request", said[0].rstrip(":") if said else "this is no HTTP request")
        else:
            log.error("a request failed outside of the application", exc_info=exc)
            problem = Problem(status, "fault", "the daemon could not do this because of a fault of its own")
        response = respond(problem)
        response.headers[hdrs.SERVER] = "harnessd"
        response.force_close()
        return response

    def _clear(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
