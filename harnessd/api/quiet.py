"""When does a session fall quiet? The answer comes then: its run ended, waits for a person or is parked."""

import anyio
from aiohttp import web

from harnessd.api.answer import answer
from harnessd.api.keys import LISTENERS, RUNTIME
from harnessd.api.names import home_of, session_of
from harnessd.facts.base import Record

LOOK_SECONDS = 1.0


class Quiet(Record):
    """Nothing runs; `seq` is that of the last fact, which is on disk."""

    seq: int = 0


async def quiet(request: web.Request) -> web.Response:
    """GET …/sessions/{s}/quiet: waits, as long as the client does. Raises what broke the session."""
    home, session_id = await home_of(request), session_of(request)
    async with request.app[RUNTIME].visit(home, session_id) as session:
        with request.app[LISTENERS].one_more():
            while not session.quiet:
                with anyio.move_on_after(LOOK_SECONDS):
                    await session.rest()
                if request.transport is None or request.transport.is_closing():
                    raise ConnectionResetError("the client is gone")
            await session.idle()
            state = await session.snapshot()
    return answer(Quiet(seq=state.seq))
