"""Every error is a problem of RFC 9457, with the way out where there is one, and never a traceback."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from harnessd import errors
from harnessd.api.problem import Problem, problem_of, respond
from harnessd.errors import HarnessdError
from harnessd.facts.event import ToolApprovalResolved, UnknownEvent
from harnessd.facts.run import Approval
from tests.api.served import Served, served

EXPECTED = {
    "HarnessdError": (500, "harnessd-error"),
    "UsageError": (400, "usage-error"),
    "HomeNotFound": (404, "home-not-found"),
    "NotAHome": (404, "not-a-home"),
    "InvalidName": (400, "invalid-name"),
    "SessionNotFound": (404, "session-not-found"),
    "RunNotFound": (404, "run-not-found"),
    "Conflict": (409, "conflict"),
    "Locked": (423, "locked"),
    "StorageError": (507, "storage-error"),
    "HistoryError": (409, "history-error"),
    "ModelUnavailable": (503, "model-unavailable"),
    "KeyMissing": (503, "key-missing"),
}


@pytest.fixture(scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("problems")) as open_door:
        yield open_door


def every_error(kind: type[HarnessdError] = HarnessdError) -> Iterator[type[HarnessdError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from every_error(below)


def test_every_error_of_the_tree_has_its_status() -> None:
    found = {kind.__name__: kind for kind in every_error()}
    assert found.keys() == EXPECTED.keys()
    for name, kind in found.items():
        problem = problem_of(kind("it broke", where="a place", hint="mend it"))
        body = json.loads(respond(problem, "/there").body)  # type: ignore[arg-type]
        status, words = EXPECTED[name]
        assert body == {
            "type": f"urn:harnessd:problem:{words}",
            "title": words.replace("-", " ").capitalize(),
            "status": status,
            "detail": "it broke",
            "instance": "/there",
            "where": "a place",
            "hint": "mend it",
        }


@pytest.mark.parametrize(
    ("current", "written"),
    [
        (None, None),
        (7, 7),
        (Approval(id="apr_1"), "apr_1"),
        (ToolApprovalResolved(seq=3, approval_id="apr_1"), "apr_1"),
        (
            UnknownEvent(seq=3, type="x.y", raw={"seq": 3, "type": "x.y", "new": [1]}),
            {"seq": 3, "type": "x.y", "new": [1]},
        ),
    ],
)
def test_what_stands_now_is_in_the_problem_as_it_was_recorded(current: object, written: object) -> None:
    response = respond(Problem(409, "conflict", "no", current=current))  # type: ignore[arg-type]
    told = json.loads(response.body).get("current")  # type: ignore[arg-type]
    assert (told.get("id") or told.get("approvalId") if isinstance(written, str) else told) == written


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/", "/api/agents/", "/API/agents", "/api/agents/ada/nothing", "//api/agents"]
)
async def test_an_unknown_route_is_404(door: Served, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        reply = await door.ask(method, path)
        assert (reply.status, reply.kind) == (404, "no-such-route"), (method, path)
    assert reply.json["instance"] == path


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/healthz", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
        ("/api/agents", "GET, HEAD, POST"),
        ("/api/agents/ada", "GET, HEAD"),
        ("/api/agents/ada/sessions", "GET, HEAD, POST"),
        ("/api/agents/ada/sessions/ses_01kbc3fqz-7h2m9xw", "DELETE, GET, HEAD"),
        ("/api/agents/ada/sessions/ses_01kbc3fqz-7h2m9xw/transcript", "GET, HEAD"),
        ("/api/agents/ada/sessions/ses_01kbc3fqz-7h2m9xw/control", "POST"),
        ("/api/agents/ada/sessions/ses_01kbc3fqz-7h2m9xw/artifacts/x", "GET, HEAD"),
        ("/api/approvals", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_which_are_right(door: Served, path: str, allowed: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PURGE"} - set(allowed.split(", ")):
        reply = await door.ask(method, path)
        assert (reply.status, reply.kind) == (405, "method-not-allowed"), method
        assert reply.headers["allow"] == allowed
    options = await door.ask("OPTIONS", path)
    assert (options.status, options.body, options.headers["allow"]) == (204, b"", allowed)
    assert not any(name.startswith("access-control") for name in options.headers)


async def test_a_head_is_a_get_without_its_body(door: Served) -> None:
    session = await door.session()
    for path in ("/api/agents", f"/api/agents/ada/sessions/{session}", "/api/approvals"):
        get, head = await door.ask("GET", path), await door.ask("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]


async def test_no_answer_is_kept_guessed_at_or_signed_by_what_serves_it(door: Served) -> None:
    for path in ("/api/agents", "/nothing", "/healthz"):
        reply = await door.ask("GET", path)
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["server"] == "harnessd"


async def test_a_fault_is_told_without_a_traceback_and_logged_with_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from aiohttp import web

    from harnessd.api.app import make_app
    from harnessd.api.door import Door
    from harnessd.api.listen import listening
    from tests.api.served import TOKEN
    from tests.daemon.living import living

    async def breaks(_: web.Request) -> web.Response:
        raise RuntimeError("a secret detail")

    async def breaks_midway(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"so far")
        raise RuntimeError("a secret detail")

    async with living(tmp_path, []) as alive:
        app = make_app(alive.runtime, Door(TOKEN))
        app.router.add_get("/breaks", breaks)
        app.router.add_get("/midway", breaks_midway)
        async with listening(app, "127.0.0.1", 0, tmp_path / "state" / "d.sock") as at:
            door = Served(alive, at, tmp_path)
            reply = await door.ask("GET", "/breaks")
            assert (reply.status, reply.kind) == (500, "fault")
            assert b"secret" not in reply.body
            assert b"Traceback" not in reply.body
            reader, writer = await door.connect()
            writer.write(f"GET /midway HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            rest = await reader.read()
            assert rest.count(b"HTTP/1.1") == 1
            assert not rest.endswith(b"0\r\n\r\n")  # the client can tell that it was cut short
            writer.close()
    assert caplog.text.count("a secret detail") >= 2


async def test_readyz_says_why_not(tmp_path: Path) -> None:
    from harnessd.api.app import make_app
    from harnessd.api.door import Door, Readiness
    from harnessd.api.listen import listening
    from tests.api.served import TOKEN
    from tests.daemon.living import living

    standing = [Readiness(False, "it is recovering")]
    async with living(tmp_path, []) as alive:
        app = make_app(alive.runtime, Door(TOKEN, ready=lambda: standing[-1]))
        async with listening(app, "127.0.0.1", 0, tmp_path / "state" / "d.sock") as at:
            door = Served(alive, at, tmp_path)
            reply = await door.ask("GET", "/readyz", headers={"Authorization": None})
            assert (reply.status, reply.kind, reply.json["detail"]) == (503, "not-ready", "it is recovering")
            assert (await door.ask("GET", "/healthz", headers={"Authorization": None})).status == 200
            standing.append(Readiness(True, "safe mode: three starts failed"))
            reply = await door.ask("GET", "/readyz", headers={"Authorization": None})
            assert reply.json == {"status": "ok", "note": "safe mode: three starts failed"}
