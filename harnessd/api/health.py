"""Is the daemon alive, and does it carry out controls now? Anybody may ask; nothing else is told."""

from aiohttp import web

from harnessd.api.answer import answer
from harnessd.api.keys import DOOR
from harnessd.api.problem import Problem
from harnessd.facts.base import Record


class Health(Record):
    """What /healthz and /readyz say when all is well; `note` is what a person should know (safe mode)."""

    status: str = "ok"
    note: str | None = None


async def healthz(_: web.Request) -> web.Response:
    """200 as long as the process serves at all."""
    return answer(Health())


async def readyz(request: web.Request) -> web.Response:
    """200 once the daemon has recovered and listens, 503 before that and while it drains."""
    standing = request.app[DOOR].ready()
    if not standing.ready:
        raise Problem(503, "not-ready", standing.note or "the daemon is not ready", headers={"Retry-After": "1"})
    return answer(Health(note=standing.note or None))
