"""Which agents live here, what is each, and how does another one come to be?"""

import contextlib
import os
from collections import Counter
from pathlib import Path

import anyio.to_thread
from aiohttp import hdrs, web
from pydantic import BaseModel, ConfigDict

from harnessd.api.answer import answer
from harnessd.api.body import read_model
from harnessd.api.keys import RUNTIME
from harnessd.api.names import home_of
from harnessd.daemon.assemble import Runtime
from harnessd.errors import Conflict, HarnessdError
from harnessd.facts.base import Record
from harnessd.home.create import create
from harnessd.home.layout import Home
from harnessd.home.portrait import Portrait
from harnessd.home.templates import DEFAULT, find_template
from harnessd.ids import check_name


class AgentEntry(Record):
    """An agent in the list: its name, and how many approvals wait for a person."""

    name: str = ""
    waiting: int = 0


class AgentList(Record):
    """Every agent, by name."""

    agents: tuple[AgentEntry, ...] = ()


class AgentShown(Portrait):
    """An agent: its portrait, and beside it how many sessions it has and how many approvals wait for a person."""

    sessions: int = 0
    waiting: int = 0


class NewAgent(BaseModel):
    """What POST /api/agents takes; `template` is the name of one that ships."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    template: str = DEFAULT


async def listed(request: web.Request) -> web.Response:
    """GET /api/agents."""
    runtime = request.app[RUNTIME]
    homes = await anyio.to_thread.run_sync(runtime.homes)
    waiting = Counter(one.home for one in runtime.waiting())
    return answer(AgentList(agents=tuple(AgentEntry(name=home.name, waiting=waiting[home.name]) for home in homes)))


async def create_one(request: web.Request) -> web.Response:
    """POST /api/agents: a new home from a template; 409 if anything of that name is there."""
    asked = await read_model(request, NewAgent)
    home = await anyio.to_thread.run_sync(_create, request.app[RUNTIME], asked)
    place = {str(hdrs.LOCATION): f"/api/agents/{home.name}"}
    return answer(await _shown(request.app[RUNTIME], home), 201, place)


async def shown(request: web.Request) -> web.Response:
    """GET /api/agents/{a}."""
    return answer(await _shown(request.app[RUNTIME], await home_of(request)))


async def _shown(runtime: Runtime, home: Home) -> AgentShown:
    portrait = await anyio.to_thread.run_sync(runtime.portrait, home)
    sessions = await anyio.to_thread.run_sync(_count, home.sessions("main"))
    waiting = sum(one.home == home.name for one in runtime.waiting())
    return AgentShown(**dict(portrait), sessions=sessions, waiting=waiting)


def _create(runtime: Runtime, asked: NewAgent) -> Home:
    template = find_template(asked.template)
    path = runtime.settings.workspaces / check_name(asked.name, "name of an agent")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()  # of two that ask at once, one makes it
    except FileExistsError:
        raise Conflict(f"{asked.name} is there already", hint="choose another name") from None
    try:
        return create(path, template=template, trust=runtime.trust).home
    except HarnessdError:
        with contextlib.suppress(OSError):
            path.rmdir()  # if nothing was made in it, the name is free again
        raise


def _count(folder: Path) -> int:
    try:
        return sum(name.endswith(".jsonl") for name in os.listdir(folder))  # noqa: PTH208 - the names are enough
    except OSError:
        return 0
