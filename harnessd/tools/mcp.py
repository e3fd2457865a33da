"""How one MCP server is spoken to: connected, asked for its tools, called."""

import importlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread

from harnessd.facts.message import JsonObject, Part, TextPart
from harnessd.facts.state import QuestionAnswer
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.tools.elicitation import Wanted, asked_beforehand, elicitation, responses_to, wanted_by
from harnessd.tools.helper_log import HelperLog
from harnessd.tools.listed import ListedTool
from harnessd.tools.mcp_content import content_of, misfit
from harnessd.tools.mcp_failure import TookTooLong
from harnessd.tools.mcp_remote import Heard, remote
from harnessd.tools.mcp_stdio import stdio
from harnessd.tools.mcp_vetting import Vetting, vetted
from harnessd.tools.tool import Ask, Produced

if TYPE_CHECKING:
    from mcp import Client

PAGES_AT_MOST = 50
PROGRESS_SECONDS = 0.1
"""A server's news of its progress are passed on at most that often."""

NO_LIMIT = 10 * 365 * 86400.0
PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 1.0, 1.0)
"""Seconds before a call is sent again whose server answered with nothing but a state to come back with."""

Era = Literal["auto", "legacy"]
Server = StdioServer | RemoteServer


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers, sentences on what can't be used of it, and whether there was more than is taken."""

    tools: tuple[ListedTool, ...]
    faults: tuple[str, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's answer; `is_error` is the server's own word, `files` are pictures, sounds and the like."""

    parts: tuple[Part, ...]
    is_error: bool
    files: tuple[Produced, ...] = ()


class Link:
    """A live connection. Any task may call; the task that opened it ends it."""

    def __init__(self, client: "Client", ended: anyio.Event, vetting: Vetting) -> None:
        self._client = client
        self._vetting = vetting
        self._schemas: dict[str, JsonObject] = {}
        self.ended = ended

    @property
    def protocol(self) -> str:
        """The negotiated version."""
        return self._client.protocol_version

    @property
    def era(self) -> Era:
        """How to connect to this server the next time without trying first what it does not know."""
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        return "legacy" if self.protocol in HANDSHAKE_PROTOCOL_VERSIONS else "auto"

    async def tools(self) -> Listing:
        """The server's tools. Raises whatever `mcp_failure.failure_of` understands."""
        vetting, cursor, passed = self._vetting, None, set[str]()
        vetting.begin()
        for _ in range(PAGES_AT_MOST):
            page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
            passed |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if not cursor or vetting.full:
                break
        # The library drops tools whose headers break the rules of the protocol.
        tools = tuple(tool for tool in vetting.tools if tool.name in passed)
        self._schemas = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
        return Listing(tools, tuple(vetting.faults), cut=vetting.full or bool(cursor))

    async def watch(self, changed: Callable[[], None]) -> None:
        """Calls `changed` whenever the server says that its tools changed, as servers of 2026 do it.

        Older ones send a notification by themselves, which `connect` passes on. Ends where the server has no such news.
        """
        offered = self._client.server_capabilities.tools
        if self.era == "legacy" or offered is None or not offered.list_changed:
            return
        async with self._client.listen(tools_list_changed=True) as news:
            changed()  # what changed before this stood was told to nobody
            async for _ in news:
                changed()

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        *,
        seconds: float,
        key: str,
        tell_progress: Callable[[str], None],
        answers: Sequence[QuestionAnswer] = (),
        patience: anyio.CancelScope | None = None,
    ) -> Answered | Wanted:
        """Calls a tool, or goes on with a call whose questions are answered.

        `key` is the call's idempotency key. `patience` becomes the scope that ends it after so many seconds. Raises
        whatever `mcp_failure.failure_of` understands.
        """
        with patience or anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + seconds
            try:
                return await self._call(name, arguments, key, tell_progress, answers)
            except Exception as error:
                wanted = asked_beforehand(error)
                if wanted is None:
                    raise
                return wanted
        raise TookTooLong(f"no answer within {seconds:g} s")

    async def _call(
        self,
        name: str,
        arguments: JsonObject,
        key: str,
        tell_progress: Callable[[str], None],
        answers: Sequence[QuestionAnswer],
    ) -> Answered | Wanted:
        from mcp_types import CallToolResult

        told = 0.0

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told
            if time.monotonic() - told < PROGRESS_SECONDS:
                return
            told = time.monotonic()
            tell_progress(f"{message or 'working'} ({progress:g}{f' of {total:g}' if total else ''})\n")

        meta: Any = {"harnessd/idempotencyKey": key}
        resent = [one for one in answers if one.question.way == "resend"]
        responses, state = responses_to(resent), resent[-1].question.request_state if resent else None
        pauses = iter(PAUSES)
        while True:
            result = await self._client.session.call_tool(
                name,
                arguments,
                read_timeout_seconds=NO_LIMIT,  # `call` has the clock, which stands still while a person is asked
                progress_callback=tell,
                input_responses=responses,
                request_state=state,
                meta=meta,
                allow_input_required=True,
            )
            if isinstance(result, CallToolResult):
                break
            pause = next(pauses, None)
            if result.input_requests or pause is None:
                return wanted_by(result)
            # A state without a question only asks to come again.
            responses, state = None, result.request_state
            await anyio.sleep(pause)
        # Off the event loop: what servers send as base64 may be megabytes.
        heavy = any(block.type != "text" for block in result.content)
        parts, files = await anyio.to_thread.run_sync(content_of, result) if heavy else content_of(result)
        schema = self._schemas.get(name)
        if schema is not None and not result.is_error:
            fault = await anyio.to_thread.run_sync(misfit, schema, result.structured_content)
            if fault is not None:
                return Answered((*parts, TextPart(text=f"[{fault}]")), True, files)
        return Answered(parts, bool(result.is_error), files)


async def load_library() -> None:
    """Imports the MCP library, which takes a second or two, without stalling anything; before any `connect`."""
    await anyio.to_thread.run_sync(importlib.import_module, "mcp.client.client")


@asynccontextmanager
async def connect(
    server: StdioServer | RemoteServer,
    *,
    sandbox: Sandbox,
    log: HelperLog,
    era: Era,
    tools_changed: Callable[[], None],
    ask: Ask,
) -> AsyncIterator[Link]:
    """A connection for as long as the block runs; enter and leave it in one task.

    A stdio server runs in `sandbox`, in the home's folder unless its configuration says otherwise; `log` takes what it
    writes to stderr. `tools_changed` is called when the server says that its tools changed, `ask` when a server from
    before 2026 has a question. Sampling and roots are not offered, so that no server counts on them.
    Raises whatever `mcp_failure.failure_of` understands.
    """
    from mcp import Client
    from mcp_types import ServerNotification, ToolListChangedNotification

    from harnessd import __version__

    async def notified(message: "ServerNotification | Exception") -> None:
        if isinstance(message, ToolListChangedNotification):
            tools_changed()

    ended, vetting, heard = anyio.Event(), Vetting(), Heard()
    if isinstance(server, StdioServer):
        transport: Any = stdio(server, sandbox, log, ended)
    else:
        transport = remote(server, heard)
    client = Client(
        vetted(transport, vetting),
        mode=era,
        message_handler=notified,
        elicitation_callback=elicitation(ask),
        client_info=_implementation("harnessd", __version__),
        read_timeout_seconds=server.timeout or 60.0,
        cache=None,
    )
    try:
        async with client:
            heard.status = 0
            yield Link(client, ended, vetting)
    except Exception as error:
        if heard.status >= 400:
            error.add_note(f"the URL answers {heard.status}; is it the server's MCP endpoint?")
        raise


def _implementation(name: str, version: str) -> Any:
    from mcp_types import Implementation

    return Implementation(name=name, version=version)
