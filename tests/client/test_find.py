"""Finding the daemon: what lives and answers is found, whatever a dead one left behind is not."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harnessd.client.find import find_daemon, read_address
from harnessd.errors import UsageError
from tests.client.room import TOKEN, served


@dataclass(frozen=True)
class Where:
    state_dir: Path


def write(folder: Path, **more: object) -> None:
    data = {"pid": os.getpid(), "port": 7433, "host": "127.0.0.1", "socket": None, "version": "1", "new": {}} | more
    (folder / "daemon.json").write_text(json.dumps(data))


async def test_a_daemon_that_answers_is_found_over_its_socket_or_its_port(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    async with served(tmp_path) as place:
        port = int(place.address.url.rpartition(":")[2])
        write(tmp_path, port=port, socket=str(place.address.socket), workspaces="/w", startedAt="now")
        found = await find_daemon(Where(tmp_path), {})
        assert found is not None
        assert (found.socket, found.token, found.workspaces) == (place.address.socket, TOKEN, Path("/w"))
        write(tmp_path, port=port, socket=str(tmp_path / "gone.sock"))
        found = await find_daemon(Where(tmp_path), {"HARNESSD_TOKEN": "of-the-environment"})
        assert found is not None
        assert (found.url, found.socket, found.token) == (f"http://127.0.0.1:{port}", None, "of-the-environment")
    assert await find_daemon(Where(tmp_path), {}) is None
    assert (tmp_path / "daemon.json").exists()


def a_dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"pid": "x", "port": 1}',
        b'{"pid": 0, "port": 7433}',
        b'{"pid": -1, "port": 7433}',
        b'{"pid": 1, "port": 0}',
        b"\xff\xfe",
        b'{"pid": %d, "port": 7433}',
    ],
)
def test_what_a_dead_daemon_left_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "daemon.json").write_bytes(content.replace(b"%d", str(a_dead_pid()).encode()))
    assert read_address(tmp_path, {}) is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:7433"),
        ("0.0.0.0", "http://127.0.0.1:7433"),
        ("::", "http://[::1]:7433"),
        ("::1", "http://[::1]:7433"),
        ("", "http://127.0.0.1:7433"),
        ("box.lan", "http://box.lan:7433"),
    ],
)
def test_any_address_is_reached_over_the_loopback(tmp_path: Path, host: str, url: str) -> None:
    write(tmp_path, host=host)
    found = read_address(tmp_path, {})
    assert found is not None
    assert found.url == url


def test_a_token_that_cannot_be_read_is_empty_and_never_shown(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    found = read_address(tmp_path, {})
    assert found is not None
    assert found.token == ""
    shown = read_address(tmp_path, {"HARNESSD_TOKEN": "very-secret"})
    assert "very-secret" not in repr(shown)


@pytest.mark.parametrize("token", ["new\nline-token", "ünïcode-token", "nul\0token", "\x7f-token"])
def test_a_variable_that_holds_no_token_is_told(tmp_path: Path, token: str) -> None:
    write(tmp_path, port=7433)
    with pytest.raises(UsageError, match="no token") as raised:
        read_address(tmp_path, {"HARNESSD_TOKEN": token})
    assert raised.value.where == "HARNESSD_TOKEN"
    assert token not in str(raised.value)
