"""Where the daemon listens: any free port, a socket of its user alone, clear errors, an end that waits for nobody."""

import asyncio
import os
import socket
import stat
import time
from pathlib import Path

import pytest
from aiohttp import web

from harnessd.api.app import make_app
from harnessd.api.door import Door
from harnessd.api.keys import LISTENERS
from harnessd.api.listen import listening
from harnessd.errors import StorageError, UsageError
from tests.api.served import TOKEN
from tests.daemon.living import living


@pytest.fixture
async def app(tmp_path: Path) -> web.Application:
    """An application of a runtime that is not asked for anything."""
    async with living(tmp_path, []) as alive:
        return make_app(alive.runtime, Door(TOKEN))


async def test_the_socket_is_its_users_alone_and_gone_at_the_end(app: web.Application, tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    before = os.umask(0)
    try:
        async with listening(app, "127.0.0.1", 0, path) as at:
            assert at.port > 0
            assert at.socket == path
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert [entry.name for entry in tmp_path.iterdir() if "sock" in entry.name] == ["d.sock"]
    finally:
        os.umask(before)
    assert not path.exists()


async def test_a_stale_socket_is_replaced(app: web.Application, tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    async with listening(app, "127.0.0.1", 0, path):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_socket_that_somebody_serves_is_not_taken(app: web.Application, tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(UsageError, match="another daemon"):
            async with listening(app, "127.0.0.1", 0, path):
                pass
    assert path.exists()


async def test_a_file_in_the_sockets_place_is_left_alone(app: web.Application, tmp_path: Path) -> None:
    path = tmp_path / "d.sock"
    path.write_text("mine")
    with pytest.raises(StorageError, match="no socket"):
        async with listening(app, "127.0.0.1", 0, path):
            pass
    assert path.read_text() == "mine"


async def test_a_socket_that_cannot_be_made_says_why(app: web.Application, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "d.sock"
    with pytest.raises(StorageError) as raised:
        async with listening(app, "127.0.0.1", 0, path):
            pass
    assert str(path) in str(raised.value)
    assert raised.value.hint


async def test_where_no_socket_can_be_the_port_is_served_alone(app: web.Application, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    async with listening(app, "127.0.0.1", 0, folder / "d.sock") as at:
        assert at.socket is None
        assert "too long" in at.no_socket
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
    assert list(folder.iterdir()) == []


async def test_a_port_in_use_is_told_with_the_way_out(app: web.Application, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="in use") as raised:
            async with listening(app, "127.0.0.1", port, tmp_path / "d.sock"):
                pass
    assert raised.value.where == f"127.0.0.1:{port}"
    assert "--port" in (raised.value.hint or "")
    assert not (tmp_path / "d.sock").exists()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "256.1.1.1"])
async def test_an_address_of_another_machine_is_refused(app: web.Application, tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError) as raised:
        async with listening(app, host, 0, tmp_path / "d.sock"):
            pass
    assert host in (raised.value.where or "")
    assert raised.value.hint


async def test_ipv6_is_listened_on_as_well(app: web.Application, tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no ::1")
    async with listening(app, "::1", 0, tmp_path / "d.sock") as at:
        reader, writer = await asyncio.open_connection("::1", at.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_the_end_waits_for_no_stream_and_for_no_idle_connection(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def for_ever(request: web.Request) -> web.StreamResponse:
        with request.app[LISTENERS].one_more():
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"a")
            began.set()
            await asyncio.Event().wait()
            return response

    async with living(tmp_path, []) as alive:
        application = make_app(alive.runtime, Door(TOKEN))
        application.router.add_get("/for-ever", for_ever)
        async with listening(application, "127.0.0.1", 0, tmp_path / "d.sock") as at:
            idle = await asyncio.open_connection("127.0.0.1", at.port)
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(f"GET /for-ever HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            await asyncio.wait_for(began.wait(), 5)
            before = time.monotonic()
        assert time.monotonic() - before < 1.0
        await reader.read()
        assert await idle[0].read() == b""
        writer.close()
        idle[1].close()


async def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        inside.set()
        await go_on.wait()
        return web.Response(text="done")

    async with living(tmp_path, []) as alive:
        application = make_app(alive.runtime, Door(TOKEN))
        application.router.add_get("/slow", slow)
        async with listening(application, "127.0.0.1", 0, tmp_path / "d.sock") as at:
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(f"GET /slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            await asyncio.wait_for(inside.wait(), 5)
            asyncio.get_running_loop().call_later(0.1, go_on.set)
        assert (await reader.read()).endswith(b"done")
        writer.close()
