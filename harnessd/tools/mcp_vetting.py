"""What of a server's messages reaches the MCP library?

The library refuses a whole list of tools for one that breaks the protocol, checks results on the event loop against
schemas that the server wrote, and starts a task for every message. So the messages are looked at before it sees them:
bad tools are taken out of a list and named, and a server that floods is read more slowly.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio

from harnessd.facts.message import JsonObject
from harnessd.tools.listed import ListedTool, Unusable, listed_tool

TOOLS_AT_MOST = 512
LIST_AT_MOST = 2 * 1024 * 1024
"""Characters of all of a server's descriptions and schemas."""

BURST = 2_000
MESSAGES_A_SECOND = 500.0
"""How fast a server is read that says what it was not asked for; one that says more waits until it is read."""

ASKED_AT_MOST = 10_000
"""Requests that are remembered until they are answered, which some never are."""


@dataclass
class Vetting:
    """What was found in one connection's list of tools, which grows page by page until `begin`.

    `faults` are sentences on entries that are left out; `full` says that there is no room for more.
    """

    tools: list[ListedTool] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    full: bool = False
    _characters: int = 0
    _asked: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """A list is asked for anew."""
        self.tools, self.faults, self.full, self._characters = [], [], False, 0

    def sent(self, message: Any) -> None:
        """Something goes to the server."""
        if hasattr(message, "method") and hasattr(message, "id"):
            if len(self._asked) >= ASKED_AT_MOST:
                self._asked.clear()
            self._asked[str(message.id)] = message.method

    def came(self, message: Any) -> bool:
        """Something came from it, whether as an answer; a list of tools is cut down to what the library can take."""
        asked = None if hasattr(message, "method") else self._asked.pop(str(getattr(message, "id", None)), None)
        result = getattr(message, "result", None)
        if asked == "tools/list" and isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = self._take(result["tools"])
        return asked is not None

    def _take(self, raw: list[Any]) -> list[JsonObject]:
        passed: list[JsonObject] = []
        for at, one in enumerate(raw, 1):
            tool = listed_tool(one, at)
            if isinstance(tool, Unusable):
                if len(self.faults) < TOOLS_AT_MOST:
                    self.faults.append(tool.reason)
                continue
            self._characters += len(tool.said)
            self.full = len(self.tools) >= TOOLS_AT_MOST or self._characters > LIST_AT_MOST
            if self.full:
                break
            self.tools.append(tool)
            passed.append(tool.for_library)
        return passed


@asynccontextmanager
async def vetted(transport: Any, vetting: Vetting) -> AsyncIterator[Any]:
    """`transport` with `vetting` between it and the library."""
    async with transport as (read, write):
        yield _Read(read, vetting), _Write(write, vetting)


class _Stream:
    def __init__(self, inner: Any, vetting: Vetting) -> None:
        self._inner = inner
        self._vetting = vetting

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Write(_Stream):
    async def send(self, item: Any) -> None:
        self._vetting.sent(item.message)
        await self._inner.send(item)


class _Read(_Stream):
    def __init__(self, inner: Any, vetting: Vetting) -> None:
        super().__init__(inner, vetting)
        self._left = float(BURST)
        self._at = time.monotonic()

    @property
    def last_context(self) -> Any:
        """The library restores the sender's context from it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        item = await self._inner.receive()
        if isinstance(item, Exception) or not self._vetting.came(item.message):
            await self._pace()
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def _pace(self) -> None:
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._at) * MESSAGES_A_SECOND) - 1
        self._at = now
        if self._left < 0:
            await anyio.sleep(-self._left / MESSAGES_A_SECOND)
