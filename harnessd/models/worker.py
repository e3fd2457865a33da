"""The litellm lane: a process of its own that speaks to the providers which the direct lane cannot.

litellm takes seconds and some 190 MB to import, so it never lives in this process. The worker starts at first
use, speaks lines of JSON over its pipes, serves many requests at once, ends when its stdin ends (so it cannot
outlive us), and is replaced when it has grown or served its share, once nothing is in flight.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import orjson

from harnessd.facts.message import Usage
from harnessd.models.chunk import (
    Chunk,
    Finished,
    ModelFailure,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from harnessd.models.direct import Timeouts
from harnessd.models.encoded import EncodedHistories
from harnessd.models.failure import failure_of
from harnessd.models.litellm_words import provider_words
from harnessd.models.prefixes import Route
from harnessd.models.request import ModelRequest

LITELLM_ENV = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "DISABLE_AIOHTTP_TRANSPORT": "True",
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000000",
    "PYTHONUNBUFFERED": "1",
}
"""What must be set before litellm is imported: no network, no `.env`, no leaking client, no cut streams."""

_LINE_BYTES = 16 << 20
_LAST_WORDS_BYTES = 4_096


@dataclass(frozen=True)
class WorkerLimits:
    """When the worker is replaced (calls, resident bytes); how many seconds its start and end may take."""

    calls: int = 2_000
    resident_bytes: int = 700 << 20
    start_s: float = 90.0
    end_s: float = 2.0


class WorkerLane:
    """Sends requests to the worker process, which it starts, watches, replaces and ends.

    `env` is asked at each start of the process for its whole environment.
    """

    def __init__(
        self,
        histories: EncodedHistories,
        env: Callable[[], Mapping[str, str]],
        *,
        timeouts: Timeouts | None = None,
        limits: WorkerLimits | None = None,
    ) -> None:
        self._histories = histories
        self._env = env
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or WorkerLimits()
        self._worker: _Worker | None = None
        self._starting = asyncio.Lock()
        self._last_id = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id, while it lives."""
        return self._worker.process.pid if self._worker and self._worker.alive else None

    async def stream(self, request: ModelRequest, route: Route) -> AsyncGenerator[Chunk, None]:
        """The chunks of one reply; see `Models.stream`. A worker that dies is a failure that may be retried."""
        try:
            worker = await self._running()
        except (OSError, TimeoutError) as error:
            yield ModelFailure("server_error", f"the model worker did not start: {error}")
            return
        self._last_id += 1
        call = worker.open(self._last_id)
        ended = False
        try:
            await worker.send(self._line(request, route, self._last_id))
            patience = self._timeouts.first_byte_s
            while not ended:
                try:
                    async with asyncio.timeout(patience):
                        said = await call.get()
                except TimeoutError:
                    yield ModelFailure("timeout", f"{request.model}: nothing came for {patience:g} s")
                    return
                patience = self._timeouts.idle_s
                ended = said is None or "end" in said
                if (chunk := _chunk(said, route, worker)) is not None:
                    yield chunk
        finally:
            worker.drop(call, cancel=not ended)
            if self._worn(worker):
                if self._worker is worker:
                    self._worker = None
                # A caller that was cancelled must not leave half an end behind.
                with anyio.CancelScope(shield=True):
                    await worker.end(self._limits.end_s)

    async def close(self) -> None:
        """End the worker process, with what it is doing."""
        async with self._starting:
            worker, self._worker = self._worker, None
            if worker is not None:
                await worker.end(self._limits.end_s)

    async def _running(self) -> "_Worker":
        async with self._starting:
            if self._worker is not None and not self._worker.alive:
                gone, self._worker = self._worker, None
                await gone.end(self._limits.end_s)
            if self._worker is None:
                self._worker = await _start({**self._env(), **LITELLM_ENV}, self._limits.start_s)
            return self._worker

    def _worn(self, worker: "_Worker") -> bool:
        worn = worker.served >= self._limits.calls or worker.resident_bytes > self._limits.resident_bytes
        return worn and not worker.calls

    def _line(self, request: ModelRequest, route: Route, call_id: int) -> bytes:
        extra = {
            "model": route.wire_model,
            "api_base": route.base or None,
            "api_key": route.key or None,
            "max_tokens": request.max_output_tokens,
        }
        options = orjson.dumps({key: value for key, value in extra.items() if value is not None})[1:-1]
        body = self._histories.body(request, options)
        return b'{"op":"stream","id":%d,"body":%b}\n' % (call_id, body)


Said = dict[str, Any]


class _Call(asyncio.Queue["Said | None"]):
    """What the worker said about one request; None when the worker has died."""

    def __init__(self, call_id: int) -> None:
        super().__init__()
        self.id = call_id


class _Worker:
    """One life of the worker process. Its two readers are its own and end with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.calls: dict[int, _Call] = {}
        self.served = 0
        self.resident_bytes = 0
        self.last_words = b""
        self.ready = asyncio.Event()
        self.alive = True
        self._readers = (asyncio.create_task(self._listen()), asyncio.create_task(self._overhear()))

    def open(self, call_id: int) -> _Call:
        call = self.calls[call_id] = _Call(call_id)
        if not self.alive:
            call.put_nowait(None)
        return call

    def drop(self, call: _Call, *, cancel: bool) -> None:
        self.served += 1
        self.calls.pop(call.id, None)
        if cancel and self.alive and self.process.stdin is not None:
            self.process.stdin.write(b'{"op":"cancel","id":%d}\n' % call.id)

    async def send(self, line: bytes) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(ConnectionError):  # its death is told by the reader
                self.process.stdin.write(line)
                await self.process.stdin.drain()

    async def end(self, patience_s: float) -> None:
        """Close its stdin, wait, then kill its whole group; returns when it is gone."""
        self.alive = False
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(patience_s):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()
        await asyncio.gather(*self._readers)
        # asyncio leaves the pipes' end to the next turn of the loop.
        await asyncio.sleep(0)

    async def _listen(self) -> None:
        """Hand each line to the request it is about, until the pipe ends."""
        assert self.process.stdout is not None  # noqa: S101  made with a pipe
        try:
            while line := await self.process.stdout.readline():
                said = orjson.loads(line)
                self.resident_bytes = said.get("rss", self.resident_bytes)
                if "ready" in said:
                    self.ready.set()
                elif call := self.calls.get(said.get("id", 0)):
                    call.put_nowait(said)
        except (ValueError, OSError):
            self.last_words += b" (its output could not be read)"
        finally:
            self.alive = False
            self.ready.set()
            for call in self.calls.values():
                call.put_nowait(None)
            if self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)

    async def _overhear(self) -> None:
        assert self.process.stderr is not None  # noqa: S101  made with a pipe
        while piece := await self.process.stderr.read(65_536):
            self.last_words = (self.last_words + piece)[-_LAST_WORDS_BYTES:]


async def _start(env: Mapping[str, str], patience_s: float) -> _Worker:
    """Start a worker, wait until it can serve; raises `OSError` or `TimeoutError` if it does not come up."""
    process = await asyncio.create_subprocess_exec(
        # By its path and with -P: what lies in the current directory can't be imported in litellm's stead.
        sys.executable,
        "-P",
        str(Path(__file__).with_name("litellm_worker.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        cwd="/",
        limit=_LINE_BYTES,
        start_new_session=True,
        close_fds=True,
    )
    worker = _Worker(process)
    try:
        async with asyncio.timeout(patience_s):
            await worker.ready.wait()
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await worker.end(0.0)
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"not ready within {patience_s:g} s") from None
        raise
    if not worker.alive:
        await worker.end(0.0)
        raise OSError(_last_line(worker.last_words) or f"it ended with code {process.returncode}")
    return worker


def _chunk(said: Said | None, route: Route, worker: _Worker) -> Chunk | None:
    """One line of the worker as a chunk; None for a plain end."""
    match said:
        case None:
            words = _last_line(worker.last_words)
            return ModelFailure("server_error", f"the model worker died{': ' + words if words else ''}")
        case {"text": str(text)}:
            return TextDelta(text)
        case {"reasoning": str(text)}:
            return ReasoningDelta(text)
        case {"call": [index, str(call_id), str(name), str(arguments)]}:
            return ToolCallDelta(index, call_id, name, arguments)
        case {"usage": [int(given), int(made), int(cached), int(written)]}:
            return UsageReport(
                Usage(input_tokens=given, output_tokens=made, cached_tokens=cached, cache_write_tokens=written)
            )
        case {"finish": str(reason), "model": str(model)}:
            return Finished(reason, model)
        case {"cut": str(message)}:
            judged = _judged(None, message, {}, route.key)
            return replace(judged, kind="cut_off") if judged.kind == "server_error" else judged
        case {"unreachable": str(message)}:
            return ModelFailure("unreachable", _judged(None, message, {}, route.key).message)
        case {"timeout": str(message)}:
            return ModelFailure("timeout", _judged(None, message, {}, route.key).message)
        case {"error": str(message), "status": status, "headers": headers}:
            return _judged(status, message, headers, route.key)
        case _:
            return None


def _judged(status: int | None, message: str, headers: Mapping[str, str], key: str) -> ModelFailure:
    """All of litellm's words say what kind it is; a person is told the provider's own."""
    told = failure_of(status, provider_words(message), headers, key).message
    return replace(failure_of(status, message, headers, key), message=told)


def _last_line(words: bytes) -> str:
    lines = words.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
