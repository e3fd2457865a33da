"""What git knows of a home: `log`, `show`, `why` and `blame`, as values. All of these block."""

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from harnessd.errors import HistoryError
from harnessd.facts.base import Record
from harnessd.home import git
from harnessd.home.git import FOLDER, CommitFacts, GitStore
from harnessd.home.last_good import COMMITS_SEARCHED, Invalid, LastGood
from harnessd.home.layout import Home
from harnessd.home.tree import blob_id


class LogEntry(Record):
    """A commit. `at` is in seconds since 1970; `kind` is agent if an agent of harnessd made it.

    `trailers` are the `Harness-…` ones without that prefix, in lower case: `{"run": "run_…"}`.
    """

    commit: str = ""
    at: int = 0
    kind: str = "operator"
    author: str = ""
    subject: str = ""
    trailers: Mapping[str, str] = Field(default_factory=dict)
    paths: tuple[str, ...] = ()
    plus: int = 0
    minus: int = 0


class Shown(Record):
    """A commit with its whole message and what it changed, as a unified diff."""

    entry: LogEntry = LogEntry()
    message: str = ""
    diff: str = ""


class Used(Record):
    """A file as a run used it. `commit` last gave it these bytes, None if they were never committed.

    `stands_in`: the file was broken, and this older version was used.
    """

    path: str = ""
    blob: str = ""
    commit: str | None = None
    at: int = 0
    subject: str = ""
    run: str = ""
    stands_in: bool = False


class BlamedLine(Record):
    """A line of a file and the commit that set it; `entry.trailers` lead to the run and the call."""

    line: int = 0
    text: str = ""
    entry: LogEntry = LogEntry()


def log(home: Home, *, paths: Sequence[str] = (), limit: int = 50) -> tuple[LogEntry, ...]:
    """The newest `limit` commits, of the whole home or of those that touched `paths` (files or folders).

    One single file is followed through renames. Raises `HistoryError`.
    """
    with GitStore(home.path) as store:
        head = store.head().commit
        if head is None:
            return ()
        if len(paths) == 1 and (home.path / paths[0]).is_file():
            followed = (store.commit(found) for found in git.follow(home.path, paths[0], limit))
            return tuple(_entry(store, found) for found in followed if found is not None)
        entries = []
        for found in store.commits(head):
            entry = _entry(store, found)
            if not paths or any(_touches(entry, path) for path in paths):
                entries.append(entry)
            if len(entries) >= limit:
                break
        return tuple(entries)


def show(home: Home, commit: str) -> Shown:
    """One commit, named by 4 or more digits of its id, or `HEAD`. Raises `HistoryError`."""
    with GitStore(home.path) as store:
        found = store.commit(_resolved(store, commit))
        if found is None:
            raise HistoryError("there is no such commit", where=commit, hint="list them with: harnessd log")
        return Shown(entry=_entry(store, found), message=found.message, diff=store.patch(found))


def why(
    home: Home, tree: str, head: str | None, *, last_good: Sequence[str] = (), invalid: Invalid | None = None
) -> tuple[Used, ...]:
    """Which version of which file a run used, and the commit that last set it; also for uncommitted edits.

    `tree`, `head` and `last_good` are what `run.started` recorded. With `invalid`, the stand-ins of broken
    files are found again. Raises `HistoryError` if the pin is gone.
    """
    with GitStore(home.path) as store:
        if not store.has(tree):
            raise HistoryError(
                "this pin is not in the home's git store",
                where=tree,
                hint="it was pinned on a read-only disk, or refs/harnessd was deleted",
            )
        blobs = {path: entry.id for path, entry in store.files(tree)}
        start = head if head is not None and store.has(head) else store.head().commit
        if invalid is not None:
            judge = LastGood(store, invalid)
            for path in last_good:
                blobs[path] = judge.stand_in(path, start) or blobs.get(path, "")
        setters = _setters(store, start, blobs)
        return tuple(_used(path, blob, setters.get(path), path in last_good) for path, blob in sorted(blobs.items()))


def blame(home: Home, path: str, line: int | None = None) -> tuple[BlamedLine, ...]:
    """The lines of a committed file (or one, from 1), each with its commit. Raises `HistoryError`."""
    with GitStore(home.path) as store:
        head = store.head().commit
        entry = store.entry(head, path)
        if head is None or entry is None or entry.mode == FOLDER:
            raise HistoryError("the file is not in HEAD", where=path, hint="commit it first, or look at: harnessd log")
        entries: dict[str, LogEntry] = {}
        lines = []
        for commit, number, text in git.blame(home.path, head, path):
            if line is not None and number != line:
                continue
            if commit not in entries:
                found = store.commit(commit)
                entries[commit] = LogEntry(commit=commit) if found is None else _entry(store, found)
            lines.append(BlamedLine(line=number, text=text, entry=entries[commit]))
        return tuple(lines)


def trailers_of(message: str) -> dict[str, str]:
    """The `Harness-…` trailers of a message's last paragraph; text of the subject is never one."""
    paragraphs = re.split(r"\n\s*\n", message.strip())
    if len(paragraphs) < 2:
        return {}
    found = re.findall(r"^Harness-([A-Za-z]+): (.*)$", paragraphs[-1], re.MULTILINE)
    return {name.lower(): value.strip() for name, value in found}


def _entry(store: GitStore, commit: CommitFacts) -> LogEntry:
    changes = store.changes(commit)
    trailers = trailers_of(commit.message)
    return LogEntry(
        commit=commit.id,
        at=commit.at,
        kind="agent" if "agent" in trailers else "operator",
        author=commit.author.name,
        subject=commit.message.split("\n", 1)[0],
        trailers=trailers,
        paths=tuple(path for path, _, _ in changes),
        plus=sum(plus for _, plus, _ in changes),
        minus=sum(minus for _, _, minus in changes),
    )


def _touches(entry: LogEntry, path: str) -> bool:
    folder = path.rstrip("/") + "/"
    return any(changed == path or changed.startswith(folder) for changed in entry.paths)


def _resolved(store: GitStore, commit: str) -> str:
    if commit == "HEAD":
        return store.head().commit or ""
    return commit if re.fullmatch(r"[0-9a-f]{4,40}", commit) else ""


def _setters(store: GitStore, start: str | None, blobs: dict[str, str]) -> dict[str, CommitFacts]:
    """For each path the newest commit that gave it that blob; one walk for all of them."""
    wanted = {path: {blob} for path, blob in blobs.items()}
    for path, blob in blobs.items():
        raw = store.read(blob)
        if raw is not None and b"\r\n" in raw:
            # With autocrlf the run read other line ends than git stores.
            wanted[path].add(blob_id(store.to_git(path, raw)))
    found: dict[str, CommitFacts] = {}
    for count, commit in enumerate(store.commits(start)):
        if not wanted or count >= COMMITS_SEARCHED:
            break
        for path, blob in store.set_by(commit):
            if blob in wanted.get(path, ()):
                found[path] = commit
                del wanted[path]
    return found


def _used(path: str, blob: str, commit: CommitFacts | None, stands_in: bool) -> Used:
    if commit is None:
        return Used(path=path, blob=blob, stands_in=stands_in)
    return Used(
        path=path,
        blob=blob,
        commit=commit.id,
        at=commit.at,
        subject=commit.message.split("\n", 1)[0],
        run=trailers_of(commit.message).get("run", ""),
        stands_in=stands_in,
    )
