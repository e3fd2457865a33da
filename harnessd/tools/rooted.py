"""How a file is opened, listed and replaced so that nothing can be slipped in between check and use.

A path here is absolute and real: whoever decides about it resolved its links before. Each step is opened from the
descriptor of the one before, and no step may be a link: one that appears afterwards is refused, not followed.
All of this blocks; call it from a thread.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from harnessd.ids import new_id

LISTED_AT_MOST = 50_000
COMPARED_AT_ONCE = 1024 * 1024
"""Bytes of a file that are held against what is expected at a time."""


class Unusable(Exception):
    """The path cannot be used; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder; `size` is in bytes."""

    name: str
    kind: str
    size: int


def read_file(path: str, *, at_most: int) -> bytes | None:
    """The bytes of a regular file of up to `at_most` bytes; None if there is no such file.

    Raises `Unusable` for anything else (folder, device, link, too large) and for a path that leads through a link.
    """
    with open_file(path, at_most=at_most) as opened:
        if opened is None:
            return None
        # What it has, and one byte to see whether it grew: a buffer for the most it may have takes longer than reading.
        data = opened.file.read(opened.status.st_size + 1)
        if len(data) > opened.status.st_size:
            data += opened.file.read(at_most + 1 - len(data))
    if len(data) > at_most:
        raise Unusable(f"{PurePosixPath(path).name} grew beyond {at_most:,} bytes while it was read")
    return data


@dataclass(frozen=True, slots=True)
class Opened:
    """A regular file open for reading, and what it was then."""

    file: BinaryIO
    status: os.stat_result


@contextmanager
def open_file(path: str, *, at_most: int) -> Iterator[Opened | None]:
    """A regular file of up to `at_most` bytes, open for reading; None if there is none. Raises as `read_file` does."""
    real = PurePosixPath(path)
    try:
        with open_folder(real.parent) as folder:
            handle = os.open(real.name, OPEN_FILE, dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise unusable(error, real) from None
    status = _regular(handle, real.name)
    with os.fdopen(handle, "rb") as file:
        if status.st_size > at_most:
            raise Unusable(f"{real.name} has {status.st_size:,} bytes; only files of up to {at_most:,} can be opened")
        try:
            yield Opened(file, status)
        except OSError as error:
            raise unusable(error, real) from None


def list_folder(path: str) -> list[Entry] | None:
    """The entries of a folder by name, of a very large one the first found; None if it is no folder."""
    real = PurePosixPath(path)
    try:
        with open_folder(real) as folder, os.scandir(folder) as scan:
            names = sorted(entry.name for entry, _ in zip(scan, range(LISTED_AT_MOST), strict=False))
            return [_entry(folder, name) for name in names]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unusable(error, real) from None


def replace_file(path: str, data: bytes, *, expected: bytes | None) -> str:
    """Puts `data` in place of the file in one step; folders on the way are made.

    Mode, owner, group and extended attributes of the file are kept; what could not be is said in the answer, "" if
    nothing. `expected` is what the file must still hold (None: it must not exist). Raises `Unusable` if it does not,
    if the file is read-only, or as `read_file` does; the file is then as it was.
    """
    real = PurePosixPath(path)
    try:
        with open_folder(real.parent, make=True) as folder:
            return _replace(folder, real.name, data, expected)
    except OSError as error:
        raise unusable(error, real) from None


def _regular(handle: int, name: str) -> os.stat_result:
    """What the open file is; closes it and raises if it is none."""
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return status
    os.close(handle)
    raise Unusable(f"{name} is {kind_of(status.st_mode)}, not a file")


OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_folder(path: PurePosixPath, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder, reached step by step from the root of the machine; what is made on the way stays.

    Raises `OSError` as it comes (see `unusable`), and `Unusable` for a path that is not plain.
    """
    handle = os.open("/", _STEP)
    try:
        steps = path.parts[1:]
        for number, step in enumerate(steps, 1):
            if step == ".." or not path.is_absolute():
                raise Unusable(f"{path} is not a plain path")
            below = _open_step(handle, step, _FOLDER if number == len(steps) else _STEP, make=make)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _open_step(folder: int, step: str, flags: int, *, make: bool) -> int:
    try:
        return os.open(step, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(step, dir_fd=folder)
    above = os.open(".", _FOLDER, dir_fd=folder)  # what was opened only as a step can't be synced
    try:
        os.fsync(above)
    finally:
        os.close(above)
    return os.open(step, flags, dir_fd=folder)


def _replace(folder: int, name: str, data: bytes, expected: bytes | None) -> str:
    told = ""
    temporary = f".{new_id('tmp')}.tmp"
    with _holding(folder, name, expected) as old:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o666, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                _write_all(file, data)
                if old is not None:
                    told = _as_before(old, handle)
                os.fsync(handle)
            with _holding(folder, name, expected):
                pass
            if expected is None:
                _move_new(folder, temporary, name)
            else:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    os.fsync(folder)
    return told


def _write_all(file: io.FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _as_before(old: int, new: int) -> str:
    """Gives the new file the owner, mode and attributes of the old one; says which of them it could not."""
    was, told = os.fstat(old), ""
    if (was.st_uid, was.st_gid) != (os.geteuid(), os.fstat(new).st_gid):
        try:
            os.fchown(new, was.st_uid, was.st_gid)
        except PermissionError:
            told = "the file now belongs to the user that the agent runs as"
            with suppress(PermissionError):
                os.fchown(new, -1, was.st_gid)
    with suppress(OSError):  # a file system without them, or ones that only the system may set
        for attribute in os.listxattr(old):
            os.setxattr(new, attribute, os.getxattr(old, attribute))
    os.fchmod(new, stat.S_IMODE(was.st_mode))  # last: a change of owner or of an access list changes the mode
    return told


def _move_new(folder: int, temporary: str, name: str) -> None:
    """A link, unlike a rename, never replaces what somebody else made meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        # A file system without hard links (FAT, some network ones).
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(temporary, dir_fd=folder)


@contextmanager
def _holding(folder: int, name: str, expected: bytes | None) -> Iterator[int | None]:
    """A descriptor of the file if it holds `expected` and may be written; None if it should not exist and does not."""
    try:
        handle = os.open(name, OPEN_FILE, dir_fd=folder)
    except FileNotFoundError:
        if expected is None:
            yield None
            return
        raise Unusable(f"{name} is gone since it was read; nothing was written") from None
    status = _regular(handle, name)
    with os.fdopen(handle, "rb", buffering=0) as file:
        if expected is None:
            raise Unusable(f"{name} was made by somebody else meanwhile; read it first. Nothing was written")
        if status.st_size != len(expected) or not _is_same(file, expected):
            raise Unusable(f"{name} changed since it was read; read it again. Nothing was written")
        # Replacing needs only the folder; the file's own mode is what its owner said about changing it.
        if not status.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder, effective_ids=True):
            raise Unusable(f"{name} is read-only (mode {stat.S_IMODE(status.st_mode):04o}); nothing was written")
        yield handle


def _is_same(file: io.FileIO, expected: bytes) -> bool:
    at = 0
    while chunk := file.read(COMPARED_AT_ONCE):
        if chunk != expected[at : at + len(chunk)]:
            return False
        at += len(chunk)
    return at == len(expected)


def _entry(folder: int, name: str) -> Entry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return Entry(name, "gone", 0)
    return Entry(name, kind_of(status.st_mode), status.st_size)


def kind_of(mode: int) -> str:
    """What a file of that mode is, in words."""
    for test, kind in _KINDS:
        if test(mode):
            return kind
    return "a device"


_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def unusable(error: OSError, path: PurePosixPath) -> Unusable:
    """What went wrong with the path, for the model."""
    if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR}:
        return Unusable(f"{path.name}: a step of the path is a link or no folder")
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Unusable(f"the disk is full; {path.name} is unchanged")
    return Unusable(f"{path.name}: {(error.strerror or type(error).__name__).lower()}")
