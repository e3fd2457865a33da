"""How is an MCP server spoken to that is reached at a URL, and what does its HTTP say when it fails?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from harnessd.home.tools_file import RemoteServer
from harnessd.tools.lines import LINE_AT_MOST

if TYPE_CHECKING:
    import httpx2

HTTP_SECONDS = 30.0
_SIGN_IN = 'give it what it wants in `headers` in tools.json, e.g. "Authorization": "Bearer ${TOKEN}"'


class NotLetIn(Exception):
    """The server wants to know who asks; `hint` says what can be done."""

    hint = f"{_SIGN_IN}; signing in by a browser (OAuth) is not supported"


class Heard:
    """What the last HTTP answer said: its status, 0 before the first one."""

    def __init__(self) -> None:
        self.status = 0


@asynccontextmanager
async def remote(server: RemoteServer, heard: Heard) -> AsyncIterator[Any]:
    """The two streams that the MCP library wants, over streamable HTTP or the older SSE.

    A redirect is followed on the same host only, so that no header goes elsewhere. No answer is larger than a
    line of a stdio server may be. Raises `NotLetIn` and whatever the library does.
    """
    import httpx2

    def client(
        headers: dict[str, str] | None = None,
        timeout: "httpx2.Timeout | None" = None,
        auth: "httpx2.Auth | None" = None,
    ) -> httpx2.AsyncClient:
        # What is packed could be anything when it is unpacked.
        fixed = dict(headers or {}) | {"accept-encoding": "identity"}
        return httpx2.AsyncClient(headers=fixed, timeout=timeout, auth=auth, transport=_transport(heard))

    seconds = httpx2.Timeout(HTTP_SECONDS, read=max(HTTP_SECONDS, server.timeout or 0.0) + 300)
    if server.type == "sse":
        from mcp.client.sse import sse_client

        async with sse_client(
            server.url,
            headers=dict(server.headers),
            timeout=HTTP_SECONDS,
            sse_read_timeout=seconds.read or HTTP_SECONDS,
            httpx_client_factory=client,
        ) as streams:
            yield streams
        return
    from mcp.client.streamable_http import streamable_http_client

    async with (
        client(dict(server.headers), seconds) as http,
        streamable_http_client(server.url, http_client=http, max_sse_event_size=LINE_AT_MOST) as streams,
    ):
        yield streams


def _transport(heard: Heard) -> "httpx2.AsyncBaseTransport":
    """The library's own transport, which also notes the status and bounds each answer."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: httpx2.AsyncByteStream, endless: bool) -> None:
            self._inner = inner
            self._endless = endless

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._inner:
                size += len(chunk)
                if size > LINE_AT_MOST and not self._endless:
                    raise httpx2.StreamError(f"the answer is larger than the {LINE_AT_MOST:,} bytes that are read")
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Listening(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            heard.status = response.status_code
            if response.status_code in {401, 403, 407}:
                await response.aclose()
                raise NotLetIn(f"it answers {response.status_code} {response.reason_phrase}: it wants to know who asks")
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise httpx2.DecodingError("it answers in an encoding that was not asked for", request=request)
            inner = response.stream
            if isinstance(inner, httpx2.AsyncByteStream):
                # A stream of events has no end; each event is bounded where it is put together.
                events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
                response.stream = Bounded(inner, events)
            return response

    return Listening()
