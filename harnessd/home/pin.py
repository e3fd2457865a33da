"""Which home a call used: the pin, one git tree of the definition files."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harnessd.errors import HarnessdError, HistoryError
from harnessd.facts.base import Record
from harnessd.home.committed import CommittedFiles
from harnessd.home.git import EXECUTABLE, LINK, NESTED, REGULAR, Entry, GitStore, Head
from harnessd.home.intent import finish_interrupted, is_interrupted
from harnessd.home.last_good import Invalid, LastGood, NoVersion, Replaced, Sound, Verdict, is_judged
from harnessd.home.layout import DEFINITION_FOLDERS, TOOLS, Home
from harnessd.home.problem import Problem
from harnessd.home.scan import ROOT_FILES, SKIPPED, Found, Scan, Scanner
from harnessd.home.tree import blob_id, tree_of

QUICK_SECONDS = 0.002
SLOW_GLANCES = 5
PINS = "pins"
SEEN = "good"


class Pin(Record):
    """What `run.started` records: the tree, HEAD, whether they differ, and where an older blob stood in."""

    tree: str = ""
    head: str | None = None
    dirty: bool = False
    last_good: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Pinned:
    """A pinned home. `blobs`: path → id of the bytes that are used (the last valid ones of a broken file)."""

    pin: Pin
    blobs: Mapping[str, str]
    problems: tuple[Problem, ...]
    _read: Callable[[str, str], bytes] = field(repr=False)

    @property
    def tree(self) -> str:
        """The pin's id."""
        return self.pin.tree

    def load(self, path: str) -> bytes:
        """The bytes of `path` as this call uses them; raises `KeyError` for a path that is not in `blobs`."""
        return self._read(path, self.blobs[path])


class Pinner:
    """Pins one home, again and again; an unchanged home gives the same object after stats alone.

    `invalid(path, raw, committed)` says what is wrong with a file; `trusted_link(path)` whether the operator
    lets that link leave the home. A file that vanished is looked for again after `breathe()`: some editors
    save by moving the old file away first, and a deny list must not be gone for that moment. With `keep` False
    nothing is written: no pin is stored, and a change that was interrupted is left to others to finish. Safe to
    call from several threads. Never starts a process.
    """

    def __init__(
        self,
        home: Home,
        *,
        invalid: Invalid,
        trusted_link: Callable[[str], bool] = lambda _path: False,
        breathe: Callable[[], None] = lambda: time.sleep(0.05),
        keep: bool = True,
    ) -> None:
        self._home, self._invalid, self._breathe, self._keeps = home, invalid, breathe, keep
        self._lock = threading.RLock()
        self._scanner = Scanner(home.path, trusted_link)
        self._last: tuple[Head, Scan, Pinned] | None = None
        self._slow = 0
        self._head_stamps: tuple[tuple[int, ...], ...] | None = None
        self._attach()

    def glance(self) -> Pinned | None:
        """The last pin if stats show nothing changed since; None if `pin` has to look, or if looking may take long.

        Never waits: meant for an event loop, where a thread's hand-over would cost more than the stats. A home
        whose glances take longer than two milliseconds (many files, a slow drive) is left to `pin`; a few may, since
        other threads can come between.
        """
        if self._last is None or self._slow >= SLOW_GLANCES or not self._lock.acquire(blocking=False):
            return None
        try:
            began = time.perf_counter()
            unchanged = self._unchanged()
            self._count(time.perf_counter() - began)
            return self._last[2] if unchanged else None
        except HarnessdError:
            return None
        finally:
            self._lock.release()

    def pin(self) -> Pinned:
        """Pin the home as it is now. Blocking: microseconds for each file if nothing changed."""
        with self._lock:
            began = time.perf_counter()
            if self._last is not None and self._unchanged():
                self._count(time.perf_counter() - began)
                return self._last[2]
            if self._opened != _identity(self._store.git_dir):
                self._store.close()
                self._attach()
            if self._keeps and is_interrupted(self._store.git_dir):
                finish_interrupted(self._home, self._store)
            head = self._store.head()
            scan = self._scan()
            if self._last is not None and head == self._last[0] and scan == self._last[1]:
                return self._last[2]
            pinned = self._make(head, scan)
            self._last = (head, scan, pinned)
            return pinned

    def _count(self, seconds: float) -> None:
        """Counts slow looks in a row; a quick one says that those before it had been held up."""
        self._slow = 0 if seconds < QUICK_SECONDS else self._slow + 1

    def close(self) -> None:
        """Let go of the repository's files."""
        self._store.close()

    def _unchanged(self) -> bool:
        """Whether repository, HEAD and every known path are as they were at the last pin."""
        return (
            self._last is not None
            and self._opened == _identity(self._store.git_dir)
            and not is_interrupted(self._store.git_dir)
            and self._head_stands(self._last[0])
            and self._scanner.unchanged()
        )

    def _head_stands(self, head: Head) -> bool:
        """Whether HEAD still is what it was; git replaces the files it stands in, so their stats tell."""
        stamps = _stamps(self._store.git_dir, head)
        if stamps is not None and stamps == self._head_stamps:
            return True
        stands = self._store.head() == head
        self._head_stamps = stamps if stands else None
        return stands

    def _attach(self) -> None:
        """Open the repository; again when another one was put in its place."""
        self._store = GitStore(self._home.path)
        self._opened = _identity(self._store.git_dir)
        self._committed = CommittedFiles(self._store)
        self._last_good = LastGood(self._store, self._invalid)
        self._last = None
        self._stored: set[str] = set()

    def _scan(self) -> Scan:
        scan = self._scanner.scan()
        if self._last is not None and any(is_judged(path) for path in self._last[1].files.keys() - scan.files.keys()):
            self._breathe()
            return self._scanner.scan()
        return scan

    def _make(self, head: Head, scan: Scan) -> Pinned:
        verdicts = self._judge(head, scan)
        raw = {path: (found.mode, found.blob) for path, found in scan.files.items() if found.blob}
        used = {path: found.blob for path, found in scan.files.items() if found.blob}
        problems = list(scan.problems)
        for path, verdict in verdicts.items():
            if isinstance(verdict, Sound):
                continue
            problems.append(verdict.problem)
            if isinstance(verdict, Replaced):
                used[path] = verdict.blob
            elif path == TOOLS:
                used[path] = blob_id(b"")
            elif not verdict.text_is_read:
                used.pop(path, None)
        tree, trees = tree_of(raw)
        pin = Pin(
            tree=tree,
            head=head.commit,
            dirty=self._differs(head, scan, tree, trees),
            last_good=tuple(
                path
                for path, verdict in verdicts.items()
                if isinstance(verdict, Replaced) or (isinstance(verdict, NoVersion) and path == TOOLS)
            ),
        )
        pinned = Pinned(pin, used, tuple(problems), self._load)
        if not self._keeps:
            return pinned
        try:
            self._keep(tree, trees, raw, {path: blob for path, blob in used.items() if path in verdicts})
        except HarnessdError as error:
            told = Problem(
                path=".git",
                code="pin-not-kept",
                severity="warning",
                message=f"the pin cannot be stored, so `why` may not find it later: {error.message}",
                fix="make the home's .git writable",
            )
            return replace(pinned, problems=(*problems, told))
        return pinned

    def _judge(self, head: Head, scan: Scan) -> dict[str, Verdict]:
        judged = {path: found for path, found in scan.files.items() if is_judged(path)}
        committed = self._committed.at(head.commit)
        seen = self._committed.at(self._store.kept(SEEN))
        verdicts: dict[str, Verdict] = {}
        for path, found in judged.items():
            verdicts[path] = self._last_good.judge(
                path,
                found.blob,
                lambda path=path, found=found: self._raw(path, found),  # type: ignore[misc]
                _blob(committed.get(path)),
                head.commit,
                _blob(seen.get(path)),
            )
        self._last_good.forget_others(set(judged))
        return verdicts

    def _raw(self, path: str, found: Found) -> bytes | None:
        return self._scanner.bytes_of(path, found.blob) if found.blob else None

    def _differs(self, head: Head, scan: Scan, tree: str, trees: Mapping[str, bytes]) -> bool:
        """Git's own answer to "is there something to commit here", for the definition files.

        Whole folders are compared by tree id first; only what differs is looked at file by file.
        """
        committed = self._store.root(head.commit)
        ours = _root_entries(trees[tree])
        for name in (*ROOT_FILES, *DEFINITION_FOLDERS):
            if committed.get(name) != ours.get(name) and self._differs_below(
                name, self._committed.at(head.commit), scan
            ):
                return True
        return False

    def _differs_below(self, name: str, committed: Mapping[str, Entry], scan: Scan) -> bool:
        there = {path: entry for path, entry in committed.items() if _lies_in(path, name)}
        here = {path: found for path, found in scan.files.items() if _lies_in(path, name)}
        links = {path: text for path, text in scan.links.items() if _lies_in(path, name)}
        # A nested repository that the home records is compared by git itself, commit against commit.
        nested = [path for path, entry in there.items() if entry.mode == NESTED]
        for path in here.keys() | links.keys() | there.keys():
            if _is_left_out(path, scan):
                continue
            if any(path.startswith(f"{link}/") for link in links) or any(_lies_in(path, one) for one in nested):
                continue
            entry = there.get(path)
            if path in links:
                if entry != Entry(LINK, blob_id(links[path].encode("utf-8", "surrogateescape"))):
                    return True
            elif self._file_differs(path, here.get(path), entry):
                return True
        return False

    def _file_differs(self, path: str, found: Found | None, entry: Entry | None) -> bool:
        if entry is None:
            return not self._store.is_ignored(path)
        if found is None:
            return True
        if found.mode != entry.mode and self._store.config("core.filemode") != "false":
            return True
        if found.blob == entry.id:
            return False
        raw = self._raw(path, found)
        return raw is None or blob_id(self._store.to_git(path, raw)) != entry.id

    def _keep(
        self,
        tree: str,
        trees: Mapping[str, bytes],
        raw: Mapping[str, tuple[int, str]],
        used: Mapping[str, str],
    ) -> None:
        """Store what the pin is made of, and the refs that keep it; nothing if both are there."""
        for path, (_, blob) in raw.items():
            if blob not in self._stored and not self._store.has(blob):
                content = self._scanner.bytes_of(path, blob)
                if content is None or self._store.write_blob(content) != blob:
                    raise HistoryError("the file changed while it was read", where=path)
        for tree_id, content in trees.items():
            if tree_id not in self._stored and not self._store.has(tree_id):
                self._store.write_tree(content)
        self._stored = {blob for _, blob in raw.values()} | set(trees)
        if self._store.kept(f"{PINS}/{tree}") != tree:
            self._store.keep(f"{PINS}/{tree}", tree)
        good, good_trees = tree, trees
        if any(raw.get(path, (0, ""))[1] != blob for path, blob in used.items()):
            good, good_trees = tree_of({path: (REGULAR, blob) for path, blob in used.items() if blob != _EMPTY})
        if self._store.kept(SEEN) != good:
            for tree_id, content in good_trees.items():
                if not self._store.has(tree_id):
                    self._store.write_tree(content)
            self._store.keep(SEEN, good)

    def _load(self, path: str, blob: str) -> bytes:
        if blob == _EMPTY:
            return b""
        with self._lock:
            content = self._store.read(blob)
            if content is None:
                content = self._scanner.bytes_of(path, blob)
        if content is None:
            raise HistoryError("this version of the file is gone", where=path, hint="pin the home anew")
        return content


_EMPTY = blob_id(b"")


def _identity(git_dir: Path) -> tuple[int, ...]:
    """Which git folder this is: another clone has other inodes. Zeros if it is gone."""
    try:
        return tuple(os.stat(place).st_ino for place in (git_dir, f"{git_dir}/refs"))  # noqa: PTH116 - half the time
    except OSError:
        return (0, 0)


def _stamps(git_dir: Path, head: Head) -> tuple[tuple[int, ...], ...] | None:
    """The stats of HEAD's file and its branch's; None if the branch stands elsewhere (packed, or another worktree)."""
    if head.ref is None:
        return None
    try:
        seen = [os.stat(f"{git_dir}/{name}") for name in ("HEAD", head.ref)]  # noqa: PTH116 - half the time
    except OSError:
        return None
    return tuple((one.st_ino, one.st_mtime_ns, one.st_ctime_ns, one.st_size) for one in seen)


def _root_entries(raw: bytes) -> dict[str, Entry]:
    """The entries of a tree in git's own encoding."""
    entries, at = {}, 0
    while at < len(raw):
        end = raw.index(b"\0", at)
        mode, _, name = raw[at:end].partition(b" ")
        entries[name.decode()] = Entry(int(mode, 8), raw[end + 1 : end + 21].hex())
        at = end + 21
    return entries


def _blob(entry: Entry | None) -> str | None:
    return entry.id if entry is not None and entry.mode in {REGULAR, EXECUTABLE} else None


def _lies_in(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}/")


def _is_left_out(path: str, scan: Scan) -> bool:
    """Whether a path of HEAD is none of ours: hidden, a cache, a nested repository, or over a bound."""
    steps = path.split("/")
    if any(step.startswith(".") or step in SKIPPED for step in steps):
        return True
    return any(path == left or path.startswith(f"{left}/") for left in scan.skipped)
