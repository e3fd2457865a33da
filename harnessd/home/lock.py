"""Who may change a home now: one lock for each home, across processes."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harnessd.errors import Locked, StorageError

LOCK = "harnessd.lock"


@contextmanager
def home_lock(git_dir: Path, wait: float, *, name: str = LOCK) -> Iterator[None]:
    """Hold the home's lock; blocking, for at most `wait` seconds, then `Locked` names the holder's pid.

    The lock is the kernel's (flock): it ends with its holder, whatever ends that. The descriptor is not
    inherited by programs that are started meanwhile.
    """
    path = git_dir / name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(
            f"the home's lock cannot be made: {error.strerror}",
            where=str(path),
            hint="make the home's .git writable" if error.errno in {errno.EACCES, errno.EROFS} else None,
        ) from error
    try:
        _take(descriptor, path, wait)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, wait: float) -> None:
    until, pause = time.monotonic() + wait, 0.001
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                raise Locked(
                    f"process {holder or 'unknown'} is changing this home and has not finished in {wait:g} s",
                    where=str(path),
                    hint="try again; if that process hangs, end it",
                ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        else:
            return
