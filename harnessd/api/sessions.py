"""Which sessions does an agent have, how does each stand, and how do they begin and end?"""

import anyio.to_thread
from aiohttp import hdrs, web
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from harnessd.api.answer import answer, answer_at_length
from harnessd.api.body import read_model
from harnessd.api.keys import RUNTIME
from harnessd.api.names import home_of, number, session_of
from harnessd.api.session_list import session_page, with_what_runs
from harnessd.api.transcript import read_transcript
from harnessd.facts.base import Record
from harnessd.facts.state import State
from harnessd.facts.view import View, view
from harnessd.ids import check_id

PAGE, MOST = 50, 200
LAST_SEQ = 2**53


class NewSession(BaseModel):
    """What POST …/sessions takes; all of it may be left out. `model` stands in for the home's own."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)

    user_id: str | None = None
    title: str = ""
    model: str | None = None


class SessionMade(Record):
    """The id of the new session."""

    session_id: str = ""


class Snapshot(Record):
    """A session as of `seq`: events after it, folded into `state`, give every later state."""

    state: State = State()
    view: View = View()
    seq: int = 0


async def listed(request: web.Request) -> web.Response:
    """GET …/sessions?before=SESSION&limit=N: a page, the newest first."""
    home = await home_of(request)
    count = number(request, "limit", PAGE, most=MOST) or PAGE
    before = check_id(request.query["before"], "ses") if "before" in request.query else None
    page = await anyio.to_thread.run_sync(session_page, home, before, count)
    return answer(with_what_runs(page, home, request.app[RUNTIME]))


async def create_one(request: web.Request) -> web.Response:
    """POST …/sessions."""
    home = await home_of(request)
    asked = await read_model(request, NewSession, may_be_empty=True)
    runtime = request.app[RUNTIME]
    async with runtime.visit(home, None, user_id=asked.user_id, model=asked.model, title=asked.title) as session:
        await session.snapshot()
        made = SessionMade(session_id=session.session_id)
    return answer(made, 201, {hdrs.LOCATION: f"{request.rel_url.raw_path}/{made.session_id}"})


async def shown(request: web.Request) -> web.StreamResponse:
    """GET …/sessions/{s}."""
    home, session_id = await home_of(request), session_of(request)
    async with request.app[RUNTIME].visit(home, session_id) as session:
        state = await session.snapshot()
    return await answer_at_length(request, Snapshot(state=state, view=view(state), seq=state.seq))


async def erase(request: web.Request) -> web.Response:
    """DELETE …/sessions/{s}: it is gone, with those of its subagents."""
    home, session_id = await home_of(request), session_of(request)
    await request.app[RUNTIME].erase(home, session_id)
    return web.Response(status=204)


async def transcript(request: web.Request) -> web.StreamResponse:
    """GET …/transcript?before=SEQ&limit=N: a page, in order, that ends below `before`."""
    home, session_id = await home_of(request), session_of(request)
    count = number(request, "limit", PAGE, most=MOST) or PAGE
    before = number(request, "before", None, most=LAST_SEQ)
    async with request.app[RUNTIME].visit(home, session_id) as session:
        page = await read_transcript(session.page, before, count)
    return await answer_at_length(request, page)
