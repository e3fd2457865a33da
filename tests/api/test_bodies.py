"""P5: oversized, malformed and slow bodies are bounded, and say what is wrong and where."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from harnessd.api.door import Limits
from tests.api.served import TOKEN, Served, read_reply, served

LIMIT = 64 * 1024
SESSIONS = "/api/agents/ada/sessions"


@pytest.fixture(scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    limits = Limits(body=LIMIT, body_seconds=0.3, idle_seconds=0.4)
    async with served(tmp_path_factory.mktemp("bodies"), limits=limits) as open_door:
        yield open_door


def deep(levels: int, *, lists: bool = False) -> bytes:
    opening, closing = (b"[", b"]") if lists else (b'{"a":', b"}")
    return b'{"workspaceContext":' + opening * levels + b"1" + closing * levels + b"}"


MALFORMED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "line 1"),
    "cut short": (b'{"control":"invoke"', "line 1 column 19"),
    "on the second line": (b'{\n"control": invoke}', "line 2 column"),
    "two values": (b"{} {}", "line 1"),
    "a comment": (b"{} // yes", "line 1"),
    "single quotes": (b"{'control': 'stop'}", "line 1"),
    "a trailing comma": (b'{"control":"stop",}', "line 1"),
    "no UTF-8": (b'{"input":"\xff\xfe"}', "line 1"),
    "UTF-16": ('{"control":"stop"}'.encode("utf-16"), "line 1"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "line 1"),
    "half a surrogate": (b'{"control":"invoke","input":"\\ud800"}', "line 1"),
    "NaN": (b'{"control":"invoke","input":NaN}', "line 1"),
    "infinity": (b'{"control":"invoke","input":"x","expectedSeq":1e999}', "too large"),
    "infinity inside": (b'{"control":"invoke","input":"x","workspaceContext":{"a":[-1e999]}}', "too large"),
    "a list": (b'[{"control":"stop"}]', "object"),
    "a text": (b'"stop"', "object"),
    "null": (b"null", "object"),
    "deep objects": (deep(70), "deep"),
    "deep lists": (deep(70, lists=True), "deep"),
    "very deep objects": (deep(5000), "recursion"),
    "very deep lists": (deep(20000, lists=True), "recursion"),
    "a form": (b"control=stop", "line 1"),
}

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "no control": ({}, "control"),
    "an unknown control": ({"control": "dance"}, "control"),
    "a control that is no text": ({"control": 7}, "control"),
    "a missing field": ({"control": "invoke"}, "input"),
    "an unknown field": ({"control": "stop", "force": True}, "force"),
    "a wrong type": ({"control": "invoke", "input": 7}, "input"),
    "a wrong choice": ({"control": "invoke", "input": "x", "whenBusy": "shout"}, "whenBusy"),
    "a wrong part": ({"control": "invoke", "input": [{"type": "smell"}]}, "input"),
    "a wrong decision": ({"control": "resume", "approvalId": "apr_1", "decision": "perhaps"}, "decision"),
    "no approval": ({"control": "resume", "decision": "allow"}, "approvalId"),
    "no patch": ({"control": "updateState"}, "patch"),
    "a patch of what can't be patched": ({"control": "updateState", "patch": {"seq": 1}}, "patch"),
}


@pytest.mark.parametrize(("body", "said"), MALFORMED.values(), ids=MALFORMED)
async def test_p5_a_malformed_body_is_told_with_its_place(door: Served, body: bytes, said: str) -> None:
    session = await door.session()
    sent = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    reply = await door.ask("POST", f"{SESSIONS}/{session}/control", raw=body, headers=sent)
    assert reply.status == 400, reply
    assert reply.kind in {"malformed-json", "invalid-body"}
    assert said in reply.json["detail"]
    async with door.living.runtime.visit(door.living.home, session) as found:
        assert found.state.seq == 1


@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG)
async def test_p5_a_body_of_the_wrong_shape_names_the_field(door: Served, body: dict[str, object], field: str) -> None:
    session = await door.session()
    reply = await door.control(session, **body)
    assert reply.status == 400, reply
    assert field in reply.json["detail"]


@pytest.mark.parametrize("body", [{"name": "bob", "extra": 1}, {"template": "default"}, {"name": 7}, {"name": None}])
async def test_p5_an_agent_of_the_wrong_shape_is_refused(door: Served, body: dict[str, object]) -> None:
    before = sorted(door.living.runtime.settings.workspaces.iterdir())
    assert (await door.ask("POST", "/api/agents", body)).status == 400
    assert sorted(door.living.runtime.settings.workspaces.iterdir()) == before


async def test_p5_as_deep_as_the_journal_can_hold_is_taken(door: Served) -> None:
    session = await door.session()
    scene: object = 1
    for _ in range(60):
        scene = {"a": scene}
    reply = await door.control(session, control="updateState", patch={"workspaceContext": scene})
    assert reply.status == 202
    async with door.living.runtime.visit(door.living.home, session) as found:
        assert (await found.page(None, 1))[0].seq == reply.json["seq"]


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "json",
        "",
        "text/json",
    ],
)
async def test_p5_only_json_is_taken(door: Served, kind: str | None) -> None:
    session = await door.session()
    reply = await door.ask("POST", f"{SESSIONS}/{session}/control", {"control": "stop"}, headers={"Content-Type": kind})
    assert reply.status == 415
    assert reply.kind == "unsupported-media-type"


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "application/json;charset=UTF-8", "application/merge-patch+json"]
)
async def test_json_by_its_other_names_is_taken(door: Served, kind: str) -> None:
    assert (await door.ask("POST", SESSIONS, {}, headers={"Content-Type": kind})).status == 201


async def test_p5_other_charsets_and_compressed_bodies_are_refused(door: Served) -> None:
    for headers in (
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "br"},
    ):
        assert (await door.ask("POST", SESSIONS, {"title": "x"}, headers=headers)).status == 415


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT * 20])
async def test_p5_an_oversized_body_is_refused_before_it_is_read(door: Served, size: int) -> None:
    body = json.dumps({"title": "x" * size}).encode()
    reply = await door.ask("POST", SESSIONS, raw=body)
    assert reply.status == 413
    assert reply.kind == "too-large"
    head = request_head("POST", SESSIONS, {"Content-Length": "999999999999"})
    answer = await door.send(head)
    assert answer is not None
    assert answer.status == 413


async def test_p5_a_chunked_body_is_measured_as_it_comes(door: Served) -> None:
    reader, writer = await door.connect()
    writer.write(request_head("POST", SESSIONS, {"Transfer-Encoding": "chunked"}))
    with_room = 0
    try:
        for _ in range(40):
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()
            with_room += 4096
    except ConnectionError:
        pass
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
    writer.close()


async def test_p5_a_chunked_body_is_read_whole(door: Served) -> None:
    body = b'{"title":"in pieces"}'
    pieces = b"".join(b"1\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body))) + b"0\r\n\r\n"
    reply = await door.send(request_head("POST", SESSIONS, {"Transfer-Encoding": "chunked"}) + pieces)
    assert reply is not None
    assert reply.status == 201


SMUGGLED: dict[str, bytes] = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "the same length twice": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a length and chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n{}",
    "a length in words": b"Content-Length: two\r\n\r\n{}",
    "a signed length": b"Content-Length: +2\r\n\r\n{}",
    "chunks by another name": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Content-Length : 2\r\n\r\n{}",
    "a folded header": b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
    "a bare line feed": b"X-A: b\nContent-Length: 2\r\n\r\n{}",
    "a NUL": b"X-A: b\0c\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk size that is none": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "a chunk size that is huge": b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n\r\n",
}


@pytest.mark.parametrize("rest", SMUGGLED.values(), ids=SMUGGLED)
async def test_p5_what_two_servers_might_read_in_two_ways_is_refused(door: Served, rest: bytes) -> None:
    head = request_head("POST", SESSIONS, {})[:-2]
    count = len((await door.ask("GET", SESSIONS)).json["sessions"])
    reply = await door.send(head + rest)
    assert reply is None or reply.status in {400, 408, 411}, reply
    if reply is not None:
        assert reply.kind
    assert len((await door.ask("GET", SESSIONS)).json["sessions"]) == count


async def test_p5_a_slow_body_is_not_waited_for(door: Served) -> None:
    reader, writer = await door.connect()
    writer.write(request_head("POST", SESSIONS, {"Content-Length": "100"}) + b'{"title":')
    reply = await asyncio.wait_for(read_reply(reader), 5)
    assert reply is not None
    assert (reply.status, reply.kind) == (408, "slow-body")
    writer.close()


async def test_p5_a_head_that_trickles_in_is_not_waited_for(door: Served) -> None:
    reader, writer = await door.connect()
    writer.write(b"GET /api/agents HTTP/1.1\r\nHost: ")

    async def trickle() -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.05)  # a client that is slow on purpose

    trickling = asyncio.create_task(trickle())
    assert await asyncio.wait_for(reader.read(), 5) == b""
    trickling.cancel()
    writer.close()


async def test_p5_a_connection_that_says_nothing_is_let_go(door: Served) -> None:
    reader, writer = await door.connect()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_p5_an_upgrade_is_declined_and_a_stranger_is_not_told_to_go_on(door: Served) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    reply = await door.ask("GET", "/api/agents", headers=upgrade)
    assert (reply.status, reply.json["agents"]) == (200, [{"name": "ada", "waiting": 0}])
    expects = {"Expect": "100-continue", "Content-Length": "2"}
    reader, writer = await door.connect()
    writer.write(request_head("POST", SESSIONS, expects))
    assert b" 100 " in await reader.readline()
    writer.write(b"{}")
    assert b" 201 " in (await reader.readuntil(b"\r\n\r\n") + await reader.readline())
    writer.close()
    expects["Authorization"] = "Bearer wrong"
    stranger = await door.send(request_head("POST", SESSIONS, expects))
    assert stranger is not None
    assert stranger.status == 401
    odd = await door.send(request_head("POST", SESSIONS, {"Expect": "the worst", "Content-Length": "2"}) + b"{}")
    assert odd is not None
    assert (odd.status, odd.kind) == (417, "expectation-failed")


HEADS: dict[str, bytes] = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /api/agents\r\n\r\n",
    "a version that is none": b"GET /api/agents HTTP/9.9\r\n\r\n",
    "an odd method": b"G@T /api/agents HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long line": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 20_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 500 + b"\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\nHost: localhost\r\n: b\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a star": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
async def test_p5_what_is_no_sound_request_gets_a_problem_and_no_more(door: Served, head: bytes) -> None:
    reply = await door.send(head)
    assert reply is not None
    assert 400 <= reply.status < 500
    assert reply.kind
    assert b"Traceback" not in reply.body
    assert (await door.ask("GET", "/api/agents")).status == 200


def request_head(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = {"Host": "localhost", "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}
    return (
        f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    ).encode()
