"""Which requests there are, and who answers each: the HTTP API of one runtime."""

import logging

from aiohttp import hdrs, web

from harnessd.api import agents, approvals, artifacts, control, health, sessions
from harnessd.api.door import Door
from harnessd.api.guard import Handler, guard
from harnessd.api.keys import DOOR, HASHES, LISTENERS, RUNTIME
from harnessd.api.listeners import Listeners
from harnessd.api.names import home_of, session_of
from harnessd.api.problem import Problem, problem_of, respond
from harnessd.api.quiet import quiet
from harnessd.api.stream import events
from harnessd.daemon.assemble import Runtime
from harnessd.errors import HarnessdError
from harnessd.tools.artifact_content import KnownHashes

log = logging.getLogger(__name__)

AGENT = "/api/agents/{agent}"
SESSION = AGENT + "/sessions/{session}"


def make_app(runtime: Runtime, door: Door) -> web.Application:
    """The application that serves `runtime` to whoever `door` lets in. It opens and closes nothing of the runtime."""
    app = web.Application(middlewares=[_problems, guard(door)])
    app[RUNTIME] = runtime
    app[DOOR] = door
    app[HASHES] = KnownHashes()
    app[LISTENERS] = Listeners(door.limits.streams)
    app.on_response_prepare.append(_headers)
    app.on_shutdown.append(_end_streams)
    for method, path, handler in (
        ("GET", "/healthz", health.healthz),
        ("GET", "/readyz", health.readyz),
        ("GET", "/api/agents", agents.listed),
        ("POST", "/api/agents", agents.create_one),
        ("GET", AGENT, agents.shown),
        ("GET", AGENT + "/sessions", sessions.listed),
        ("POST", AGENT + "/sessions", sessions.create_one),
        ("GET", SESSION, sessions.shown),
        ("DELETE", SESSION, sessions.erase),
        ("GET", SESSION + "/transcript", sessions.transcript),
        ("GET", SESSION + "/events", _stream),
        ("GET", SESSION + "/quiet", quiet),
        ("POST", SESSION + "/control", control.control),
        ("GET", SESSION + "/artifacts/{artifact}", artifacts.content),
        ("GET", "/api/approvals", approvals.listed),
    ):
        app.router.add_route(method, path, handler, expect_handler=_later)
        if method == "GET" and handler not in {_stream, quiet}:
            app.router.add_route("HEAD", path, handler, expect_handler=_later)
    return app


async def _later(_: web.Request) -> None:
    """Who expects to be told to go on with a body is told when the body is wanted, and a stranger never is."""


async def _stream(request: web.Request) -> web.StreamResponse:
    session_of(request)
    await home_of(request)
    with request.app[LISTENERS].one_more():
        return await events(request)


async def _end_streams(app: web.Application) -> None:
    app[LISTENERS].let_go()


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever goes wrong is told as a problem; a fault of ours is logged, and the client learns no more than that."""
    try:
        return await handler(request)
    except Problem as problem:
        found = problem
    except HarnessdError as error:
        found = problem_of(error)
        if found.status >= 500:
            log.warning("%s %s: %s", request.method, request.path, error)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        if request.method == hdrs.METH_OPTIONS:
            return web.Response(status=204, headers={hdrs.ALLOW: allowed})
        detail = f"this takes {allowed}, not {request.method}"
        found = Problem(405, "method-not-allowed", detail, headers={hdrs.ALLOW: allowed})
    except web.HTTPNotFound:
        found = Problem(404, "no-such-route", "there is nothing at this path")
    except web.HTTPException as error:
        found = Problem(error.status, error.reason.lower().replace(" ", "-"), error.reason)
    except ConnectionError:
        raise  # the client is gone
    except Exception as error:
        log.exception("%s %s", request.method, request.path)
        said = f"the daemon could not do this because of a fault of its own ({type(error).__name__})"
        found = Problem(500, "fault", said, hint="its log says more; please report it")
    if found.status in REFUSALS:
        log.info("refused %s %s: %s", request.method, request.rel_url.raw_path, found.detail)
    if request.get(ANSWERED):
        raise ConnectionResetError("the answer had begun when this went wrong") from None
    return respond(found, request.rel_url.raw_path)


REFUSALS = frozenset({401, 403, 429})
ANSWERED: web.RequestKey[bool] = web.RequestKey("answered", bool)


async def _headers(request: web.Request, response: web.StreamResponse) -> None:
    """No answer is kept by anybody, guessed at or framed, unless it says otherwise itself."""
    request[ANSWERED] = True
    response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers[hdrs.SERVER] = "harnessd"
