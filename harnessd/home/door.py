"""The one door: how a definition file of a home is changed, as a commit that says who, when and why."""

import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio.to_thread

from harnessd.errors import HistoryError, StorageError
from harnessd.facts.base import Record
from harnessd.facts.message import Origin
from harnessd.home.change import ANY, Change, DeleteFile, DoesNotFit, Entries, Operation, PutFile, apply
from harnessd.home.git import EXECUTABLE, FOLDER, LINK, NESTED, REGULAR, Entry, GitStore, Head, Person
from harnessd.home.intent import (
    PREPARED,
    Intent,
    Reach,
    abandon,
    advance_index,
    disk_blob,
    finish,
    lock_index,
    recover,
    withdraw,
    write_whole,
)
from harnessd.home.layout import Home
from harnessd.home.lock import home_lock
from harnessd.home.problem import Problem
from harnessd.home.stale import clear_stale_index_lock
from harnessd.home.subject import diff_of, subject_of
from harnessd.home.tiers import Tier, Tiers, tier_of
from harnessd.home.tree import blob_id

Check = Callable[[str, bytes, bytes | None], Sequence[Problem]]
COMMITTER = Person("harnessd", "harnessd@localhost")
MAX_CHANGED_FILE = 1_000_000
LOCK_WAIT = 30.0
INDEX_WAIT = 3.0
_ATTEMPTS = 20


class Author(Record):
    """Who a commit is by. An operator passes every tier but what is locked for all (`.git`, `agents/`)."""

    kind: Literal["agent", "operator"] = "agent"
    name: str = ""
    email: str = ""


class Cause(Record):
    """What led to a commit; each field that is set becomes a trailer (`Harness-Run: run_…`)."""

    agent: str = ""
    session: str = ""
    run: str = ""
    call: str = ""
    pin: str = ""
    model: str = ""
    origin: Origin = "agent"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do, for a person to judge. `base` is the blob on disk that it was made from."""

    path: str
    diff: str
    base: str | None
    result: bytes | None
    tier: Tier


@dataclass(frozen=True, slots=True)
class Committed:
    """It is in history and on disk. `blob` is the id of the file's bytes on disk, None if it was deleted."""

    commit: str
    blob: str | None
    path: str
    subject: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was changed. `line` counts from 1, 0 means the whole file; `hint` is the way out."""

    code: str
    message: str
    path: str
    line: int = 0
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Nothing was changed: the file is not what the writer read. `current` is its blob on disk now."""

    message: str
    path: str
    current: str | None


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """Nothing was changed: a person must agree to `diff`, which holds for exactly the blob `base`."""

    diff: str
    base: str | None
    path: str
    tier: Tier


Outcome = Committed | Refused | Conflicted | NeedsApproval


@dataclass(frozen=True, slots=True)
class _Plan:
    """A change worked out against one state of HEAD and disk."""

    head: Head
    old: Entry | None
    new: bytes | None
    before: bytes | None
    after: bytes | None
    mode: int
    notes: tuple[str, ...]


class Door:
    """The one door of one home. Its methods wait for the home's lock in a thread and may run side by side.

    `check(path, new, committed)` finds what is wrong with a new version; a problem of severity "error"
    refuses it. `reach(step)` is told of each step of a commit ("objects", "prepared", "intent", "index",
    "branch", "unlocked", "file"), so that a crash can be tried at each.
    """

    def __init__(
        self,
        home: Home,
        *,
        check: Check,
        entries: Entries,
        tiers: Tiers | None = None,
        reach: Reach = lambda _step: None,
        lock_wait: float = LOCK_WAIT,
        index_wait: float = INDEX_WAIT,
    ) -> None:
        self._home, self._check, self._entries = home, check, entries
        self._tiers, self._reach = tiers or Tiers(), reach
        self._lock_wait, self._index_wait = lock_wait, index_wait

    async def preview(
        self, change: Change, *, user_id: str | None = None, origin: Origin = "agent"
    ) -> Preview | Refused | Conflicted:
        """What `change` would do to the file on disk, validated as a commit would be. Stores nothing."""
        return await anyio.to_thread.run_sync(self.preview_now, change, user_id, origin)

    async def commit(
        self, change: Change, author: Author, cause: Cause, *, allow_tier: Tier, user_id: str | None = None
    ) -> Outcome:
        """Make the change. `allow_tier`: "auto": what needs nobody; "ask": a person agreed.

        Raises `Locked` if another process holds the home, `StorageError` and `HistoryError` if disk or git
        refuse. Once started it is not interrupted by cancellation.
        """
        return await anyio.to_thread.run_sync(self.commit_now, change, author, cause, allow_tier, user_id)

    def preview_now(
        self, change: Change, user_id: str | None = None, origin: Origin = "agent"
    ) -> Preview | Refused | Conflicted:
        """`preview`, blocking."""
        tier = tier_of(change.path, user_id, tiers=self._tiers, origin=origin)
        refused = self._refuse_place(change.path)
        if refused is not None:
            return refused
        with GitStore(self._home.path) as store:
            plan = self._plan(store, change, exact=False)
        if not isinstance(plan, _Plan):
            return plan
        return _preview(change.path, plan, tier)

    def commit_now(
        self, change: Change, author: Author, cause: Cause, allow_tier: Tier, user_id: str | None = None
    ) -> Outcome:
        """`commit`, blocking."""
        tier = tier_of(change.path, user_id, tiers=self._tiers, origin=cause.origin)
        refused = self._refuse_place(change.path) or _refuse_tier(change.path, tier, author)
        if refused is not None:
            return refused
        agreed = author.kind == "operator" or tier == "auto" or allow_tier == "ask"
        with GitStore(self._home.path) as store:
            if not agreed:
                plan = self._plan(store, change, exact=False)
                if not isinstance(plan, _Plan):
                    return plan
                preview = _preview(change.path, plan, tier)
                return NeedsApproval(preview.diff, preview.base, change.path, tier)
            with home_lock(store.git_dir, self._lock_wait):
                # What a person agreed to is that diff on that blob, and no other.
                exact = tier == "ask" and author.kind == "agent"
                return self._commit(store, change, author, cause, exact)

    def _commit(self, store: GitStore, change: Change, author: Author, cause: Cause, exact: bool) -> Outcome:
        until = time.monotonic() + self._index_wait
        while not recover(self._home, store):
            if time.monotonic() > until:
                return _index_locked(change.path, store)
            time.sleep(0.02)
        held: Intent | None = None
        for _ in range(_ATTEMPTS):
            done = self._try(store, change, author, cause, exact, held)
            if done is not None:
                return done
            # The branch or the file moved: from now on git's own lock is held while the change is worked out.
            held = self._lock_index(store, Intent(path=change.path))
            if held is None:
                return _index_locked(change.path, store)
        if held is not None:
            abandon(store.git_dir, held)
        return Conflicted("the file moves faster than this change can follow", change.path, None)

    def _try(
        self, store: GitStore, change: Change, author: Author, cause: Cause, exact: bool, held: Intent | None
    ) -> Outcome | None:
        planned: _Plan | Refused | Conflicted | None = None
        try:
            planned = _refuse_state(store, change.path) or self._plan(store, change, exact)
        finally:
            if held is not None and not isinstance(planned, _Plan):
                abandon(store.git_dir, held)
        if not isinstance(planned, _Plan):
            return planned
        return self._attempt(store, change, planned, author, cause, held)

    def _lock_index(self, store: GitStore, intent: Intent) -> Intent | None:
        until = time.monotonic() + self._index_wait
        while (locked := lock_index(store.git_dir, intent)) is None:
            if time.monotonic() > until:
                abandon(store.git_dir, intent)
                return None
            time.sleep(0.002)
        return locked

    def _attempt(
        self, store: GitStore, change: Change, plan: _Plan, author: Author, cause: Cause, held: Intent | None
    ) -> Outcome | None:
        """One try at a planned commit; None if the branch or the file moved meanwhile."""
        path = change.path
        assert plan.head.ref is not None  # noqa: S101 - _refuse_state lets no detached HEAD through
        new = None if plan.new is None else Entry(plan.mode, store.write_blob(plan.new))
        subject = subject_of(path, self._committed_bytes(store, plan.old), plan.new)
        commit = store.write_commit(
            store.tree_with(plan.head.commit, path, new),
            () if plan.head.commit is None else (plan.head.commit,),
            _person(author),
            COMMITTER if author.kind == "agent" else _person(author),
            f"{subject}\n\n{_trailers(cause)}".rstrip() + "\n",
        )
        self._reach("objects")
        self._prepare(store.git_dir, path, plan)
        self._reach("prepared")
        intent = Intent(
            path=path,
            ref=plan.head.ref,
            commit=commit,
            old=None if plan.old is None else (plan.old.mode, plan.old.id),
            new=None if new is None else (new.mode, new.id),
            before=None if plan.before is None else blob_id(plan.before),
            after=None if plan.after is None else blob_id(plan.after),
            index_lock=0 if held is None else held.index_lock,
        )
        notes = [*plan.notes, *clear_stale_index_lock(store.git_dir)]
        locked = self._lock_index(store, intent)
        if locked is None:
            return _index_locked(path, store)
        self._reach("intent")
        if disk_blob(self._home.path / path) != intent.before:
            abandon(store.git_dir, locked)
            return None
        notes += advance_index(self._home, store, locked)
        self._reach("index")
        try:
            advanced = store.advance(plan.head.ref, plan.head.commit, commit, f"harnessd: {subject}")
        except HistoryError:
            withdraw(self._home, store, locked)
            raise
        if not advanced:
            withdraw(self._home, store, locked)
            return None
        self._reach("branch")
        notes += finish(self._home, store, locked, self._reach, lambda raw: self._again(change.operation, raw))
        if (store.config("commit.gpgsign") or "").lower() in {"true", "yes", "on", "1"}:
            notes.append("the commit is not signed: commit.gpgSign is set, and the daemon holds no key")
        return Committed(commit, intent.after, path, subject, tuple(notes))

    def _plan(self, store: GitStore, change: Change, exact: bool) -> _Plan | Refused | Conflicted:
        """Apply the operation to HEAD's text and to the text on disk, and validate what comes out."""
        path, operation = change.path, change.operation
        head = store.head()
        old = store.entry(head.commit, path)
        if old is not None and old.mode not in {REGULAR, EXECUTABLE}:
            return Refused("not-a-file", "HEAD holds a link, folder or nested repository there", path)
        blocked = _blocked_above(store, head, path)
        if blocked is not None:
            return blocked
        target = self._home.path / path
        before, mode = _read_disk(target)
        current = None if before is None else blob_id(before)
        strict = exact or isinstance(operation, PutFile | DeleteFile)
        if strict and change.base not in {ANY, current}:
            moved = "was changed" if current else "is gone"
            return Conflicted(f"the file {moved} since it was read", path, current)
        committed = self._committed_bytes(store, old)
        head_text = None if committed is None else store.to_disk(path, committed)
        dirty = before != head_text and (
            None in (before, head_text) or before is None or store.to_git(path, before) != committed
        )
        after = apply(operation, before, self._entries)
        if isinstance(after, DoesNotFit):
            if change.base == current:
                return Refused("does-not-fit", after.message, path)
            return Conflicted(after.message, path, current)
        new_text = after
        if dirty:
            if isinstance(operation, PutFile) and before is not None:
                return Conflicted(
                    "the file has edits of the user that are not committed, and a whole new text would "
                    "swallow them; change only the part that is meant, or let the user commit first",
                    path,
                    current,
                )
            fitted = apply(operation, head_text, self._entries)
            if isinstance(fitted, DoesNotFit):
                reason = (
                    "the user wrote it and has not committed it yet; ask them to commit it first"
                    if head_text is None
                    else f"it fits only the user's uncommitted edits, not HEAD: {fitted.message}"
                )
                return Conflicted(reason, path, current)
            new_text = fitted
        new = None if new_text is None else store.to_git(path, new_text)
        if new == committed:
            return Refused("no-change", "the file already says so", path)
        refused, notes = self._validate(path, new, committed)
        if refused is None and dirty and after is not None and not self._errors(path, before, committed):
            refused, _ = self._validate(path, after, committed)
        if refused is not None:
            return refused
        if dirty:
            notes.append(f"{path} has edits of the user that are not committed; they were kept and not committed")
        kept_mode = old.mode if old is not None else EXECUTABLE if mode & 0o100 else REGULAR
        return _Plan(head, old, new, before, after, kept_mode, tuple(notes))

    def _validate(self, path: str, new: bytes | None, committed: bytes | None) -> tuple[Refused | None, list[str]]:
        if new is None:
            return None, []
        if len(new) > MAX_CHANGED_FILE:
            return Refused("too-large", f"{len(new)} bytes; at most {MAX_CHANGED_FILE} are allowed", path), []
        notes = []
        for problem in self._check(path, new, committed):
            if problem.severity == "error":
                return Refused(problem.code, problem.message, path, problem.line, problem.fix), []
            notes.append(str(problem))
        return None, notes

    def _errors(self, path: str, raw: bytes | None, committed: bytes | None) -> bool:
        if raw is None:
            return False
        return any(problem.severity == "error" for problem in self._check(path, raw, committed))

    def _again(self, operation: Operation, raw: bytes) -> bytes | None:
        """The operation on what the user saved while the commit was made; a whole new text does not fit."""
        if isinstance(operation, PutFile | DeleteFile):
            return None
        fitted = apply(operation, raw, self._entries)
        return None if isinstance(fitted, DoesNotFit) else fitted

    def _committed_bytes(self, store: GitStore, old: Entry | None) -> bytes | None:
        return None if old is None else store.read(old.id)

    def _prepare(self, git_dir: Path, path: str, plan: _Plan) -> None:
        if plan.after is None:
            return
        target, prepared = self._home.path / path, git_dir / PREPARED
        mode = plan.mode & 0o777
        owner = None
        try:
            found = target.lstat()
            mode, owner = stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)
        except (FileNotFoundError, NotADirectoryError):
            pass
        try:
            write_whole(prepared, plan.after, mode)
            if owner is not None and owner != (os.geteuid(), os.getegid()):
                os.chown(prepared, *owner)
        except PermissionError:
            # Not the owner and not root: the file becomes ours, its mode stays.
            return
        except OSError as error:
            raise StorageError(f"the new version cannot be written: {error.strerror}", where=str(target)) from error

    def _refuse_place(self, path: str) -> Refused | None:
        """Paths that lead nowhere good, whoever asks."""
        steps = path.split("/")
        if path != path.strip() or "\\" in path or any(c < " " for c in path):
            return Refused("bad-path", "the path holds characters that a name here may not have", path)
        if any(step in {"", ".", ".."} or step.lower() == ".git" for step in steps):
            return Refused(
                "bad-path", "give the path from the home in its plain form, such as skills/tea/SKILL.md", path
            )
        place = self._home.path
        for step in steps:
            place = place / step
            try:
                found = place.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                return Refused("bad-path", f"it cannot be looked at: {error.strerror}", path)
            if stat.S_ISLNK(found.st_mode):
                return Refused(
                    "link",
                    f"{place.relative_to(self._home.path)} is a link; files are not changed through links",
                    path,
                )
            last = place == self._home.path / path
            if last != stat.S_ISREG(found.st_mode) or (not last and not stat.S_ISDIR(found.st_mode)):
                return Refused("not-a-file", f"{place.relative_to(self._home.path)} is in the way", path)
            if not last and os.path.lexists(place / ".git"):
                return Refused(
                    "nested-repository",
                    f"{place.relative_to(self._home.path)} is a git repository of its own; commit there",
                    path,
                )
        return None


def _preview(path: str, plan: _Plan, tier: Tier) -> Preview:
    base = None if plan.before is None else blob_id(plan.before)
    return Preview(path, diff_of(path, plan.before, plan.after), base, plan.after, tier)


def _refuse_tier(path: str, tier: Tier, author: Author) -> Refused | None:
    if tier == "free":
        return Refused("free", "work/ is not part of the agent's history; write there directly", path)
    if path.split("/")[0] == "agents" or (tier == "locked" and author.kind == "agent"):
        return Refused("locked", "this file is closed to the agent", path, hint="ask the operator to change it")
    return None


def _refuse_state(store: GitStore, path: str) -> Refused | None:
    """States of the repository in which an agent's commit would get lost or get in the user's way."""
    under_way = store.under_way()
    if under_way is not None:
        what, way_out = under_way
        return Refused("git-busy", f"the user is in the middle of {what}", path, hint=f"finish it: {way_out}")
    if store.head().ref is None:
        return Refused(
            "detached-head",
            "no branch is checked out, so a commit would be lost",
            path,
            hint="check one out: git switch main",
        )
    return None


def _blocked_above(store: GitStore, head: Head, path: str) -> Refused | None:
    steps = path.split("/")
    for count in range(1, len(steps)):
        above = "/".join(steps[:count])
        entry = store.entry(head.commit, above)
        if entry is None:
            return None
        if entry.mode != FOLDER:
            what = {LINK: "a link", NESTED: "a nested repository"}.get(entry.mode, "a file")
            code = "nested-repository" if entry.mode == NESTED else "not-a-file"
            return Refused(code, f"{above} is {what} in HEAD", path)
    return None


def _index_locked(path: str, store: GitStore) -> Refused:
    return Refused(
        "index-locked",
        "git holds the index of this home",
        path,
        hint=f"if no git command runs here, delete {store.git_dir / 'index.lock'}",
    )


def _read_disk(target: Path) -> tuple[bytes | None, int]:
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None, 0o644
    except OSError as error:
        raise StorageError(f"the file cannot be read: {error.strerror}", where=str(target)) from error
    with os.fdopen(descriptor, "rb") as file:
        return file.read(), os.fstat(descriptor).st_mode


def _person(author: Author) -> Person:
    """Git refuses `<`, `>` and line ends in names, and empty names."""
    clean = [
        "".join(c for c in text if c.isprintable() and c not in "<>").strip() for text in (author.name, author.email)
    ]
    return Person(clean[0] or author.kind, clean[1] or f"{author.kind}@localhost")


def _trailers(cause: Cause) -> str:
    lines = []
    for name in ("agent", "session", "run", "call", "pin", "model", "origin"):
        value = "".join(c if c.isprintable() else " " for c in str(getattr(cause, name))).strip()
        if value:
            lines.append(f"Harness-{name.capitalize()}: {value}")
    return "\n".join(lines)
