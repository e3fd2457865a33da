"""Is there a daemon for this state directory, and where does it listen?"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from harnessd.daemon import whereabouts
from harnessd.errors import UsageError

TOKEN_FILE = "token"  # noqa: S105 - the file's name, not a token
TOKEN_VARIABLE = "HARNESSD_TOKEN"  # noqa: S105 - the variable's name
HEALTH_SECONDS = 3.0


class Places(Protocol):
    """What is needed of the settings."""

    @property
    def state_dir(self) -> Path:
        """The folder where the daemon writes where it listens."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where a daemon listens: `url` (`http://host:port`) and, if it has one, a unix socket, which is preferred.

    `workspaces` is the folder of the homes that it runs, `safe_mode` why it resumed nothing by itself, where known.
    """

    url: str
    token: str = field(repr=False)
    socket: Path | None = None
    pid: int | None = None
    version: str = ""
    workspaces: Path | None = None
    safe_mode: str | None = None


async def find_daemon(places: Places, env: Mapping[str, str] | None = None) -> Address | None:
    """The daemon of that state directory; None if there is none, or only what a dead one left.

    Raises `UsageError` if `HARNESSD_TOKEN` holds no token.
    """
    address = await anyio.to_thread.run_sync(read_address, places.state_dir, os.environ if env is None else env)
    return address if address is not None and await answers(address) else None


def read_address(state_dir: Path, env: Mapping[str, str]) -> Address | None:
    """What `daemon.json` and `token` say, if the process they speak of lives. Blocks.

    Raises `UsageError` if `HARNESSD_TOKEN` holds no token.
    """
    written = whereabouts.find_daemon(state_dir)
    if written is None or not written.port:
        return None
    token = _given(env) or _token(state_dir / TOKEN_FILE)
    host = _reachable(written.host)
    socket = Path(written.socket) if written.socket and Path(written.socket).is_socket() else None
    return Address(
        url=f"http://{host}:{written.port}",
        token=token,
        socket=socket,
        pid=written.pid,
        version=written.version,
        workspaces=Path(written.workspaces) if written.workspaces else None,
        safe_mode=written.safe_mode,
    )


async def answers(address: Address) -> bool:
    """Whether a daemon says that it is alive there."""
    # aiohttp takes a fifth of a second to import, and without a daemon nobody needs it.
    import aiohttp

    from harnessd.client.connection import open_http

    try:
        async with (
            open_http(address) as http,
            http.get("/healthz", timeout=aiohttp.ClientTimeout(HEALTH_SECONDS)) as it,
        ):
            return it.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


def _given(env: Mapping[str, str]) -> str:
    """The token of the environment. Raises `UsageError` if no header can carry it."""
    token = env.get(TOKEN_VARIABLE, "").strip()
    if not _fits(token):
        raise UsageError("this is no token", where=TOKEN_VARIABLE, hint="it is printable ASCII without line feeds")
    return token


def _token(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return token if _fits(token) else ""


def _fits(token: str) -> bool:
    """Whether a header can carry it."""
    return token.isascii() and token.isprintable()


def _reachable(host: str) -> str:
    """The host as a client writes it: "any address" is reached over the loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{host}]" if ":" in host else host
