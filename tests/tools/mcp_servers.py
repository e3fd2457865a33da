"""What the tests of MCP servers share: servers that misbehave on purpose, opened, called and looked for."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio

from harnessd.facts.state import OpenCall
from harnessd.home.expand import MissingVariable
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.servers import Servers, open_servers
from harnessd.tools.tool import Outcome, Tool
from tests.tools.a_session import no_context
from tests.tools.surroundings import surroundings

MARKS = count(os.getpid() * 1000)
HOSTILE = Path(__file__).with_name("hostile_server.py")


@asynccontextmanager
async def servers_of(folder: Path, **servers: StdioServer | RemoteServer | MissingVariable) -> AsyncIterator[Servers]:
    async with open_servers(surroundings(folder), logs=folder / "logs") as opened:
        opened.configure(servers)
        await opened.ready(30)
        yield opened


def hostile(how: str, timeout: float | None = None) -> StdioServer:
    return StdioServer(command=sys.executable, args=(str(HOSTILE), how, f"mark-{next(MARKS)}"), timeout=timeout)


def tool(servers: Servers, name: str) -> Tool:
    return next(one for one in servers.tools() if name in {one.name, one.own_name})


async def call(one: Tool, **arguments: object) -> Outcome:
    with anyio.fail_after(one.timeout + 1):
        return await one.run(no_context(OpenCall()), arguments)


def living(server: StdioServer) -> list[int]:
    """Every process that was started with the server's own arguments, or forked from one, wherever it hides."""
    mark = server.args[-1].encode()
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in words_of(entry)]


def words_of(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")  # of a zombie: nothing
    except OSError:
        return []
