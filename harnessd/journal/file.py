"""How bytes get to the end of a file for good: all of them, or none, and only by the one process that holds it.

Creating a file syncs its directory; a write that fails half way is cut back, so that no torn middle stays.
"""

import errno
import fcntl
import os
from pathlib import Path

from harnessd.errors import Locked, StorageError


class Disk:
    """The three calls that can fail when a journal is written; the tests hand in a disk that is full."""

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        """Writes at `offset`; how many bytes went in. Raises `OSError`."""
        return os.pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        """Returns once the bytes are on the medium. Raises `OSError`."""
        os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cuts the file to `size` bytes. Raises `OSError`."""
        os.ftruncate(fd, size)


class AppendFile:
    """A file that only grows. `size` is what is on disk for good. Used by one thread at a time."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Opens `path`, creating it if need be, only for this process (it is not inherited). Raises `StorageError`."""
        self.path = path
        self._disk = disk
        try:
            created = not path.exists()
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if created:
                sync_directory(path.parent)
            self.size = os.fstat(self.fd).st_size
        except OSError as error:
            raise storage_error(error, path) from error
        self._ragged = False

    def commit(self, data: bytes) -> None:
        """Appends `data` and syncs it. Raises `StorageError`; then nothing of it counts and it may be tried again."""
        try:
            if self._ragged:
                self._disk.truncate(self.fd, self.size)
                self._ragged = False
            view, done = memoryview(data), 0
            while done < len(view):
                self._ragged = True
                done += self._disk.write(self.fd, view[done:], self.size + done)
            self._disk.sync(self.fd)
        except OSError as error:
            self._cut_back()
            raise storage_error(error, self.path) from error
        self._ragged = False
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Cuts the file to `size` and syncs it. Raises `StorageError`."""
        try:
            self._disk.truncate(self.fd, size)
            self._disk.sync(self.fd)
        except OSError as error:
            raise storage_error(error, self.path) from error
        self.size = size

    def close(self) -> None:
        """Lets go of the file; a second time does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _cut_back(self) -> None:
        """Takes away what a failed commit wrote; if even that fails, the next commit tries again first."""
        try:
            self._disk.truncate(self.fd, self.size)
        except OSError:
            self._ragged = True
        else:
            self._ragged = False


class FileLock:
    """Holds `path` for this process until `close`; whoever else wants it learns the pid. Never inherited by exec."""

    def __init__(self, path: Path) -> None:
        """Takes the lock. Raises `Locked` if another holds it, `StorageError` if the file cannot be made."""
        self._path = path
        self._pid = os.getpid()
        self._fd = self._open()
        # One that was opened just before its holder removed it is not the lock any more.
        while not self._stands():
            self.close()
            self._fd = self._open()

    def close(self) -> None:
        """Frees the lock, also from a copy that a forked child has; a second time does nothing. The file stays."""
        if self._fd >= 0:
            if self._pid == os.getpid():
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Frees the lock and takes its file away. Raises `OSError`."""
        self._path.unlink(missing_ok=True)
        self.close()

    def _open(self) -> int:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise storage_error(error, self._path) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise Locked(
                f"this session is open in process {holder or '(unknown)'}",
                where=str(self._path.with_suffix("")),
                hint="let it finish there or stop that process; then try again",
            ) from error
        except OSError as error:
            # The lock is held; only the note of who holds it could not be made (the disk is full).
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                os.close(fd)
                raise storage_error(error, self._path) from error
        return fd

    def _stands(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False


def lock_of(journal: Path) -> Path:
    """The file by which a session's one writer holds it."""
    return journal.with_name(journal.name + ".lock")


def make_directory(path: Path) -> None:
    """Makes `path` with its parents, each of them synced into its own parent. Raises `StorageError`."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            sync_directory(folder.parent)
    except OSError as error:
        raise storage_error(error, path) from error


def sync_directory(path: Path) -> None:
    """Returns once the names in `path` are on the medium. Raises `OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def storage_error(error: OSError, path: Path) -> StorageError:
    """The error as a person should read it."""
    said, hint = _SAID.get(error.errno or 0, (error.strerror or str(error), "look at the disk and the permissions"))
    return StorageError(said, where=str(path), hint=f"{hint}; nothing that was acknowledged is lost")


_SAID = {
    errno.ENOSPC: ("the disk is full", "free some space and try again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space and try again"),
    errno.EFBIG: ("the file may not grow any larger", "raise the limit on file sizes and try again"),
    errno.EROFS: ("the file system is read-only", "mount it writable, or look at why it went read-only"),
    errno.EACCES: ("permission denied", "give this user the right to write here"),
    errno.EIO: ("the disk reports an error", "look at the kernel's log; the disk may be failing"),
}
