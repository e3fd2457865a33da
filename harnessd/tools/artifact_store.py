"""How a produced file is kept: whole, in a folder of its own, and safe on disk before anyone is told.

What is kept is a copy, so that the agent may go on working with its file. All of this blocks; call it from a thread.
"""

import errno
import fcntl
import hashlib
import os
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from harnessd.home.hidden import strip_hidden
from harnessd.home.layout import Home
from harnessd.ids import check_id, new_id
from harnessd.tools.artifact_media import HEAD, media_type
from harnessd.tools.rooted import OPEN_FILE, Unusable, kind_of, open_folder, unusable

KEPT_AT_MOST = 256 * 1024 * 1024
"""Bytes of one artifact."""

TRIES = 3
_BLOCK = 1024 * 1024
_NAME_BYTES = 120
_ENDING_BYTES = 16
_TICK_SECONDS = 0.02
"""Two changes within one tick of the kernel's clock can leave the same time on a file."""

_CLONE = 0x40049409
"""FICLONE of linux/fs.h: the copy shares the blocks of the original, where the file system can do that."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an artifact goes: `folder` is absolute and real, `below` the same as a path below the home."""

    folder: PurePosixPath
    below: PurePosixPath


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept. `content_ref` is a path below the home, `size` counts bytes."""

    content_ref: str
    media_type: str
    size: int
    sha256: str


def place_of(home: Home, agent_id: str, session_id: str, *steps: str) -> Place:
    """The folder of an artifact, `steps` being its id and perhaps that of a later version.

    Links on the way to the session's folder were judged when the session was opened; below it none is followed.
    """
    folder = home.artifacts(agent_id, session_id)
    for step in steps:
        check_id(step, "art")
    real = PurePosixPath(os.path.realpath(folder))
    return Place(real.joinpath(*steps), PurePosixPath(folder.relative_to(home.path)).joinpath(*steps))


def keep_file(
    source: str, place: Place, *, at_most: int = KEPT_AT_MOST, heed: Callable[[], None] = lambda: None
) -> Kept:
    """Keeps a copy of the regular file `source`, a real path, as it was at one moment.

    `heed` is called between blocks; what it raises ends the copying and leaves nothing. Raises `Unusable` if the
    file is none, is too large, or changes again and again while it is copied.
    """
    path = PurePosixPath(source)
    try:
        for _ in range(TRIES):
            with _opened(path) as file:
                before = _settled(file)
                _check(before, path.name, at_most)
                copy = _Copy(place, safe_name(path.name))
                with copy as temporary:
                    size = _fill(temporary, file, before.st_size, copy.take, heed)
                    if size == before.st_size and _version(os.fstat(file)) == _version(before):
                        return copy.finish(size)
    except OSError as error:
        raise unusable(error, path) from None
    raise Unusable(f"{path.name} keeps changing while it is copied; publish it when it is finished")


def keep_bytes(data: bytes, name: str, place: Place, *, claimed: str = "", at_most: int = KEPT_AT_MOST) -> Kept:
    """Keeps `data` under a name as near to `name` as is safe. Raises `Unusable` if there is too much of it."""
    if len(data) > at_most:
        raise Unusable(_too_large(name, len(data), at_most))
    copy = _Copy(place, safe_name(name), claimed)
    try:
        with copy as temporary:
            _write(temporary, data)
            copy.take(data)
            return copy.finish(len(data))
    except OSError as error:
        raise unusable(error, PurePosixPath(name or "it")) from None


def discard(place: Place, kept: Kept) -> None:
    """Takes back what was kept and is on no record."""
    with suppress(OSError), open_folder(place.folder) as folder:
        os.unlink(PurePosixPath(kept.content_ref).name, dir_fd=folder)
    with suppress(OSError), open_folder(place.folder.parent) as above:
        os.rmdir(place.folder.name, dir_fd=above)


def safe_name(name: str) -> str:
    """`name` as one harmless step of a path: no controls, no separators, no leading dot, at most 120 bytes."""
    text = unicodedata.normalize("NFC", strip_hidden(name.encode(errors="replace").decode()))
    text = "".join(one if one.isalnum() or one in " ._-+()" else "_" for one in text)
    text = " ".join(text.split()).strip(" .")
    stem, dot, ending = text.rpartition(".")
    if not dot or len(ending.encode()) > _ENDING_BYTES:
        stem, ending = text, ""
    room = _NAME_BYTES - len(ending.encode()) - len(dot)
    stem = stem.encode()[:room].decode(errors="ignore").rstrip(" .")
    return (f"{stem}.{ending}" if ending else stem) if stem else "file"


class _Copy:
    """A file that is being made; it gets its name when it is whole, or it vanishes."""

    def __init__(self, place: Place, name: str, claimed: str = "") -> None:
        self._place, self._name, self._claimed = place, name, claimed
        self._temporary = f".{new_id('tmp')}.tmp"
        self._hash = hashlib.sha256()
        self._head = b""
        self._handle = -1
        self._named = False

    def take(self, data: bytes) -> None:
        """The next bytes of its content."""
        self._hash.update(data)
        if len(self._head) < HEAD:
            self._head += data[: HEAD - len(self._head)]

    def finish(self, size: int) -> Kept:
        """Makes it durable and gives it its name."""
        os.fsync(self._handle)
        with open_folder(self._place.folder) as folder:
            os.rename(self._temporary, self._name, src_dir_fd=folder, dst_dir_fd=folder)
            self._named = True
            os.fsync(folder)
        kind = media_type(self._name, self._head, self._claimed)
        return Kept(str(self._place.below / self._name), kind, size, self._hash.hexdigest())

    def __enter__(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open_folder(self._place.folder, make=True) as folder:
            _sweep(folder)
            self._handle = os.open(self._temporary, flags, 0o666, dir_fd=folder)
        return self._handle

    def __exit__(self, *raised: object) -> None:
        os.close(self._handle)
        if not self._named:
            with suppress(OSError), open_folder(self._place.folder) as folder:
                os.unlink(self._temporary, dir_fd=folder)


def _sweep(folder: int) -> None:
    """Removes what a crash left in the middle; the folder belongs to one call, which runs once at a time."""
    for name in os.listdir(folder):
        if name.startswith(".tmp_") and name.endswith(".tmp"):
            os.unlink(name, dir_fd=folder)


@contextmanager
def _opened(path: PurePosixPath) -> Iterator[int]:
    with open_folder(path.parent) as folder:
        file = os.open(path.name, OPEN_FILE, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _settled(file: int) -> os.stat_result:
    """The state of the file, once its last change is a tick of the clock ago, so that a further one can be told."""
    status = os.fstat(file)
    if 0 <= time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK_SECONDS * 1e9:
        time.sleep(_TICK_SECONDS)
        status = os.fstat(file)
    return status


def _check(status: os.stat_result, name: str, at_most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        more = "; pack it into one file first" if stat.S_ISDIR(status.st_mode) else ""
        raise Unusable(f"{name} is {kind_of(status.st_mode)}, not a file{more}")
    if status.st_size > at_most:
        raise Unusable(_too_large(name, status.st_size, at_most))


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _fill(copy: int, file: int, expected: int, take: Callable[[bytes], None], heed: Callable[[], None]) -> int:
    """Copies from the beginning of `file` and says how many bytes it had, at most one block more than `expected`.

    Holes stay holes.
    """
    os.lseek(file, 0, os.SEEK_SET)
    cloned = _clone(copy, file)
    size = 0
    while size <= expected and (data := os.read(copy if cloned else file, _BLOCK)):
        heed()
        size += len(data)
        take(data)
        if cloned:
            continue
        if data.count(0) == len(data):
            os.lseek(copy, len(data), os.SEEK_CUR)
        else:
            _write(copy, data)
    os.ftruncate(copy, size)
    return size


def _clone(copy: int, file: int) -> bool:
    try:
        fcntl.ioctl(copy, _CLONE, file)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        return False
    return True


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _too_large(name: str, size: int, at_most: int) -> str:
    return f"{name} has {size:,} bytes; an artifact has up to {at_most:,}"
