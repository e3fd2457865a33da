"""Where can the running daemon be found? `daemon.json` in the state directory says so while it is ready."""

import os
from pathlib import Path

from pydantic import ValidationError

from harnessd.facts.base import Record
from harnessd.journal.file import storage_error

FILE = "daemon.json"
SOCKET = "daemon.sock"


class Whereabouts(Record):
    """Which process it is, where it listens and for which homes.

    `socket` is the path of its unix socket, None where there is none; `started_at` is RFC 3339; `safe_mode` says why
    it resumed nothing by itself, None if it did.
    """

    pid: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    socket: str | None = None
    started_at: str = ""
    version: str = ""
    workspaces: str = ""
    safe_mode: str | None = None


def find_daemon(state_dir: Path) -> Whereabouts | None:
    """The daemon of that state directory; None if there is no file, a damaged one, or one of a process that is gone.

    Blocks. The pid may have gone to another process meanwhile: only a connection proves that it is there.
    """
    try:
        found = Whereabouts.model_validate_json((state_dir / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.pid > 0 and _lives(found.pid) else None


def write_whereabouts(state_dir: Path, whereabouts: Whereabouts) -> None:
    """Replaces the file in one step. Blocks. Raises `StorageError`."""
    from harnessd.home.intent import write_whole  # git takes a while to load, and who only looks does without

    path = state_dir / FILE
    try:
        write_whole(path, whereabouts.model_dump_json(by_alias=True).encode() + b"\n", 0o600)
    except OSError as error:
        raise storage_error(error, path) from error


def remove_whereabouts(state_dir: Path) -> None:
    """Nobody is to look for the daemon any more; what cannot be removed stays, and its pid shows that it is stale."""
    for name in (FILE, SOCKET):
        try:
            (state_dir / name).unlink(missing_ok=True)
        except OSError:
            continue


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
