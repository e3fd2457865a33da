"""What lies in a home now: its definition files, found by stat, read only when they changed."""

import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harnessd.home.layout import AGENTS, DEFINITION_FOLDERS, KNOWLEDGE, MEMORY, RUNTIME_FOLDERS, TOOLS
from harnessd.home.problem import Problem
from harnessd.home.tree import blob_id

ROOT_FILES = (AGENTS, MEMORY, KNOWLEDGE, TOOLS)
MAX_FILE = 16 * 2**20
MAX_DEPTH = 8
MAX_ENTRIES_OF_ROOT_FOLDER = 20_000
MAX_ENTRIES = 2_000
MAX_FILES = 50_000
SKIPPED = frozenset({"__pycache__", "node_modules"})
_KEPT_BYTES = 4 * 2**20

Signature = tuple[int, int, int, int, int]
Look = Callable[[str], os.stat_result]


@dataclass(frozen=True, slots=True)
class Found:
    """A definition file: git mode and blob id of its raw bytes; `blob` is "" when it could not be read."""

    mode: int
    blob: str


@dataclass(frozen=True)
class Scan:
    """The definition files of one moment.

    `links`: every symlink met and its text; what lies below a followed one stands in `files` as its content.
    `skipped`: files and folders that are over a bound and were left out whole.
    """

    files: dict[str, Found] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Scanner:
    """Looks at one home again and again, and reads only what its stat says is new.

    A stat is (mtime, ctime, size, inode, mode) in nanoseconds: an edit that keeps size and mtime still moves
    ctime or the inode. What changed so recently that another edit could hide in the same clock tick is read
    again until it has aged. Names that begin with a dot are no definition files.
    """

    def __init__(self, home: Path, trusted_link: Callable[[str], bool]) -> None:
        self._home = str(home)
        self._trusted_link = trusted_link
        self._watch: list[tuple[str, Signature | None, Look]] = []
        self._aged = False
        self._blobs: dict[str, tuple[Signature, str]] = {}
        self._listings: dict[str, tuple[Signature, tuple[str, ...] | None, bool]] = {}
        self._recent: dict[str, bytes] = {}

    def unchanged(self) -> bool:
        """Whether the last scan still holds; stats only, about a microsecond for each file and folder."""
        if not self._aged:
            return False
        for path, known, look in self._watch:
            try:
                now = look(path)
            except (OSError, ValueError):
                if known is not None:
                    return False
                continue
            if known is None or known != (
                now.st_mtime_ns,
                now.st_ctime_ns,
                now.st_size,
                now.st_ino,
                now.st_mode,
            ):
                return False
        return True

    def scan(self) -> Scan:
        """Look at everything, using what is known of whatever has not changed."""
        visit = _Visit(self._home, self._trusted_link, self._blobs, self._listings, self._recent)
        for name in ROOT_FILES:
            visit.enter(name, 0, ())
        for name in DEFINITION_FOLDERS:
            visit.enter(name, 1, ())
        self._watch, self._aged = visit.watch, not visit.fresh
        self._blobs, self._listings = visit.blobs, visit.listings
        self._trim()
        return Scan(visit.files, visit.links, tuple(visit.skipped), tuple(visit.problems))

    def bytes_of(self, path: str, blob: str) -> bytes | None:
        """The bytes of a file of the last scan, if they were just read or still stand on disk as `blob`."""
        raw = self._recent.get(blob)
        if raw is not None:
            return raw
        try:
            raw = Path(self._home, path).read_bytes()
        except (OSError, ValueError):
            return None
        return raw if blob_id(raw) == blob else None

    def _trim(self) -> None:
        kept = sum(map(len, self._recent.values()))
        for blob in list(self._recent):
            if kept <= _KEPT_BYTES:
                break
            kept -= len(self._recent.pop(blob))


class _Visit:
    """One walk through the definition files."""

    def __init__(
        self,
        home: str,
        trusted_link: Callable[[str], bool],
        known_blobs: dict[str, tuple[Signature, str]],
        known_listings: dict[str, tuple[Signature, tuple[str, ...] | None, bool]],
        recent: dict[str, bytes],
    ) -> None:
        self._home, self._real_home = home, os.path.realpath(home)
        self._trusted_link = trusted_link
        self._known_blobs, self._known_listings, self._recent = known_blobs, known_listings, recent
        self.files: dict[str, Found] = {}
        self.links: dict[str, str] = {}
        self.skipped: list[str] = []
        self.problems: list[Problem] = []
        self.watch: list[tuple[str, Signature | None, Look]] = []
        self.blobs: dict[str, tuple[Signature, str]] = {}
        self.listings: dict[str, tuple[Signature, tuple[str, ...] | None, bool]] = {}
        self.fresh = False

    def enter(self, path: str, depth: int, above: tuple[tuple[int, int], ...]) -> None:
        """Take up `path` (from the home), whatever it is; `depth` 0 means: must be a file."""
        place = f"{self._home}/{path}"
        try:
            found = os.lstat(place)
        except OSError as error:
            self.watch.append((place, None, os.lstat))
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                self._odd(path, "unreadable", "error", f"it cannot be looked at: {error.strerror}")
            return
        self.watch.append((place, _signature(found), os.lstat))
        if stat.S_ISLNK(found.st_mode):
            followed = self._follow(path, place)
            if followed is None:
                if not depth:
                    self.files[path] = Found(0o100644, "")
                return
            place, found = followed
        if stat.S_ISDIR(found.st_mode) and depth:
            self._folder(path, place, found, depth, above)
        elif stat.S_ISREG(found.st_mode):
            self._file(path, place, found)
        else:
            self._odd(path, "not-a-file", "error", "a file is expected here, and it is something else")
            if not depth:
                self.files[path] = Found(0o100644, "")

    def _follow(self, path: str, place: str) -> tuple[str, os.stat_result] | None:
        """Where a link leads, if it stays in the home (not among what the agent may write) or is trusted."""
        try:
            self.links[path] = os.readlink(place)  # noqa: PTH115 - names are text here, for speed
            real = os.path.realpath(place, strict=True)
            found = os.stat(place)  # noqa: PTH116
        except OSError as error:
            self.watch.append((place, None, os.stat))
            self._odd(path, "dangling-link", "warning", f"this link leads nowhere: {error.strerror}")
            return None
        self.watch.append((place, _signature(found), os.stat))
        inside = real.startswith(self._real_home + "/")
        open_to_agent = inside and real[len(self._real_home) + 1 :].split("/")[0] in (
            *RUNTIME_FOLDERS,
            ".git",
        )
        if (inside and not open_to_agent) or self._trusted_link(path):
            return real, found
        self._odd(
            path,
            "link-outside",
            "warning",
            f"this link leads out of the home's definition to {real} and is not followed",
            "copy the file here, or let the operator list it under trustedLinks",
        )
        return None

    def _folder(
        self, path: str, place: str, found: os.stat_result, depth: int, above: tuple[tuple[int, int], ...]
    ) -> None:
        here = (found.st_dev, found.st_ino)
        if here in above:
            self._odd(path, "link-loop", "warning", "this link leads back to a folder above it")
            return
        if depth > MAX_DEPTH:
            self.skipped.append(path)
            self._odd(path, "too-deep", "warning", f"folders deeper than {MAX_DEPTH} are left out")
            return
        limit = MAX_ENTRIES_OF_ROOT_FOLDER if depth == 1 else MAX_ENTRIES
        names = self._names(path, place, found, limit)
        if names is None:
            self.skipped.append(path)
            self._odd(
                path,
                "too-many-files",
                "warning",
                f"this folder holds more than {limit} entries and is left out whole",
                "move it to work/, which is not part of what the agent is",
            )
            return
        for name in names:
            self.enter(f"{path}/{name}", depth + 1, (*above, here))

    def _names(self, path: str, place: str, found: os.stat_result, limit: int) -> tuple[str, ...] | None:
        """The entries of a folder by name; None if there are more than `limit` (it stops counting there)."""
        signature = _signature(found)
        known = self._known_listings.get(place)
        if known is not None and known[0] == signature:
            names, nested = known[1], known[2]
        else:
            began = time.time_ns()
            names, nested = self._list(path, place, limit)
            if self._too_fresh(found, began):
                signature = _UNKNOWN
        self.listings[place] = (signature, names, nested)
        if nested:
            self._odd(
                path,
                "nested-repository",
                "notice",
                "this folder is a git repository of its own: its files are read, the home records none",
                "remove its .git, or keep it as a submodule and update it there",
            )
        return names

    def _list(self, path: str, place: str, limit: int) -> tuple[tuple[str, ...] | None, bool]:
        names, nested = [], False
        try:
            with os.scandir(place) as entries:
                for count, entry in enumerate(entries):
                    if count >= limit:
                        return None, nested
                    nested = nested or entry.name == ".git"
                    if not entry.name.startswith(".") and entry.name not in SKIPPED:
                        names.append(entry.name)
        except OSError as error:
            self._odd(path, "unreadable", "error", f"this folder cannot be listed: {error.strerror}")
        return tuple(sorted(names)), nested

    def _file(self, path: str, place: str, found: os.stat_result) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = path.encode("utf-8", "backslashreplace").decode()
            self._odd(shown, "bad-name", "warning", "the name is no UTF-8; the file is left out", "rename it")
            return
        if len(self.files) >= MAX_FILES:
            self.skipped.append(path)
            if not any(problem.code == "too-many-files" for problem in self.problems):
                self._odd(path, "too-many-files", "warning", f"more than {MAX_FILES} files: the rest is left out")
            return
        if found.st_size > MAX_FILE:
            self.skipped.append(path)
            self._odd(path, "too-large", "warning", f"files over {MAX_FILE >> 20} MiB are left out")
            if "/" in path:
                return
        signature = _signature(found)
        known = self._known_blobs.get(place)
        if known is not None and known[0] == signature:
            blob = known[1]
        else:
            signature, blob = self._hash(path, place, signature)
        self.blobs[place] = (signature, blob)
        self.files[path] = Found(0o100755 if found.st_mode & 0o100 else 0o100644, blob)

    def _hash(self, path: str, place: str, signature: Signature) -> tuple[Signature, str]:
        """Read and hash a file that holds still meanwhile; "" and a problem if it cannot be read."""
        for _ in range(3):
            began = time.time_ns()
            try:
                before, raw, after = _read(place)
            except OSError as error:
                self._odd(path, "unreadable", "error", f"it cannot be read: {error.strerror}")
                return _UNKNOWN, ""
            if _signature(before) == _signature(after):
                break
        if len(raw) > MAX_FILE:
            return _UNKNOWN, ""
        blob = blob_id(raw)
        self._recent.pop(blob, None)
        self._recent[blob] = raw
        if self._too_fresh(after, began) or signature != _signature(after):
            self.fresh = True
            return _UNKNOWN, blob
        return signature, blob

    def _too_fresh(self, found: os.stat_result, began: int) -> bool:
        """Whether a later change could carry the same stamps: kernels count ticks, some disks seconds."""
        coarse = found.st_mtime_ns % 1_000_000_000 == 0 and found.st_ctime_ns % 1_000_000_000 == 0
        if max(found.st_mtime_ns, found.st_ctime_ns) + (2_100_000_000 if coarse else 50_000_000) < began:
            return False
        self.fresh = True
        return True

    def _odd(self, path: str, code: str, severity: str, message: str, fix: str = "") -> None:
        self.problems.append(
            Problem.model_validate({"path": path, "code": code, "severity": severity, "message": message, "fix": fix})
        )


_UNKNOWN: Signature = (0, 0, 0, 0, 0)


def _signature(found: os.stat_result) -> Signature:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)


def _read(place: str) -> tuple[os.stat_result, bytes, os.stat_result]:
    # The path was resolved before: a link put in its place since is not followed. A pipe does not block.
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - opened by descriptor
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        raw = file.read(MAX_FILE + 1)
        return before, raw, os.fstat(descriptor)
