"""Which daemon may run here? One for each state directory, and one for each folder of homes."""

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Self

from harnessd.errors import HarnessdError, Locked, StorageError
from harnessd.journal.file import make_directory, storage_error

STATE_LOCK = "daemon.lock"
WORKSPACES_LOCK = ".daemon.lock"
PATIENCE_S = 0.5
"""A former daemon that is just ending is waited for this long."""


class Hold:
    """Two folders that belong to this process until `close`; `with` closes it.

    The locks are the kernel's: they end with their holder, whatever ends it, and no program that is started
    inherits them.
    """

    def __init__(self, state_dir: Path, workspaces: Path, *, patience: float = PATIENCE_S) -> None:
        """Takes both, made if they are missing. Blocks for up to `patience` seconds.

        Raises `Locked` with the holder's pid, `StorageError` if a folder cannot be made or written.
        """
        self._descriptors: list[int] = []
        make_directory(workspaces)
        _make_private(state_dir)
        try:
            self._take(state_dir / STATE_LOCK, "a daemon already uses this state directory", patience)
            self._take(workspaces / WORKSPACES_LOCK, "another daemon already runs these homes", patience)
        except HarnessdError:
            self.close()
            raise

    def close(self) -> None:
        """Lets both go; a second time does nothing. The files stay, since removing them would race."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, path: Path, said: str, patience: float) -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise storage_error(error, path) from error
        self._descriptors.append(descriptor)
        _lock(descriptor, path, said, patience)
        _sign(descriptor, path)


def _make_private(folder: Path) -> None:
    make_directory(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        make_directory(folder)  # says so if it is a file
    except OSError as error:
        raise storage_error(error, folder) from error


def _lock(descriptor: int, path: Path, said: str, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.02)
                continue
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            hint = f"use that one, or stop it first: kill {holder}" if holder != "unknown" else "use that one"
            raise Locked(f"{said}: process {holder}", where=str(path.parent), hint=hint) from None
        except OSError as error:
            raise StorageError(
                f"this file system has no locks: {error.strerror}",
                where=str(path),
                hint="choose a folder on a local disk",
            ) from error
        else:
            return


def _sign(descriptor: int, path: Path) -> None:
    """Leaves the pid for whoever is refused; on a full disk the lock holds all the same."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise storage_error(error, path) from error
