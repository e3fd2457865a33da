"""Which home, session or page does a URL mean? A name in a URL is a name, never a path."""

import anyio.to_thread
from aiohttp import web

from harnessd.api.keys import RUNTIME
from harnessd.api.problem import Problem
from harnessd.errors import InvalidName
from harnessd.home.layout import Home
from harnessd.ids import check_id


async def home_of(request: web.Request) -> Home:
    """The home under the workspaces that the URL names. Raises `InvalidName`, `HomeNotFound`, `NotAHome`."""
    name = request.match_info["agent"]
    if not _is_plain(name):
        raise InvalidName("this cannot name an agent", hint="GET /api/agents lists those that there are")
    return await anyio.to_thread.run_sync(request.app[RUNTIME].home, name)


def session_of(request: web.Request) -> str:
    """The session's id, well formed. Raises `InvalidName`."""
    return check_id(request.match_info["session"], "ses")


def number(request: web.Request, name: str, default: int | None, *, most: int) -> int | None:
    """A whole number of the query, at least 1; more than `most` counts as `most`. Raises `Problem` 400."""
    given = request.query.getall(name, [])
    if not given:
        return default
    text = given[0]
    if len(given) > 1 or not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) < 1:
        raise Problem(400, "invalid-query", f"{name} must be one whole number, at least 1", where=name)
    return min(int(text), most)


def _is_plain(name: str) -> bool:
    """One step of a path that begins with nothing special; names are read more tolerantly than written."""
    return name[:1] not in {"", ".", "~"} and not any(sign in "/\\%" or not sign.isprintable() for sign in name)
