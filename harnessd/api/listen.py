"""Where the daemon listens: a TCP port, and a unix socket that only its user can open."""

import asyncio
import errno
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import anyio
from aiohttp import web

from harnessd.api.connection import Connections
from harnessd.api.keys import DOOR
from harnessd.errors import StorageError, UsageError

log = logging.getLogger(__name__)

BACKLOG = 128
LONGEST_SOCKET_PATH = 107
"""Bytes that the kernel takes as the path of a unix socket."""
HOLDS_NONE = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
"""What file systems say that know no sockets."""
CLOSE_SECONDS = 2.0
"""How long requests may still take when the door closes; event streams are ended at once."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where it listens now: `port` is the real one, also if any was asked for.

    `socket` is None where none can be; then `no_socket` says why.
    """

    host: str
    port: int
    socket: Path | None
    no_socket: str = ""


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int, socket_path: Path) -> AsyncIterator[Addresses]:
    """Serves `app` while the block runs. Port 0 is any that is free; a socket file that nobody serves is replaced.

    Where no socket can be, since its path is too long or the file system holds none, it is served by the port alone.
    Raises `UsageError` if the address can't be had (in use, not of this machine), `StorageError` if the socket file
    can't be made. At the end new requests are refused, streams end at once, others have two seconds.
    """
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []
    try:
        # Counted apart: who fills the port with connections must not keep the user of this machine out.
        by_port, by_file = (Connections(cast(web.Server, runner.server), app[DOOR].limits, loop) for _ in range(2))
        tcp = await _tcp_socket(host, port)
        servers.append(await loop.create_server(by_port.new, sock=tcp, backlog=BACKLOG))
        here = Addresses(host, tcp.getsockname()[1], socket_path)
        try:
            unix = await anyio.to_thread.run_sync(_unix_socket, socket_path)
        except _NoSocket as none:
            log.warning("no unix socket", extra={"where": str(socket_path), "reason": str(none)})
            here = replace(here, socket=None, no_socket=str(none))
        else:
            servers.append(await loop.create_unix_server(by_file.new, sock=unix, backlog=BACKLOG))
        yield here
    finally:
        for listener in servers:
            listener.close()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
            if len(servers) == 2:
                await anyio.to_thread.run_sync(_remove, socket_path)


async def _tcp_socket(host: str, port: int) -> socket.socket:
    name = host.strip("[]")
    try:
        found = await anyio.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        hint = "give an address of this machine, such as 127.0.0.1"
        raise UsageError(f"there is no such address: {error.strerror or error}", where=host, hint=hint) from None
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        raise _refused(error, host, port) from None
    made.setblocking(False)
    return made


def _refused(error: OSError, host: str, port: int) -> UsageError:
    where = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        hint = "end the process that listens there, or choose another with --port (0: any that is free)"
        return UsageError("this port is in use", where=where, hint=hint)
    if error.errno in {errno.EACCES, errno.EPERM}:
        return UsageError("this port may not be used", where=where, hint="choose one above 1023 with --port")
    hint = "choose an address of this machine with --host, such as 127.0.0.1"
    return UsageError(f"it cannot be listened there: {error.strerror}", where=where, hint=hint)


class _NoSocket(Exception):
    """There can be no socket at this place, in words."""


def _unix_socket(path: Path) -> socket.socket:
    """A bound socket that only its user can open, from the first moment on: it is made aside and moved into place."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    if len(os.fsencode(aside)) > LONGEST_SOCKET_PATH:
        raise _NoSocket(f"the path of the state directory is too long for one ({LONGEST_SOCKET_PATH} bytes at most)")
    _refuse_others(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        aside.unlink(missing_ok=True)
        os.fchmod(made.fileno(), 0o600)  # what bind makes has the mode of the socket, less the umask
        made.bind(str(aside))
        aside.chmod(0o600)
        aside.rename(path)
    except OSError as error:
        made.close()
        aside.unlink(missing_ok=True)
        if error.errno in HOLDS_NONE:
            raise _NoSocket(f"the disk of the state directory holds none ({error.strerror})") from None
        hint = "the state directory must be on a disk that can be written"
        raise StorageError(f"the socket cannot be made: {error.strerror}", where=str(path), hint=hint) from None
    made.setblocking(False)
    return made


def _refuse_others(path: Path) -> None:
    """Raises unless there is nothing at `path`, or a socket that nobody serves."""
    try:
        found = path.lstat()
    except OSError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StorageError("this is no socket, and is not replaced", where=str(path), hint="move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return
        except OSError as error:
            said = error.strerror or "it does not answer"
            raise StorageError(
                f"the socket is held by somebody: {said}", where=str(path), hint="move it away"
            ) from None
    raise UsageError(
        "another daemon serves this socket", where=str(path), hint="stop it, or use another HARNESSD_STATE"
    )


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
