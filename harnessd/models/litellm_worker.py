"""The program of the worker process: requests on stdin, chunks on stdout, litellm in between.

Run by `worker.py`, by its path: it imports nothing of harnessd. `worker.py` also sets the environment that
litellm must find at import. Each line in is `{"op":"stream","id":…,"body":{…}}` or `{"op":"cancel","id":…}`;
each line out carries the `id` and one of text, reasoning, call, usage, finish, error, cut, unreachable,
timeout, end.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PAUSE_S = 600.0
Body = dict[str, Any]


def main() -> None:
    """Serve until stdin ends; then end at once, whatever is going on."""
    # Whatever a library prints must not get between our lines.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    asyncio.run(_Server(out.write).run())


class _Server:
    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._litellm: Any = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        # The reader runs before the import, so that a parent that dies meanwhile takes us along.
        threading.Thread(target=_read_lines, args=(loop, self._take), daemon=True).start()
        try:
            import litellm
        except Exception as error:  # noqa: BLE001  whatever is wrong with the install, it is told and ends this
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
            # Not by an exception: the thread that reads stdin would make the interpreter abort.
            os._exit(1)

        litellm.suppress_debug_info = True
        litellm.num_retries = 0
        litellm.telemetry = False
        litellm.drop_params = False
        self._litellm = litellm
        self._say({"ready": True})
        await asyncio.Event().wait()

    def _take(self, line: bytes) -> None:
        asked = orjson.loads(line)
        call_id = asked["id"]
        if asked["op"] == "cancel":
            if task := self._tasks.get(call_id):
                task.cancel()
            return
        task = asyncio.get_running_loop().create_task(self._serve(call_id, asked["body"]))
        self._tasks[call_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(call_id, None))

    async def _serve(self, call_id: int, body: Body) -> None:
        """One request; everything that goes wrong with it is told, nothing ends the process."""
        try:
            await self._stream(call_id, body)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  litellm and the providers' clients raise anything
            self._say({"id": call_id, **_explain(error)})
        self._say({"id": call_id, "end": True, "rss": _resident_bytes()})

    async def _stream(self, call_id: int, body: Body) -> None:
        if body["model"].startswith("anthropic/") or "claude" in body["model"]:
            _mark_for_cache(body["messages"])
        if body["model"].startswith("mistral/"):
            _shorten_ids(body["messages"])
        stream = await self._litellm.acompletion(
            **body,
            stream=True,
            stream_options={"include_usage": True},
            num_retries=0,
            max_retries=0,
            timeout=_PAUSE_S,
        )
        finish, model = "", ""
        try:
            async for chunk in stream:
                model = getattr(chunk, "model", "") or model
                for said in _of_chunk(chunk):
                    self._say({"id": call_id, **said})
                if chunk.choices and chunk.choices[0].finish_reason:
                    finish = str(chunk.choices[0].finish_reason)
        finally:
            if close := getattr(stream, "aclose", None):
                await close()
        # litellm ends a stream that was cut between events with an invented "stop".
        if finish and getattr(stream, "received_finish_reason", finish):
            self._say({"id": call_id, "finish": finish, "model": model})
        else:
            self._say({"id": call_id, "cut": "the stream ended before the reply was complete"})

    def _say(self, said: Mapping[str, Any]) -> None:
        self._write(orjson.dumps(said) + b"\n")


def _read_lines(loop: asyncio.AbstractEventLoop, take: Callable[[bytes], None]) -> None:
    # The end of stdin is the end of the parent: nothing that is going on has a reader any more.
    try:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(take, line)
    finally:
        os._exit(0)


def _mark_for_cache(messages: list[Body]) -> None:
    """Anthropic caches a prompt only up to marks: one after the system text and tools, one at the end."""
    mark = {"cache_control": {"type": "ephemeral"}}
    for message in [*(one for one in messages[:1] if one["role"] == "system"), *messages[-1:]]:
        content = message.get("content")
        if message["role"] == "tool":
            message.update(mark)
        elif content and message["role"] != "assistant":
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            message["content"] = [*parts[:-1], {**parts[-1], **mark}]


def _shorten_ids(messages: list[Body]) -> None:
    """Mistral takes only call ids of nine letters and digits; the end of ours is the part that differs."""
    for message in messages:
        if "tool_call_id" in message:
            message["tool_call_id"] = _nine(message["tool_call_id"])
        for call in message.get("tool_calls") or ():
            call["id"] = _nine(call["id"])


def _nine(call_id: str) -> str:
    return "".join(letter for letter in call_id if letter.isalnum())[-9:].rjust(9, "0")


def _of_chunk(chunk: Any) -> list[Body]:
    said: list[Body] = []
    delta = chunk.choices[0].delta if chunk.choices else None
    if delta is not None:
        if text := getattr(delta, "reasoning_content", None):
            said.append({"reasoning": str(text)})
        if text := getattr(delta, "content", None):
            said.append({"text": str(text)})
        for call in getattr(delta, "tool_calls", None) or ():
            function = call.function
            said.append(
                {
                    "call": [
                        call.index,
                        str(call.id or ""),
                        str(function.name or ""),
                        str(function.arguments or ""),
                    ]
                }
            )
    if usage := getattr(chunk, "usage", None):
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None) or getattr(usage, "cache_read_input_tokens", None) or 0
        written = getattr(details, "cache_creation_tokens", None) or getattr(usage, "cache_creation_input_tokens", None)
        counts = (usage.prompt_tokens, usage.completion_tokens, cached, written)
        said.append({"usage": [int(count or 0) for count in counts]})
    return said


def _explain(error: BaseException) -> Body:
    """An error in the worker's words; the parent judges what kind it is by status and wording."""
    chain = _chain(error)
    names = {type(one).__name__ for one in chain}
    message = str(error)
    if any("ConnectError" in name for name in names) or "All connection attempts failed" in message:
        return {"unreachable": message[:500]}
    if any("Timeout" in name for name in names):
        return {"timeout": message[:500]}
    if "MidStreamFallbackError" in names:
        return {"cut": message[:2_000]}
    if "APIConnectionError" in names and not any(getattr(one, "response", None) is not None for one in chain[1:]):
        return {"unreachable": message[:500]}
    status = getattr(error, "status_code", None)
    return {
        # The exception's name carries litellm's own verdict, e.g. ContextWindowExceededError.
        "error": f"{message[:4_000]} ({type(error).__name__})",
        "status": status if isinstance(status, int) else 400,
        "headers": _wait_headers(chain),
    }


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from, nearest first."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while isinstance(found, BaseException) and found not in chain:
        chain.append(found)
        found = getattr(found, "original_exception", None) or found.__cause__ or found.__context__
    return chain


def _wait_headers(chain: list[BaseException]) -> dict[str, str]:
    for one in chain:
        sources = (getattr(one, "litellm_response_headers", None), getattr(one, "headers", None))
        for headers in (getattr(getattr(one, "response", None), "headers", None), *sources):
            found = {key: str(value) for key, value in dict(headers or {}).items() if "retry-after" in key.lower()}
            if found:
                return found
    return {}


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    main()
