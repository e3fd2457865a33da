"""What a commit was about to do, so that one that was killed half-way is finished or undone."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from harnessd.errors import HistoryError, Locked, StorageError
from harnessd.facts.base import Record
from harnessd.home.git import Entry, GitStore, update_index
from harnessd.home.layout import Home
from harnessd.home.lock import home_lock
from harnessd.home.tree import blob_id

INTENT = "harnessd-intent.json"
PREPARED = "harnessd-prepared"
TEMPORARY_PREFIX = ".harnessd-"
_INDEX_COPY = "harnessd-index"
_INDEX_LOCK = "index.lock"
_OUR_LOCK = "harnessd-index-lock"

Reach = Callable[[str], None]
Again = Callable[[bytes], bytes | None]


class Intent(Record):
    """The commit, and what must follow it: the index entry and the working file.

    Blobs are ids, None where there is no file. `before` and `after` are of the raw bytes on disk; the bytes
    of `after` wait in the git folder under `PREPARED`. `index_lock` is the inode of our own index.lock.
    """

    path: str = ""
    ref: str = ""
    commit: str = ""
    old: tuple[int, str] | None = None
    new: tuple[int, str] | None = None
    before: str | None = None
    after: str | None = None
    index_lock: int = 0


def is_interrupted(git_dir: Path) -> bool:
    """Whether a commit is under way or was killed; one stat."""
    return os.path.lexists(f"{git_dir}/{INTENT}")


def finish_interrupted(home: Home, store: GitStore) -> bool:
    """Bring what a killed commit left to its end; False if its writer is alive or it cannot be done now."""
    try:
        with home_lock(store.git_dir, wait=0):
            return recover(home, store)
    except (Locked, StorageError, HistoryError):
        return False


def recover(home: Home, store: GitStore) -> bool:
    """The same, by the holder of the home's lock. False if the user's git holds the index just now."""
    try:
        intent = Intent.model_validate_json((store.git_dir / INTENT).read_bytes())
    except FileNotFoundError:
        return True
    except ValidationError:
        # Torn while it was first written: nothing had happened yet.
        clear(store.git_dir)
        return True
    head = store.head()
    happened = bool(intent.commit) and store.descends(store.head_of(intent.ref), intent.commit)
    # Another branch, or a later commit of that file: what is left to do would undo what the user did since.
    if not happened:
        withdraw(home, store, intent)
        return True
    if head.ref != intent.ref or store.entry(head.commit, intent.path) != _entry(intent.new):
        abandon(store.git_dir, intent)
        return True
    locked = lock_index(store.git_dir, intent)
    if locked is None:
        return False
    advance_index(home, store, locked)
    finish(home, store, locked, lambda _step: None)
    return True


def record(git_dir: Path, intent: Intent) -> None:
    """Put the intent on disk."""
    write_whole(git_dir / INTENT, intent.model_dump_json().encode(), 0o644)


def clear(git_dir: Path) -> None:
    """Forget the intent and what was prepared for it."""
    for name in (PREPARED, _OUR_LOCK, _INDEX_COPY, INTENT):
        (git_dir / name).unlink(missing_ok=True)


def lock_index(git_dir: Path, intent: Intent) -> Intent | None:
    """Take git's own lock of the index, with the intent naming it as ours; None if git holds it."""
    lock = git_dir / _INDEX_LOCK
    try:
        if lock.lstat().st_ino == intent.index_lock:
            record(git_dir, intent)
            return intent
    except FileNotFoundError:
        pass
    else:
        return None
    ours = git_dir / _OUR_LOCK
    ours.unlink(missing_ok=True)
    ours.touch()
    locked = intent.model_copy(update={"index_lock": ours.lstat().st_ino})
    record(git_dir, locked)
    try:
        os.link(ours, lock)
    except FileExistsError:
        return None
    finally:
        ours.unlink(missing_ok=True)
    return locked


def advance_index(home: Home, store: GitStore, intent: Intent) -> tuple[str, ...]:
    """Before the branch moves, under git's lock: make the user's index say what HEAD is about to say.

    In the other order a `git commit` could read the new HEAD and the old index, and undo the change. An entry
    that is not what HEAD held is work of the user and is left; the note says so.
    """
    try:
        if _set_entry(home, store, intent.path, _entry(intent.old), _entry(intent.new)):
            return ()
    except HistoryError as error:
        return (f"the index could not be advanced: {error.message}",)
    return (
        f"the index entry of {intent.path} holds work of the user and was left: "
        f"the user's next ordinary commit of it would undo this change",
    )


def finish(
    home: Home, store: GitStore, intent: Intent, reach: Reach, again: Again = lambda _raw: None
) -> tuple[str, ...]:
    """After the branch moved: free the index, replace the file. Returns notes.

    `again` applies the operation to what someone saved meanwhile; None if it does not fit.
    """
    _unlock_index(store.git_dir, intent.index_lock)
    reach("unlocked")
    notes = _replace_file(home, store.git_dir, intent, again)
    reach("file")
    clear(store.git_dir)
    return tuple(notes)


def withdraw(home: Home, store: GitStore, intent: Intent) -> None:
    """The branch did not move: put the index back and forget the intent. Needs our lock of the index."""
    if _is_ours(store.git_dir, intent):
        try:
            _set_entry(home, store, intent.path, _entry(intent.new), _entry(intent.old))
        finally:
            abandon(store.git_dir, intent)
    else:
        clear(store.git_dir)


def abandon(git_dir: Path, intent: Intent) -> None:
    """Undo what was prepared for a commit that does not happen."""
    if intent.index_lock:
        _unlock_index(git_dir, intent.index_lock)
    clear(git_dir)


def write_whole(path: Path, raw: bytes, mode: int) -> None:
    """Write a file that is either old or new, never half; on disk before this returns."""
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)  # noqa: PTH105 - the name is text
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entry(pair: tuple[int, str] | None) -> Entry | None:
    return None if pair is None else Entry(*pair)


def _set_entry(home: Home, store: GitStore, path: str, expected: Entry | None, wanted: Entry | None) -> bool:
    """Set an index entry if it is as expected (or as wanted already); the index file is replaced whole."""
    if expected == wanted:
        return True
    index, copy = store.git_dir / "index", store.git_dir / _INDEX_COPY
    if index.exists():
        shutil.copy2(index, copy)
    try:
        try:
            present = store.index_entry(path)
            if present not in (expected, wanted):
                return False
            store.set_index(copy, path, wanted)
        except HistoryError:
            # A split or sparse index, which only git itself can write.
            if not update_index(home.path, copy, path, expected, wanted):
                return False
        copy.replace(index)
    finally:
        copy.unlink(missing_ok=True)
    return True


def _is_ours(git_dir: Path, intent: Intent) -> bool:
    try:
        return (git_dir / _INDEX_LOCK).lstat().st_ino == intent.index_lock
    except FileNotFoundError:
        return False


def _unlock_index(git_dir: Path, inode: int) -> None:
    lock = git_dir / _INDEX_LOCK
    try:
        if lock.lstat().st_ino == inode:
            lock.unlink()
    except FileNotFoundError:
        pass


def _replace_file(home: Home, git_dir: Path, intent: Intent, again: Again) -> list[str]:
    target = home.path / intent.path
    present = disk_blob(target)
    if present == intent.after:
        return []
    if present != intent.before:
        merged = again(target.read_bytes()) if present is not None else None
        if merged is None:
            return [f"{intent.path} was saved by someone else meanwhile; the file on disk was left as it is"]
        write_whole(target, merged, target.stat().st_mode & 0o7777)
        return []
    if intent.after is None:
        target.unlink()
        _drop_empty(target.parent, home.path)
        return []
    target.parent.mkdir(parents=True, exist_ok=True)
    prepared = git_dir / PREPARED
    for leftover in target.parent.glob(f"{TEMPORARY_PREFIX}*.tmp"):
        leftover.unlink(missing_ok=True)
    try:
        prepared.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise StorageError(
                f"the commit is made, the file on disk could not be replaced: {error.strerror}",
                where=str(target),
                hint="make it writable; the next call finishes this",
            ) from error
        # The git folder is on another disk: the last step needs a neighbour of the file.
        write_whole(target, prepared.read_bytes(), prepared.stat().st_mode & 0o777)
    sync_folder(target.parent)
    return []


def disk_blob(path: Path) -> str | None:
    """The blob id of a file's raw bytes, None if there is no file."""
    try:
        return blob_id(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _drop_empty(folder: Path, root: Path) -> None:
    """Remove folders that a deletion emptied, up to the top folders of the home."""
    while folder != root and folder.parent != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
