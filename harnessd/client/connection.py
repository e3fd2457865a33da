"""How requests reach the daemon: over its socket, else over TCP, and again where it is after it came back."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pydantic_core import from_json

from harnessd.client.find import Address
from harnessd.client.problem import Problem, read_problem
from harnessd.errors import HarnessdError
from harnessd.facts.message import JsonObject

if TYPE_CHECKING:  # importing it takes a fifth of a second, and much is imported that never calls
    import aiohttp

REQUEST_SECONDS = 60.0
CONNECT_SECONDS = 5.0
SILENCE = 35.0
"""Seconds without a byte after which a daemon counts as lost that has something to say at least every 15."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0

UNAUTHORIZED = 401

Locate = Callable[[], Awaitable[Address | None]]
"""Where the daemon is now; None while there is none."""


class Unreachable(HarnessdError):
    """The daemon does not answer."""


class Connection:
    """The HTTP of one client. Made by its `open`."""

    def __init__(self, locate: Locate, address: Address, patience: float | None, silence: float) -> None:
        self.address = address
        self.patience = patience
        self.silence = silence
        self._reached = False
        self._locate = locate
        self._http = open_http(address)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, locate: Locate, patience: float | None, silence: float = SILENCE
    ) -> AsyncIterator["Connection"]:
        """A connection while the block runs; `patience` is how many seconds it waits for a daemon that it has reached
        once and that went away, None for ever; `silence` after how many a silent one counts as gone.

        Raises `Unreachable`.
        """
        address = await locate()
        if address is None:
            raise Unreachable("no daemon is running here", hint="start one with: harnessd serve")
        connection = cls(locate, address, patience, silence)
        try:
            yield connection
        finally:
            await connection._http.close()

    async def body(
        self, method: str, path: str, *, json: JsonObject | None = None, query: Mapping[str, str] | None = None
    ) -> bytes:
        """The body of the answer. Raises what the daemon's problem stands for, or `Unreachable`."""
        answer = await self.ask(method, path, json=json, query=query)
        if isinstance(answer, Problem):
            raise answer.error()
        return answer

    async def ask(
        self, method: str, path: str, *, json: JsonObject | None = None, query: Mapping[str, str] | None = None
    ) -> bytes | Problem:
        """The body of the answer, or the problem in its place. Raises `Unreachable`."""
        async with self.answer(method, path, json=json, query=query) as answer:
            return answer if isinstance(answer, Problem) else await answer.read()

    @asynccontextmanager
    async def answer(
        self,
        method: str,
        path: str,
        *,
        json: JsonObject | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        endless: bool = False,
        silent: bool = False,
    ) -> AsyncIterator["aiohttp.ClientResponse | Problem"]:
        """The answer while the block runs; `endless` lets it take as long as something comes, `silent` even if not.

        A request that did not reach the daemon, or was not let in, is sent again where it is now; one that may have
        had an effect is not. Raises `Unreachable`.
        """
        import aiohttp

        timeout = aiohttp.ClientTimeout(
            None if endless or silent else REQUEST_SECONDS,
            sock_connect=CONNECT_SECONDS,
            sock_read=self.silence if endless else None,
        )

        async def once() -> aiohttp.ClientResponse:
            return await self._http.request(
                method, path, json=json, params=query, headers=headers, timeout=timeout, allow_redirects=False
            )

        async def send() -> aiohttp.ClientResponse:
            response = await once()
            if response.status != UNAUTHORIZED or not await self.relocate():
                return response
            response.close()
            return await once()  # a daemon that came back at the same place may have another token

        try:
            async with await (send() if endless or silent else self._patiently(send)) as response:
                self._reached = True
                if response.status < 400:
                    yield response
                else:
                    yield read_problem(response.status, await response.read(), response.headers)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(
                "the daemon does not answer" if not str(error) else f"the daemon does not answer: {error}",
                where=self.address.url,
                hint="see whether it runs with: harnessd ps",
            ) from error

    async def _patiently(self, send: Callable[[], Awaitable["aiohttp.ClientResponse"]]) -> "aiohttp.ClientResponse":
        """Sends until somebody takes the connection: only then can a request have had an effect."""
        import aiohttp

        until = None if self.patience is None else time.monotonic() + self.patience * self._reached
        wait = 0.0
        while True:
            try:
                return await send()
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                if until is not None and wait and time.monotonic() >= until:
                    raise
            await asyncio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2 or FIRST_WAIT)
            await self.relocate()

    async def relocate(self) -> bool:
        """Turns to where the daemon is now; whether that is elsewhere, or with another token. It stays if there is
        none."""
        address = await self._locate()
        if address is None or address == self.address:
            return False
        former, self._http, self.address = self._http, open_http(address), address
        await former.close()
        return True


def open_http(address: Address) -> "aiohttp.ClientSession":
    """An HTTP session with that daemon; the caller closes it."""
    import aiohttp

    over = aiohttp.UnixConnector(str(address.socket), limit=0) if address.socket else aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    base = "http://localhost" if address.socket else address.url
    # Its settings are the daemon's: no proxy of the environment, no cookie, no stored password comes between.
    return aiohttp.ClientSession(base, connector=over, headers=headers, cookie_jar=aiohttp.DummyCookieJar())


def parsed(body: bytes) -> JsonObject:
    """The JSON object in an answer; raises `HarnessdError` if it is something else."""
    try:
        data = from_json(body)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise HarnessdError("the daemon's answer is not what was asked for", hint="are client and daemon one version?")
    return data
