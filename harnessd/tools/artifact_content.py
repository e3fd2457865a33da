"""Is the content of an artifact still there and still what was recorded? Opened so that no link leads elsewhere."""

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from harnessd.facts.run import ArtifactRef
from harnessd.home.layout import Home
from harnessd.tools.rooted import OPEN_FILE, Unusable, kind_of, open_folder

_BLOCK = 1024 * 1024
_REMEMBERED = 1024
_State = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Content:
    """The artifact's file, open for reading from its beginning: the caller closes `fd`. `size` counts bytes."""

    fd: int
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The content is not there any more, or is not to be read; `why` is for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Altered:
    """There is a file, but its bytes are not those that were recorded; `why` is for people."""

    why: str


@dataclass
class KnownHashes:
    """The hashes of files that were read before, as long as they did not change; any thread may use it."""

    _known: OrderedDict[_State, str] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, file: int) -> str:
        """The SHA-256 of an open file. Blocks while it reads, the first time."""
        before = _state(file)
        with self._lock:
            if before in self._known:
                self._known.move_to_end(before)
                return self._known[before]
        digest = _hash(file)
        if _state(file) == before:
            with self._lock:
                self._known[before] = digest
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        return digest


def open_artifact(
    home: Home,
    agent_id: str,
    session_id: str,
    ref: ArtifactRef,
    known: KnownHashes,
    *,
    trusted_links: Collection[Path] = (),
) -> Content | Gone | Altered:
    """The content of an artifact of that session, if it lies in the session's folder and has the recorded hash.

    `trusted_links` are those that the operator trusts; any other link on the way is refused. Blocks. Raises
    `InvalidName` if `agent_id` or `session_id` is none.
    """
    folder = home.artifacts(agent_id, session_id)
    inside = _inside(ref.content_ref, PurePosixPath(folder.relative_to(home.path)))
    if inside is None:
        return Gone("it is said to lie outside its session's folder, and is not read there")
    if any(link not in trusted_links for link in home.links(agent_id, session_id)):
        return Gone("a link leads to the folder that it is said to lie in, and is not followed")
    path = PurePosixPath(os.path.realpath(folder)) / inside
    try:
        with open_folder(path.parent) as above:
            file = os.open(path.name, OPEN_FILE, dir_fd=above)
    except FileNotFoundError:
        return Gone("its file is no longer there")
    except (OSError, Unusable) as error:
        return Gone(f"its file can't be opened: {getattr(error, 'strerror', None) or error}")
    keep = False
    try:
        answer = _judged(file, Path(path), ref, known)
        keep = isinstance(answer, Content)
        return answer
    finally:
        if not keep:
            os.close(file)


def _inside(content_ref: str, folder: PurePosixPath) -> PurePosixPath | None:
    """The path below the session's folder; None if it leads elsewhere."""
    path = PurePosixPath(content_ref)
    if "\0" in content_ref or ".." in path.parts or path.parts[: len(folder.parts)] != folder.parts:
        return None
    inside = PurePosixPath(*path.parts[len(folder.parts) :])
    return inside if inside.parts else None


def _judged(file: int, path: Path, ref: ArtifactRef, known: KnownHashes) -> Content | Gone | Altered:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        return Gone(f"in its place there is {kind_of(status.st_mode)}")
    if status.st_size != ref.size:
        return Altered(f"its file has {status.st_size:,} bytes, but {ref.size:,} were recorded")
    try:
        found = known.of(file)
    except OSError as error:
        return Gone(f"its file can't be read: {error.strerror}")
    if found != ref.sha256:
        return Altered("its file has other bytes than were recorded")
    return Content(file, path, status.st_size)


def _state(file: int) -> _State:
    status = os.fstat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _hash(file: int) -> str:
    digest, at = hashlib.sha256(), 0
    while data := os.pread(file, _BLOCK, at):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()
