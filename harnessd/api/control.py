"""How a control comes in over HTTP: 202 with what it began, or a problem that says what stands now."""

from aiohttp import web
from pydantic import ValidationError

from harnessd.api.answer import answer
from harnessd.api.body import invalid, read_json
from harnessd.api.keys import RUNTIME
from harnessd.api.names import home_of, session_of
from harnessd.api.problem import Problem
from harnessd.daemon.answer import Refused
from harnessd.facts.base import Record
from harnessd.facts.control import Invoke, read_control
from harnessd.home.portrait import Portrait

VARIANTS = frozenset({"invoke", "resume", "continue", "stop", "updateState", "reload"})
REFUSED = {
    400: "invalid-control",
    403: "forbidden",
    404: "not-found",
    409: "conflict",
    503: "unavailable",
}


class ControlAnswer(Record):
    """What was accepted, durable at `seq`. `run_id` is the run that it starts or is about; None while it is `queued`.

    `waiting_for` names the approvals that stand before a queued message; `portrait` answers a reload.
    """

    run_id: str | None = None
    seq: int = 0
    queued: bool = False
    waiting_for: tuple[str, ...] = ()
    portrait: Portrait | None = None


async def control(request: web.Request) -> web.Response:
    """POST …/control."""
    home, session_id = await home_of(request), session_of(request)
    data = await read_json(request)
    try:
        asked = read_control(data)
    except ValidationError as error:
        raise invalid(error, VARIANTS) from None
    async with request.app[RUNTIME].visit(home, session_id) as session:
        done = await session.control(asked)
    if isinstance(done, Refused):
        raise Problem(done.status, REFUSED.get(done.status, "refused"), done.message, current=done.current)
    told = ControlAnswer(
        run_id=done.run_id,
        seq=done.seq,
        queued=isinstance(asked, Invoke) and done.run_id is None,
        waiting_for=done.waiting_for,
        portrait=done.portrait,
    )
    return answer(told, 202, nulls=True)
