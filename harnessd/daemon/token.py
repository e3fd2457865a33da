"""Who may talk to the daemon? Whoever holds its token, a line in a file that only its owner can read."""

import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from harnessd.errors import UsageError
from harnessd.home.intent import write_whole
from harnessd.journal.file import make_directory, storage_error

FILE = "token"
VARIABLE = "HARNESSD_TOKEN"
_FIT = re.compile(r"[!-~]{8,512}")
"""What a header can carry, and nobody guesses in a moment."""


def find_token(state_dir: Path, env: Mapping[str, str]) -> str | None:
    """The token in force: `HARNESSD_TOKEN`, else the one in the state directory; None if there is none yet.

    Blocks. Raises `UsageError` if others may read the file, or if it holds no token.
    """
    path = state_dir / FILE
    if given := env.get(VARIABLE):
        return _fit(given, VARIABLE, "choose 8 to 512 printable ASCII characters without spaces")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = f"remove it and the next start makes a new one: rm {path}"
        raise UsageError(f"the token cannot be read: {error.strerror}", where=str(path), hint=hint) from None
    try:
        _refuse_what_others_see(os.fstat(descriptor), path)
        text = os.read(descriptor, 4096).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)
    return _fit(text, str(path), f"remove it and the next start makes a new one: rm {path}")


def make_token(state_dir: Path, env: Mapping[str, str]) -> str:
    """The token in force, made on the first start with mode 0600. It is never printed or logged.

    Blocks. Raises `UsageError` as `find_token` does, `StorageError` if the file cannot be written.
    """
    found = find_token(state_dir, env)
    if found is not None:
        return found
    made, path = secrets.token_urlsafe(32), state_dir / FILE
    make_directory(state_dir)
    try:
        write_whole(path, f"{made}\n".encode(), 0o600)
    except OSError as error:
        raise storage_error(error, path) from error
    return made


def _refuse_what_others_see(about: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise UsageError("the token is no file", where=str(path), hint="move it away")
    if about.st_mode & 0o077:
        raise UsageError("the token can be read by others", where=str(path), hint=f"run: chmod 600 {path}")
    if about.st_uid not in {os.geteuid(), 0}:
        raise UsageError("the token belongs to somebody else", where=str(path), hint="choose another state directory")


def _fit(token: str, where: str, hint: str) -> str:
    if not _FIT.fullmatch(token):
        raise UsageError("this is no token", where=where, hint=hint)
    return token
