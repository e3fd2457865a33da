"""The direct lane: the OpenAI chat wire over one shared HTTP client, with our own reader of the stream."""

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from harnessd.facts.message import Usage
from harnessd.models.chunk import (
    Chunk,
    FailureKind,
    Finished,
    ModelFailure,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from harnessd.models.encoded import EncodedHistories
from harnessd.models.failure import failure_of
from harnessd.models.prefixes import Route
from harnessd.models.request import ModelRequest
from harnessd.models.sse import EventReader

if TYPE_CHECKING:
    import aiohttp

_ERROR_BODY_BYTES = 64 << 10


@dataclass(frozen=True)
class Timeouts:
    """How long to wait, in seconds: to connect, for the first byte of an answer, between two pieces of it."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    idle_s: float = 120.0


class DirectLane:
    """Sends requests to whatever speaks the OpenAI chat wire; one client for all sessions."""

    def __init__(
        self, histories: EncodedHistories, *, timeouts: Timeouts | None = None, use_proxy: bool = False
    ) -> None:
        self._histories = histories
        self._timeouts = timeouts or Timeouts()
        self._use_proxy = use_proxy
        self._client: aiohttp.ClientSession | None = None

    async def stream(self, request: ModelRequest, route: Route) -> AsyncGenerator[Chunk, None]:
        """The chunks of one reply; see `Models.stream`."""
        import aiohttp

        body = self._histories.body(request, _options(request, route))
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if route.key:
            headers["Authorization"] = f"Bearer {route.key}"
        response: aiohttp.ClientResponse | None = None
        whole = False
        try:
            async with asyncio.timeout(self._timeouts.first_byte_s):
                response = await self._open().post(
                    f"{route.base}/chat/completions", data=io.BytesIO(body), headers=headers
                )
            if response.status != 200:
                yield await self._refusal(response, route)
                return
            # Closed by name: leaving it to the garbage collector would keep the connection open.
            reading = self._read(response, route)
            try:
                async for chunk in reading:
                    yield chunk
            finally:
                await reading.aclose()
            whole = True
        except aiohttp.ConnectionTimeoutError:
            yield ModelFailure("unreachable", f"{route.base} cannot be reached: no connection in time")
        except TimeoutError as error:
            said = str(error) or f"no answer within {self._timeouts.first_byte_s:g} s"
            yield ModelFailure("timeout", said if response else f"{route.base}: {said}")
        except aiohttp.ClientPayloadError:
            yield ModelFailure("cut_off", "the connection broke in the middle of the reply")
        except aiohttp.InvalidURL:
            yield ModelFailure("bad_request", f"{route.base!r} is no address of a server")
        except (aiohttp.ClientError, OSError) as error:
            kind: FailureKind = "unreachable" if response is None else "cut_off"
            yield ModelFailure(kind, f"{route.base} cannot be reached: {error or type(error).__name__}")
        finally:
            if response is not None:
                # A reply that was read to its end gives its connection back; any other closes it at once.
                response.release() if whole else response.close()

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _open(self) -> "aiohttp.ClientSession":
        if self._client is None or self._client.closed:
            import aiohttp

            self._client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_s),
                headers={"User-Agent": "harnessd", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=self._use_proxy,
            )
        return self._client

    async def _refusal(self, response: "aiohttp.ClientResponse", route: Route) -> ModelFailure:
        async with asyncio.timeout(self._timeouts.idle_s):
            body = await response.content.read(_ERROR_BODY_BYTES)
        return failure_of(response.status, body.decode("utf-8", "replace"), response.headers, route.key)

    async def _read(self, response: "aiohttp.ClientResponse", route: Route) -> AsyncGenerator[Chunk, None]:
        reader = EventReader()
        plain = response.content_type == "application/json"
        kept: list[bytes] = []
        translator = Translator(route.key)
        while True:
            try:
                async with asyncio.timeout(self._timeouts.idle_s):
                    piece = await response.content.readany()
            except TimeoutError:
                raise TimeoutError(f"the reply stopped for {self._timeouts.idle_s:g} s") from None
            if not piece:
                break
            if plain:
                kept.append(piece)
                continue
            try:
                events = reader.feed(piece)
            except ValueError as error:
                yield ModelFailure("malformed", str(error))
                return
            for event in events:
                for chunk in translator.chunks(event):
                    yield chunk
            if translator.failed:
                return
        last = [b"".join(kept)] if plain else reader.flush()
        for event in last:
            for chunk in translator.chunks(event):
                yield chunk


class Translator:
    """Turns the `data` of each event into chunks; also a whole, unstreamed answer."""

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._ended = False
        self.failed = False

    def chunks(self, event: bytes) -> Iterator[Chunk]:
        """The chunks of one event."""
        if event == b"[DONE]":
            # An explicit end counts as an end, even if no choice gave a reason.
            if not self._ended:
                self._ended = True
                yield Finished("stop")
            return
        try:
            data = orjson.loads(event)
        except orjson.JSONDecodeError:
            self.failed = True
            yield ModelFailure(
                "malformed", f"the provider sent what is no JSON: {event[:120].decode('utf-8', 'replace')}"
            )
            return
        if not isinstance(data, dict):
            self.failed = True
            yield ModelFailure("malformed", "the provider sent JSON that is no object")
            return
        if data.get("error"):
            self.failed = True
            error = data["error"]
            status = error.get("code") if isinstance(error, dict) else None
            yield failure_of(
                status if isinstance(status, int) else None,
                event.decode("utf-8", "replace"),
                None,
                self._secret,
            )
            return
        yield from self._of_choice(data)
        if usage := data.get("usage"):
            yield UsageReport(usage_of(usage))

    def _of_choice(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        choices = data.get("choices")
        choice = choices[0] if choices else {}
        delta = choice.get("delta") or choice.get("message") or {}
        if text := delta.get("reasoning_content") or delta.get("reasoning"):
            yield ReasoningDelta(str(text))
        if text := delta.get("content") or delta.get("refusal"):
            yield TextDelta(text if isinstance(text, str) else _joined(text))
        for call in delta.get("tool_calls") or ():
            yield _call_delta(call)
        if reason := choice.get("finish_reason"):
            self._ended = True
            yield Finished(str(reason), str(data.get("model") or ""))


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The provider's count in our terms: cached tokens are part of the input, reasoning of the output."""
    details = raw.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens") or 0
    cost = raw.get("cost")
    return Usage(
        input_tokens=int(raw.get("prompt_tokens") or 0),
        output_tokens=int(raw.get("completion_tokens") or 0),
        cached_tokens=int(cached),
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _options(request: ModelRequest, route: Route) -> bytes:
    options: dict[str, Any] = {
        "model": route.wire_model,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.max_output_tokens:
        options[route.limit_field] = request.max_output_tokens
    return orjson.dumps(options)[1:-1]


def _call_delta(call: Mapping[str, Any]) -> ToolCallDelta:
    function = call.get("function") or {}
    arguments = function.get("arguments") or ""
    if not isinstance(arguments, str):
        # Some servers send the object itself.
        arguments = orjson.dumps(arguments).decode()
    index = call.get("index")
    return ToolCallDelta(
        index=index if isinstance(index, int) else None,
        id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        arguments=arguments,
    )


def _joined(parts: Any) -> str:
    if not isinstance(parts, list):
        return str(parts)
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
