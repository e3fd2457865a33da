"""How the kit speaks to a daemon: its HTTP API and nothing else, so that any build can be tried."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson

from harnessd.facts.message import JsonObject

if TYPE_CHECKING:
    import aiohttp

AGENT = "ada"


class Gone(Exception):
    """The daemon does not answer any more."""


class NotThere(Exception):
    """The daemon knows no such session, or not yet."""


class Door:
    """The API of one daemon. Each method raises `Gone` when the daemon dies."""

    def __init__(self, http: "aiohttp.ClientSession") -> None:
        self._http = http

    async def ready(self) -> bool:
        """Whether it is up and has recovered what there was."""
        status, _ = await self._call("GET", "/readyz")
        return status == 200

    async def sessions(self) -> list[str]:
        """The ids of the main agent's sessions."""
        _, body = await self._call("GET", f"/api/agents/{AGENT}/sessions")
        return [str(one["sessionId"]) for one in _records(body, "sessionId")]

    async def new_session(self) -> str:
        """A session that did not exist before."""
        _, body = await self._call("POST", f"/api/agents/{AGENT}/sessions", {})
        return str(body["sessionId"])

    async def state(self, session_id: str) -> JsonObject:
        """What is true in a session now; empty if it does not say."""
        _, body = await self._call("GET", f"/api/agents/{AGENT}/sessions/{session_id}")
        state: JsonObject = body.get("state") or {}
        return state

    async def approvals(self) -> tuple[tuple[str, str], ...]:
        """(approval id, tool call id) of everything that waits for a person."""
        _, body = await self._call("GET", "/api/approvals")
        return tuple((str(one["id"]), str(one["toolCallId"])) for one in _records(body, "toolCallId"))

    async def control(self, session_id: str, control: JsonObject) -> tuple[int, JsonObject, float]:
        """The answer to a control: status, body, and the seconds that it took."""
        began = time.monotonic()
        status, body = await self._call("POST", f"/api/agents/{AGENT}/sessions/{session_id}/control", control)
        return status, body, time.monotonic() - began

    async def events(self, session_id: str) -> AsyncIterator[JsonObject]:
        """Every event of a session from the first on, as it is told; deltas are passed over.

        Ends when the stream does; raises `NotThere` if there is no such session.
        """
        import aiohttp

        place = f"/api/agents/{AGENT}/sessions/{session_id}/events"
        try:
            async with self._http.get(place, params={"after": "0"}, timeout=_no_limit()) as response:
                if response.status != 200:
                    raise NotThere
                data: list[bytes] = []
                async for line in response.content:
                    if line.startswith(b"data:"):
                        data.append(line[5:].strip())
                    elif not line.strip() and data:
                        told = orjson.loads(b"\n".join(data))
                        data = []
                        if isinstance(told, dict) and told.get("seq"):
                            yield told
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Gone from error

    async def _call(self, method: str, path: str, body: JsonObject | None = None) -> tuple[int, Any]:
        import aiohttp

        try:
            async with self._http.request(method, path, json=body) as response:
                raw = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Gone from error
        try:
            return response.status, orjson.loads(raw)
        except ValueError:
            return response.status, {}


@asynccontextmanager
async def door_of(url: str, token: str) -> AsyncIterator[Door]:
    """The door of the daemon at that address."""
    import aiohttp

    headers = {"Authorization": f"Bearer {token}"}
    limit = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(url, headers=headers, timeout=limit) as http:
        yield Door(http)


def _no_limit() -> "aiohttp.ClientTimeout":
    import aiohttp

    return aiohttp.ClientTimeout(total=None)


def _records(body: Any, field: str) -> list[JsonObject]:
    """Every object in `body` that bears `field`, however the answer is laid out."""
    if isinstance(body, list):
        return [one for item in body for one in _records(item, field)]
    if not isinstance(body, dict):
        return []
    if field in body:
        return [body]
    return [one for item in body.values() for one in _records(item, field)]
