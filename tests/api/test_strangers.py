"""P5: no request without a valid token does anything, and Host and Origin are checked, whatever is asked for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.served import AUTH, PROBLEM, TOKEN, Reply, Served, served

OPEN = {"/healthz", "/readyz"}
CONTROLS = [
    {"control": "invoke", "input": "Do something."},
    {"control": "stop"},
    {"control": "reload"},
]
BODIES = {
    "/api/agents": {"name": "bob"},
    "/api/agents/ada/sessions": {"title": "mine"},
}

STRANGERS: dict[str, dict[str, str | None]] = {
    "no token": {"Authorization": None},
    "an empty one": {"Authorization": "Bearer "},
    "a wrong one": {"Authorization": "Bearer " + "y" * len(TOKEN)},
    "the beginning of the right one": {"Authorization": f"Bearer {TOKEN[:-1]}"},
    "more than the right one": {"Authorization": f"Bearer {TOKEN}x"},
    "in another case": {"Authorization": f"Bearer {TOKEN.upper()}"},
    "not ASCII": {"Authorization": f"Bearer {TOKEN}é"},
    "bytes that are no text": {"Authorization": f"Bearer {TOKEN}\udcff"},
    "without a scheme": {"Authorization": TOKEN},
    "by another scheme": {"Authorization": f"Basic {TOKEN}"},
    "a list of tokens": {"Authorization": f"Bearer {TOKEN}, Bearer {TOKEN}"},
    "two headers": {"Authorization": f"Bearer {TOKEN}\r\nAuthorization: Bearer wrong"},
    "two headers, the right one last": {"Authorization": f"Bearer wrong\r\nAuthorization: Bearer {TOKEN}"},
    "in a cookie": {"Authorization": None, "Cookie": f"token={TOKEN}; Authorization=Bearer {TOKEN}"},
    "in another header": {"Authorization": None, "X-Token": TOKEN, "Proxy-Authorization": f"Bearer {TOKEN}"},
}
FOREIGN_HOSTS = (
    *(
        "evil.example",
        "evil.example:7433",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1@evil.example",
    ),
    *(
        "127.0.0.2",
        "0.0.0.0",
        "[::2]",
        "[::1].evil.example",
        "[::1",
        "::1",
        "localhost:evil",
        "127.0.0.1:1:2",
        "",
        ":80",
    ),
    *(
        "xn--localhost",
        "localhost\udcc3\udca9",
        "127.1",
        "2130706433",
        "0x7f.1",
        "127.0.0.1#",
        "localhost/",
        "localhost,evil",
    ),
)
FOREIGN_ORIGINS = (
    *("null", "https://evil.example", "http://127.0.0.1", "http://127.0.0.1:1", "http://localhost:{port}", "file://"),
    *(
        "http://127.0.0.1:{port}.evil.example",
        "http://127.0.0.1:{port}/",
        "",
        "ws://127.0.0.1:{port}",
        "127.0.0.1:{port}",
    ),
)


@pytest.fixture(scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("strangers")) as open_door:
        yield open_door


async def everything(door: Served, **headers: str | None) -> AsyncIterator[tuple[str, Reply]]:
    """Every route there is, with every method, and for controls with each of them."""
    for method, path in routes(door):
        bodies: list[object] = [None]
        if method == "POST":
            bodies = list(CONTROLS) if path.endswith("/control") else [BODIES[path]]
        for body in bodies:
            yield f"{method} {path}", await door.ask(method, path, body, headers=dict(headers))


def routes(door: Served) -> list[tuple[str, str]]:
    """As the application has them, so that a new one is not forgotten; some that do not exist; every method."""
    from harnessd.api.app import make_app
    from harnessd.api.door import Door

    app = make_app(door.living.runtime, Door(TOKEN))
    session = door.living.home.sessions("main")
    known = next(iter(session.glob("*.jsonl"))).stem if session.is_dir() else "ses_01kbc3fqz-7h2m9xw"
    values = {"{agent}": "ada", "{session}": known, "{artifact}": "art_01kbc3fqz-7h2m9xw"}
    found = []
    for route in app.router.routes():
        path = str(route.resource.canonical if route.resource else "")
        for name, value in values.items():
            path = path.replace(name, value)
        if path not in OPEN:
            found.append((route.method, path))
    assert len(found) > 15
    return [*found, ("GET", "/"), ("GET", "/nothing/here"), ("OPTIONS", "/api/agents"), ("PATCH", "/api/agents/ada")]


async def with_a_session(door: Served) -> str:
    found = await door.ask("GET", "/api/agents/ada/sessions")
    return str(found.json["sessions"][0]["sessionId"]) if found.json["sessions"] else await door.session()


async def nothing_open(door: Served) -> None:
    """Lets go of every session, so that one that is opened can be told."""
    runtime = door.living.runtime
    for session in runtime.sessions.open():
        await runtime.sessions.let_go((door.living.home.path, session.session_id))
    assert runtime.sessions.open() == ()


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
async def test_p5_a_stranger_makes_nothing_happen(door: Served, headers: dict[str, str | None]) -> None:
    await with_a_session(door)
    await nothing_open(door)
    before = door.snapshot()
    async for what, reply in everything(door, **headers):
        assert reply.status == 401, what
        assert reply.headers["www-authenticate"].startswith("Bearer"), what
        assert not reply.body or reply.kind in {"no-token", "wrong-token"}, what
        assert TOKEN.encode() not in reply.body
    assert door.living.runtime.sessions.open() == ()
    assert door.snapshot() == before
    assert door.living.requests == []


async def test_p5_a_token_in_the_query_is_none(door: Served) -> None:
    session = await with_a_session(door)
    await nothing_open(door)
    before = door.snapshot()
    for name in ("token", "access_token", "Authorization", "authorization"):
        for path in ("/api/agents", "/api/approvals", f"/api/agents/ada/sessions/{session}/events"):
            reply = await door.ask("GET", f"{path}?{name}={TOKEN}", headers={"Authorization": None})
            assert reply.status == 401
    assert door.snapshot() == before
    assert door.living.runtime.sessions.open() == ()


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
async def test_p5_a_foreign_host_is_refused_even_with_the_token(door: Served, host: str) -> None:
    session = await with_a_session(door)
    await nothing_open(door)
    before = door.snapshot()
    for method, path, body in (
        ("GET", "/api/agents", None),
        ("POST", "/api/agents", {"name": "bob"}),
        ("DELETE", f"/api/agents/ada/sessions/{session}", None),
        ("POST", f"/api/agents/ada/sessions/{session}/control", CONTROLS[0]),
    ):
        reply = await door.ask(method, path, body, headers={"Host": host})
        assert reply.status in {400, 403}, (host, reply)
        assert reply.headers["content-type"].startswith(PROBLEM)
    assert door.snapshot() == before
    assert door.living.runtime.sessions.open() == ()


async def test_p5_a_host_is_named_once(door: Served) -> None:
    path = "GET /api/agents HTTP/1.1\r\n"
    token = f"Authorization: Bearer {TOKEN}\r\n"
    own = f"Host: 127.0.0.1:{door.at.port}\r\n"
    for lines in (path + token, path + own + own + token, path + own + "Host: evil.example\r\n" + token):
        reply = await door.send((lines + "Connection: close\r\n\r\n").encode())
        assert reply is not None
        assert reply.status == 400
    whole_url = f"GET http://evil.example/api/agents HTTP/1.1\r\n{own}{token}Connection: close\r\n\r\n"
    reply = await door.send(whole_url.encode())
    assert reply is not None
    assert reply.status in {400, 403}


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}", "127.0.0.1"])
async def test_p5_our_own_names_are_answered(door: Served, host: str) -> None:
    named = host.replace("{port}", str(door.at.port))
    assert (await door.ask("GET", "/api/agents", headers={"Host": named})).status == 200
    for origin in (f"http://{named}", f"https://{named}"):
        assert (await door.ask("GET", "/api/agents", headers={"Host": named, "Origin": origin})).status == 200


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_p5_a_foreign_origin_is_refused_even_with_the_token(door: Served, origin: str) -> None:
    await with_a_session(door)
    await nothing_open(door)
    before = door.snapshot()
    async for what, reply in everything(door, Origin=origin.replace("{port}", str(door.at.port))):
        assert reply.status == 403, what
        assert "access-control-allow-origin" not in reply.headers
    assert door.snapshot() == before
    assert door.living.runtime.sessions.open() == ()


async def test_p5_the_configured_host_is_answered_and_the_unix_socket_needs_the_token_too(tmp_path: Path) -> None:
    async with served(tmp_path, hosts=("box.lan", "fe80::1")) as door:
        for host in ("box.lan", "BOX.lan:7433", "[fe80::1]:7433"):
            assert (await door.ask("GET", "/api/agents", headers={"Host": host})).status == 200
        assert (await door.ask("GET", "/api/agents", unix=True, headers={"Host": "anything"})).status == 200
        assert (await door.ask("GET", "/api/agents", unix=True, headers={"Authorization": None})).status == 401
        foreign = {"Host": "anything", "Origin": "http://evil.example"}
        assert (await door.ask("GET", "/api/agents", unix=True, headers=foreign)).status == 403


async def test_p5_health_is_open_and_tells_nothing(door: Served) -> None:
    nobody = {"Authorization": None, "Host": "evil.example", "Origin": "http://evil.example"}
    for path in OPEN:
        for method in ("GET", "HEAD"):
            reply = await door.ask(method, path, headers=nobody)
            assert reply.status == 200
            assert reply.body in {b"", b'{"status":"ok"}'}
        for method in ("POST", "PUT", "DELETE"):
            assert (await door.ask(method, path, headers=nobody)).status == 405
        assert (await door.ask("GET", path + "/x", headers=nobody)).status in {401, 403}


async def test_p5_the_token_is_in_no_repr() -> None:
    from harnessd.api.door import Door

    assert TOKEN not in repr(Door(TOKEN))
    assert AUTH["Authorization"].endswith(TOKEN)


async def test_p5_a_door_without_a_token_does_not_open(door: Served) -> None:
    from harnessd.api.app import make_app
    from harnessd.api.door import Door

    with pytest.raises(ValueError, match="token"):
        make_app(door.living.runtime, Door(""))
