"""A model that says what a script tells it, over real HTTP: for tests of every failure, and for benchmarks.

It speaks the OpenAI chat wire (`/v1/chat/completions`) and the Anthropic wire (`/v1/messages`), streams, and
keeps each request it got. A script is a list of answers, taken in turn (the last one repeats), or a function
from the request to an answer.

    async with ScriptedServer([Answer("Hello")]) as server:
        … server.url …, server.requests

`python -m harnessd.models.scripted --port 8080` serves one answer for ever.
"""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import orjson
from aiohttp import web

from harnessd.facts.message import JsonObject
from harnessd.models import scripted_wire
from harnessd.models.script import Answer, Call, Page, Refusal, Request, Script, ScriptedReply, Silence

_OpenAI = "openai"


class ScriptedServer:
    """Serves a script on a free port of 127.0.0.1; `url` is its address without a path.

    `keep` False keeps no requests (benchmarks). `left` is set when a client leaves before its reply
    ended, `arrived` when a request has come.
    """

    def __init__(self, script: Script, *, port: int = 0, keep: bool = True) -> None:
        self.requests: list[Request] = []
        self.left = asyncio.Event()
        self.arrived = asyncio.Event()
        self.url = ""
        self._script = script
        self._port = port
        self._keep = keep
        self._count = 0
        self._runner: web.AppRunner | None = None
        self._ending = asyncio.Event()
        self._prepared: dict[int, tuple[ScriptedReply, list[bytes]]] = {}

    @property
    def openai_base(self) -> str:
        """The `api_base` for the direct lane."""
        return f"{self.url}/v1"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        app.router.add_get("/v1/models", _models)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1, handle_signals=False
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "openai")

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "anthropic")

    async def _serve(self, request: web.Request, wire: Literal["openai", "anthropic"]) -> web.StreamResponse:
        raw = await request.read()
        reply = self._next(request, wire, raw)
        self.arrived.set()
        try:
            match reply:
                case Refusal(status, body, headers):
                    text = body if isinstance(body, str) else orjson.dumps(body).decode()
                    return web.Response(
                        status=status, text=text, headers=dict(headers), content_type="application/json"
                    )
                case Page(body, content_type):
                    text = body if isinstance(body, str) else orjson.dumps(body).decode()
                    return web.Response(text=text, content_type=content_type)
                case Silence():
                    await self._ending.wait()
                    return web.Response(status=503)
                case Answer():
                    return await self._answer(request, reply, wire)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    def _next(self, request: web.Request, wire: Literal["openai", "anthropic"], raw: bytes) -> ScriptedReply:
        if not self._keep and not callable(self._script):
            reply = self._script[min(self._count, len(self._script) - 1)]
            self._count += 1
            return reply
        kept = Request(wire, orjson.loads(raw), raw, dict(request.headers))
        if self._keep:
            self.requests.append(kept)
        if callable(self._script):
            return self._script(kept)
        reply = self._script[min(self._count, len(self._script) - 1)]
        self._count += 1
        return reply

    async def _answer(self, request: web.Request, answer: Answer, wire: str) -> web.StreamResponse:
        events = self._events(answer, wire)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if answer.latency_s:
            await asyncio.sleep(answer.latency_s)
        await response.prepare(request)
        if answer.release is not None and answer.ends != "hang":
            await answer.release.wait()
        if answer.ends == "whole":
            if answer.piece or len(events) > 8:
                for event in events:
                    await response.write(event)
            else:
                await response.write(b"".join(events))
            await response.write_eof()
            return response
        for event in events[: answer.after]:
            await response.write(event)
        match answer.ends:
            case "cut":
                # Give the bytes a way out before the connection goes.
                await asyncio.sleep(0)
                if request.transport is not None:
                    request.transport.abort() if not answer.after else request.transport.close()
                return response
            case "hang":
                async for _ in _until(answer.release or self._ending, self._ending):
                    pass
                return response
            case "garbage":
                await response.write(b'data: {"choices": [{"delta": {"content": "half\n\n')
            case "error":
                await response.write(scripted_wire.error_event(answer.error, wire))
        await response.write_eof()
        return response

    def _events(self, answer: Answer, wire: str) -> list[bytes]:
        """The events of an answer, made once: a benchmark serves the same one thousands of times."""
        key = id(answer) if wire == _OpenAI else -id(answer)
        known = self._prepared.get(key)
        if known is None or known[0] is not answer:
            make = scripted_wire.openai_events if wire == _OpenAI else scripted_wire.anthropic_events
            known = (answer, make(answer))
            if not callable(self._script):
                self._prepared[key] = known
        return known[1]


async def _until(*events: asyncio.Event) -> AsyncIterator[None]:
    waits = [asyncio.ensure_future(event.wait()) for event in dict.fromkeys(events)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _models(_: web.Request) -> web.Response:
    listed: JsonObject = {
        "object": "list",
        "data": [{"id": "scripted", "object": "model", "owned_by": "scripted"}],
    }
    return web.json_response(listed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve one answer for ever; prints the address in one line."""
    parser = argparse.ArgumentParser(prog="python -m harnessd.models.scripted", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--text", default="All right.", help="what it answers")
    parser.add_argument("--piece", type=int, default=0, help="characters in each delta; 0: all in one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--call", default="", help="a tool that it asks for on every other request")
    given = parser.parse_args(arguments)
    plain = Answer(given.text, piece=given.piece, latency_s=given.latency)
    script: list[ScriptedReply] = [plain]
    if given.call:
        script = [Answer(calls=(Call(given.call, "{}"),), latency_s=given.latency), plain] * 1_000_000
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_for_ever(script, given.port))


async def _serve_for_ever(script: list[Any], port: int) -> None:
    async with ScriptedServer(script, port=port, keep=False) as server:
        print(server.url, flush=True)  # noqa: T201  the address is the program's output
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
