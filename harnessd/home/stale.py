"""When is git's index.lock left over from a process that is gone, and what becomes of it?"""

import os
import time
from pathlib import Path

STALE_AFTER = 600.0


def clear_stale_index_lock(git_dir: Path, *, stale_after: float = STALE_AFTER) -> list[str]:
    """Set aside (never delete) an index.lock that is older than `stale_after` seconds and held by nobody.

    Returns a note for the log if it did. Whether someone holds it is read from /proc; where that cannot be
    told, the lock stays.
    """
    lock = git_dir / "index.lock"
    try:
        found = lock.lstat()
    except FileNotFoundError:
        return []
    if time.time() - found.st_mtime < stale_after or _may_be_held(lock, git_dir):
        return []
    aside = git_dir / f"index.lock.stale-{int(found.st_mtime)}"
    try:
        lock.rename(aside)
    except OSError:
        return []
    return [f"a stale index.lock was set aside as {aside.name}"]


def _may_be_held(lock: Path, git_dir: Path) -> bool:
    """Whether a process has the lock open, or a git command works in this home or cannot be looked at."""
    proc = Path("/proc")
    home = os.path.realpath(git_dir.parent)
    if not (proc / "self").exists():
        return True
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            is_git = (process / "comm").read_text().startswith("git")
        except OSError:
            continue
        try:
            if is_git and (str((process / "cwd").readlink()) + "/").startswith(home + "/"):
                return True
            if any(_opened(fd) == lock for fd in (process / "fd").iterdir()):
                return True
        except PermissionError:
            if is_git:
                return True
        except OSError:
            continue
    return False


def _opened(descriptor: Path) -> Path | None:
    """What one descriptor stands for; None if it was closed meanwhile, which says nothing of its neighbours."""
    try:
        return descriptor.readlink()
    except FileNotFoundError:
        return None
