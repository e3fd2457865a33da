"""How a session is deleted: its journal becomes one fact that says so, and all else that it left is removed.

The fact keeps the id from being given again, and is what those find that still refer to the session. Replacing the
journal is the one step that decides. Whatever comes before it leaves the session whole; what comes after it is
cleaning up, which the next `erase_session` does again.
"""

import os
import shutil
import time
from pathlib import Path

from harnessd.errors import SessionNotFound, StorageError
from harnessd.facts.event import SessionRedacted
from harnessd.journal.deletion import DELETED, is_deleted
from harnessd.journal.file import FileLock, lock_of, storage_error, sync_directory
from harnessd.journal.line import encode
from harnessd.journal.records import read_page
from harnessd.journal.session_files import SessionFiles
from harnessd.journal.stamp import Clock, Stamp


def erase_session(files: SessionFiles, *, clock: Clock = time.time) -> None:
    """Deletes the session for good: nothing of what was said stays in any file of it. Once more does no harm. Blocks.

    Raises `SessionNotFound` if there is no such journal, `Locked` while it is open anywhere, `StorageError`.
    """
    journal = files.journal
    if journal.is_symlink():
        raise StorageError("this is a link; what it leads to is not deleted", where=str(journal), hint="look at it")
    if not journal.exists():
        raise SessionNotFound("there is no such session", where=str(journal), hint="list them first")
    lock = FileLock(lock_of(journal))
    try:
        if not is_deleted(journal):
            _replace(files, clock)
        clean_up(files)
        lock.remove()
        sync_directory(journal.parent)
    except OSError as error:
        raise storage_error(error, journal) from error
    finally:
        lock.close()


def left_overs(files: SessionFiles) -> tuple[Path, ...]:
    """What there is of the session beside its journal and its lock: damaged copies, checkpoint, results, artifacts."""
    journal = files.journal
    beside = [path for path in sorted(journal.parent.glob(f"{journal.name}.*")) if path != lock_of(journal)]
    places = (*beside, draft_of(journal), files.checkpoint.parent, files.evicted, files.artifacts)
    return tuple(path for path in places if os.path.lexists(path))


def clean_up(files: SessionFiles) -> None:
    """Removes what is left over; no link is followed. For a session that was deleted. Raises `OSError`."""
    for path in left_overs(files):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        sync_directory(path.parent)


def draft_of(journal: Path) -> Path:
    """The file in which the one fact is made ready."""
    return journal.with_name(f".{journal.name}.new")


def _replace(files: SessionFiles, clock: Clock) -> None:
    """Puts the one fact in the journal's place, on disk when this returns."""
    journal = files.journal
    last = read_page(journal, None, 1)
    fact = SessionRedacted(
        seq=last[-1].seq + 1 if last else 1,
        at=Stamp(clock)(),
        session_id=files.session_id,
        agent_id=files.agent_id,
        reason=DELETED,
    )
    draft = draft_of(journal)
    # The checkpoint can be done without, and a full disk is a reason to delete.
    files.checkpoint.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(encode(fact))
        out.flush()
        os.fsync(fd)
    draft.replace(journal)
    sync_directory(journal.parent)
