"""P5: what one client may cost is bounded: its rate, its connections, its streams, and how long it may stall."""

import asyncio
from pathlib import Path

import pytest

from harnessd.api.bucket import Bucket
from harnessd.api.door import Limits
from harnessd.api.listeners import Listeners
from harnessd.api.problem import Problem
from tests.api.served import TOKEN, read_reply, served


def test_a_bucket_lets_a_burst_in_and_then_a_steady_rate() -> None:
    now = [0.0]
    bucket = Bucket(10, 5, lambda: now[0])
    assert [bucket.wait() for _ in range(5)] == [0.0] * 5
    assert bucket.wait() == pytest.approx(0.1)
    now[0] += 0.1
    assert bucket.wait() == 0.0
    now[0] += 1000
    assert [bucket.wait() == 0.0 for _ in range(6)] == [True] * 5 + [False]


async def test_p5_who_asks_too_fast_is_told_when_to_come_back(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(rate=0.01, burst=3)) as door:
        statuses = [(await door.ask("GET", "/api/agents")).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        reply = await door.ask("GET", "/api/agents")
        assert reply.kind == "too-many-requests"
        assert int(reply.headers["retry-after"]) >= 1
        assert (await door.ask("GET", "/healthz")).status == 200


async def test_p5_strangers_cannot_keep_out_who_has_the_token(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(rate=0.01, burst=3)) as door:
        statuses = [(await door.ask("GET", "/api/agents", headers={"Authorization": None})).status for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert (await door.ask("GET", "/api/agents")).status == 200


async def test_p5_connections_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(connections=3)) as door:
        opened = [await door.connect() for _ in range(3)]
        for _, writer in opened:
            writer.write(b"GET ")
        reader, writer = await door.connect()
        reply = await read_reply(reader)
        assert reply is not None
        assert (reply.status, reply.kind) == (503, "too-many-connections")
        assert await reader.read() == b""
        writer.close()
        assert (await door.ask("GET", "/api/agents", unix=True)).status == 200
        opened[0][1].close()
        await opened[0][1].wait_closed()
        for _ in range(100):
            asked = await door.send(request("/api/agents"))
            if asked is not None and asked.status == 200:
                break
        else:
            pytest.fail("the room of a closed connection is not given back")
        for _, other in opened[1:]:
            other.close()


async def test_p5_a_client_that_takes_nothing_of_its_answer_is_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(stall_seconds=0.3)) as door:
        session_id = await door.session()
        big = {"text": "x" * 900_000}
        assert (await door.control(session_id, control="updateState", patch={"workspaceContext": big})).status == 202
        reader, writer = await asyncio.open_connection("127.0.0.1", door.at.port, limit=1024)
        path = f"/api/agents/ada/sessions/{session_id}"
        writer.write(request(path, close=False) * 30)  # more than the kernel keeps for a reader that does not read
        await writer.drain()
        received = 0
        await asyncio.sleep(1.0)  # a client that stalls on purpose
        try:
            while piece := await reader.read(1 << 20):
                received += len(piece)
        except ConnectionResetError:
            pass
        assert received < 30 * 900_000
        assert (await door.ask("GET", "/api/agents")).status == 200
        writer.close()


async def test_p5_streams_are_bounded_and_let_go_together() -> None:
    listeners = Listeners(2)
    inside = asyncio.Event()

    async def listen() -> None:
        with listeners.one_more():
            if len(listeners) == 2:
                inside.set()
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(listen()) for _ in range(2)]
    await inside.wait()
    with pytest.raises(Problem, match="2 event streams") as raised, listeners.one_more():
        pass
    assert raised.value.status == 503
    listeners.let_go()
    done, _ = await asyncio.wait(tasks, timeout=5)
    assert len(done) == 2
    assert len(listeners) == 0


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        reader, writer = await door.connect()
        paths = ["/api/agents", "/nothing", "/api/agents/ada", "/healthz"] * 5
        writer.write(b"".join(request(path, close=False) for path in paths))
        statuses = []
        for _ in paths:
            reply = await read_reply(reader)
            assert reply is not None
            statuses.append(reply.status)
        assert statuses == [200, 404, 200, 200] * 5
        writer.close()


def request(path: str, *, close: bool = True) -> bytes:
    keep = "Connection: close\r\n" if close else ""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{keep}\r\n".encode()
