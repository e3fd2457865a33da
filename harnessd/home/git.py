"""How we speak to git: the only module that knows libgit2, GitPython or the `git` command."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import pygit2
from pygit2.enums import FileMode, FilterMode, ObjectType, RepositoryState, SortMode

from harnessd.errors import HistoryError, StorageError

EXECUTABLE, REGULAR, LINK, FOLDER, NESTED = 0o100755, 0o100644, 0o120000, 0o040000, 0o160000
PRIVATE_REFS = "refs/harnessd"

_UNDER_WAY = {
    RepositoryState.MERGE: ("a merge", "git merge --continue, or git merge --abort"),
    RepositoryState.REVERT: ("a revert", "git revert --continue, or git revert --abort"),
    RepositoryState.REVERT_SEQUENCE: ("a revert", "git revert --continue, or git revert --abort"),
    RepositoryState.CHERRYPICK: ("a cherry-pick", "git cherry-pick --continue, or git cherry-pick --abort"),
    RepositoryState.CHERRYPICK_SEQUENCE: (
        "a cherry-pick",
        "git cherry-pick --continue, or git cherry-pick --abort",
    ),
    RepositoryState.BISECT: ("a bisect", "git bisect reset"),
    RepositoryState.APPLY_MAILBOX: ("an am", "git am --continue, or git am --abort"),
}


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD points: `ref` is None when detached, `commit` is None before the first commit."""

    ref: str | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, link or folder in a git tree: its mode and object id."""

    mode: int
    id: str


@dataclass(frozen=True, slots=True)
class Person:
    """A name and an address, as a commit carries them."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What a commit says of itself. `at` is in seconds since 1970."""

    id: str
    parents: tuple[str, ...]
    author: Person
    at: int
    message: str


class GitStore:
    """One repository at object level. Starts no process; runs no hook, no filter program, no signer.

    Not for use by two threads at once. Every method raises `HistoryError` (git refuses) or `StorageError`
    (the disk refuses) with git's own words.
    """

    def __init__(self, path: Path) -> None:
        """Open the repository whose working directory is `path`, and no other around it."""
        self._where = str(path)
        # Objects and refs reach the disk before a call returns; libgit2 knows only a process-wide switch.
        pygit2.settings.enable_fsync_gitdir(True)
        try:
            self._repo = pygit2.Repository(str(path))
        except (pygit2.GitError, ValueError, OSError) as error:
            raise _cannot_open(path, error) from error
        workdir = self._repo.workdir
        if workdir is None or not Path(workdir).samefile(path):
            self._repo.free()
            raise HistoryError(
                "its git repository is bare or has its working directory elsewhere",
                where=str(path),
                hint="a home is the working directory of its repository: unset core.worktree and core.bare",
            )
        self.git_dir = Path(self._repo.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the repository's files."""
        self._repo.free()

    def head(self) -> Head:
        """Where HEAD points now (some microseconds)."""
        with self._told("HEAD cannot be read"):
            reference = self._repo.references.get("HEAD")
            if reference is None:
                return Head(None, None)
            if not isinstance(reference.target, str):
                return Head(None, str(reference.target))
            branch = self._repo.references.get(reference.target)
            return Head(reference.target, None if branch is None else str(branch.resolve().target))

    def head_of(self, ref: str) -> str | None:
        """The commit a branch points at."""
        found = self._repo.references.get(ref)
        return None if found is None else str(found.resolve().target)

    def under_way(self) -> tuple[str, str] | None:
        """What the user is in the middle of and how to leave it: `("a merge", "git merge --continue …")`."""
        state = self._repo.state()
        # libgit2 looks for BISECT_LOG after the others; a bisect during nothing else is what it reports.
        if state == RepositoryState.NONE:
            return None
        return _UNDER_WAY.get(state, ("a rebase", "git rebase --continue, or git rebase --abort"))

    def root(self, treeish: str | None) -> dict[str, Entry]:
        """The top level of a commit or tree: name → entry; empty for None or what is not there."""
        tree = self._tree(treeish)
        return {} if tree is None else {e.name: Entry(int(e.filemode), str(e.id)) for e in tree if e.name}

    def entry(self, treeish: str | None, path: str) -> Entry | None:
        """What stands at `path` in a commit or tree."""
        tree = self._tree(treeish)
        if tree is None:
            return None
        try:
            found = tree[path]
        except KeyError:
            return None
        return Entry(int(found.filemode), str(found.id))

    def files(self, tree_id: str, prefix: str = "") -> Iterator[tuple[str, Entry]]:
        """Every file, link and nested repository below a tree, as `(prefix/path, entry)`."""
        for name, entry in self.root(tree_id).items():
            if entry.mode == FOLDER:
                yield from self.files(entry.id, f"{prefix}{name}/")
            else:
                yield prefix + name, entry

    def read(self, blob: str) -> bytes | None:
        """The bytes of a blob, or None if the store has no such blob."""
        found = self._repo.get(blob)
        return found.data if isinstance(found, pygit2.Blob) else None

    def has(self, object_id: str) -> bool:
        """Whether the store holds that object."""
        return object_id in self._repo

    def write_blob(self, raw: bytes) -> str:
        """Store bytes as they are; returns the blob id."""
        with self._told("an object cannot be stored"):
            return str(self._repo.write(ObjectType.BLOB, raw))

    def write_tree(self, raw: bytes) -> str:
        """Store a tree given in git's own encoding; returns its id."""
        with self._told("an object cannot be stored"):
            return str(self._repo.write(ObjectType.TREE, raw))

    def keep(self, ref: str, object_id: str) -> None:
        """Point a ref under `refs/harnessd` at an object, so that gc spares it; peers don't see it."""
        with self._told("a ref cannot be written"):
            self._hide_private_refs()
            self._repo.references.create(f"{PRIVATE_REFS}/{ref}", pygit2.Oid(hex=object_id), force=True)

    def kept(self, ref: str) -> str | None:
        """What a ref under `refs/harnessd` points at."""
        found = self._repo.references.get(f"{PRIVATE_REFS}/{ref}")
        return None if found is None else str(found.target)

    def to_git(self, path: str, raw: bytes) -> bytes:
        """`raw` as `git add` would store it (line ends, ident); filter programs are never run."""
        return self._filtered(path, raw, FilterMode.TO_ODB)

    def to_disk(self, path: str, raw: bytes) -> bytes:
        """`raw` as `git checkout` would write it."""
        return self._filtered(path, raw, FilterMode.TO_WORKTREE)

    def is_ignored(self, path: str) -> bool:
        """Whether the ignore rules name `path`."""
        return self._repo.path_is_ignored(path)

    def tree_with(self, commit: str | None, path: str, entry: Entry | None) -> str:
        """The tree of `commit` with `path` set to `entry` (None removes it); nothing else differs."""
        with self._told("a tree cannot be stored"):
            made = self._with(self._tree(commit), path.split("/"), entry)
            return str(made if made is not None else self._repo.TreeBuilder().write())

    def write_commit(self, tree: str, parents: tuple[str, ...], author: Person, committer: Person, message: str) -> str:
        """Store a commit that no ref names yet; returns its id."""
        with self._told("a commit cannot be stored"):
            return str(
                self._repo.create_commit(
                    None,
                    pygit2.Signature(author.name, author.email),
                    pygit2.Signature(committer.name, committer.email),
                    message,
                    pygit2.Oid(hex=tree),
                    [pygit2.Oid(hex=parent) for parent in parents],
                )
            )

    def advance(self, ref: str, old: str | None, new: str, note: str) -> bool:
        """Compare-and-swap of a branch: from `old` (None = must not exist) to `new`; False if it moved."""
        try:
            if old is None:
                self._repo.references.create(ref, pygit2.Oid(hex=new), force=False)
                return True
            reference = self._repo.references.get(ref)
            if reference is None or str(reference.target) != old:
                return False
            reference.set_target(pygit2.Oid(hex=new), note)
        except pygit2.AlreadyExistsError:
            return False
        except (pygit2.GitError, OSError) as error:
            if "does not match" in str(error):
                return False
            hint = "if no git command runs here, delete the .lock file it names" if "lock" in str(error) else None
            raise HistoryError(f"the branch cannot be advanced: {error}", where=ref, hint=hint) from error
        return True

    def descends(self, commit: str | None, ancestor: str) -> bool:
        """Whether `ancestor` is `commit` or lies in its past."""
        if commit is None or not self.has(ancestor):
            return False
        return commit == ancestor or self._repo.descendant_of(pygit2.Oid(hex=commit), pygit2.Oid(hex=ancestor))

    def commits(self, commit: str | None) -> Iterator[CommitFacts]:
        """`commit` and its past, newest first; ends early at the edge of a shallow clone."""
        if commit is None:
            return
        try:
            for found in self._repo.walk(pygit2.Oid(hex=commit), SortMode.NONE):
                yield _facts(found)
        except (pygit2.GitError, KeyError):
            return

    def versions(self, commit: str | None, path: str, limit: int) -> Iterator[tuple[str, str]]:
        """The blobs `path` had in the past of `commit`, newest first, as `(the commit that set it, blob)`."""
        held: tuple[str, str] | None = None
        for found in islice(self.commits(commit), limit):
            entry = self.entry(found.id, path)
            blob = entry.id if entry is not None and entry.mode in {REGULAR, EXECUTABLE} else None
            if held is not None and held[1] != blob:
                yield held
            held = None if blob is None else (found.id, blob)
        if held is not None:
            yield held

    def changes(self, commit: CommitFacts) -> tuple[tuple[str, int, int], ...]:
        """What a commit changed against its first parent: `(path, lines added, lines removed)`."""
        tree = self._tree(commit.id)
        if tree is None:
            return ()
        parent = self._tree(commit.parents[0]) if commit.parents else None
        diff = tree.diff_to_tree(swap=True) if parent is None else parent.diff_to_tree(tree)
        return tuple((p.delta.new_file.path, p.line_stats[1], p.line_stats[2]) for p in diff if p is not None)

    def patch(self, commit: CommitFacts) -> str:
        """What a commit changed against its first parent, as a unified diff."""
        tree = self._tree(commit.id)
        parent = self._tree(commit.parents[0]) if commit.parents else None
        if tree is None:
            return ""
        diff = tree.diff_to_tree(swap=True) if parent is None else parent.diff_to_tree(tree)
        return diff.patch or ""

    def set_by(self, commit: CommitFacts) -> Iterator[tuple[str, str]]:
        """The files to which a commit gave a blob that they have in none of its parents: `(path, blob)`."""
        tree = self._tree(commit.id)
        if tree is None:
            return
        parents = [parent for parent in map(self._tree, commit.parents) if parent is not None]
        diff = parents[0].diff_to_tree(tree) if parents else tree.diff_to_tree(swap=True)
        for delta in diff.deltas:
            path, blob = delta.new_file.path, str(delta.new_file.id)
            others = (self.entry(str(parent.id), path) for parent in parents[1:])
            if all(other is None or other.id != blob for other in others):
                yield path, blob

    def commit(self, name: str) -> CommitFacts | None:
        """One commit, by its id or the beginning of it."""
        try:
            found = self._repo.get(name) if len(name) == 40 else self._repo.revparse_single(name) if name else None
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return _facts(found) if isinstance(found, pygit2.Commit) else None

    def identity(self) -> Person | None:
        """The user's own name and address, as git would put them into a commit; None if it knows none."""
        try:
            signature = self._repo.default_signature
        except (KeyError, pygit2.GitError):
            return None
        return Person(signature.name, signature.email)

    def config(self, name: str) -> str | None:
        """A setting as git would read it here, or None."""
        try:
            return self._repo.config[name]
        except (KeyError, pygit2.GitError):
            return None

    def set_index(self, index: Path, path: str, entry: Entry | None) -> None:
        """Set one entry of the index file `index` (None removes it); all others keep every bit.

        For formats that `index_entry` could read.
        """
        with self._told("the index cannot be written"):
            opened = pygit2.Index(str(index))
            if entry is None:
                opened.remove(path)
            else:
                opened.add(pygit2.IndexEntry(path, pygit2.Oid(hex=entry.id), FileMode(entry.mode)))
            opened.write()

    def index_entry(self, path: str) -> Entry | None:
        """The index entry of `path`, None if it has none; `id` is "conflict" while one is open.

        Raises `HistoryError` for an index format that libgit2 cannot read (split, sparse).
        """
        with self._told("the index cannot be read"):
            opened = self._repo.index
            opened.read(force=True)
            if opened.conflicts is not None and path in opened.conflicts:
                return Entry(0, "conflict")
            if path not in opened:
                return None
            found = opened[path]
            return Entry(int(found.mode), str(found.id))

    def _tree(self, treeish: str | None) -> pygit2.Tree | None:
        found = None if treeish is None else self._repo.get(treeish)
        return found.peel(pygit2.Tree) if isinstance(found, pygit2.Commit | pygit2.Tree) else None

    def _with(self, tree: pygit2.Tree | None, steps: list[str], entry: Entry | None) -> pygit2.Oid | None:
        builder = self._repo.TreeBuilder() if tree is None else self._repo.TreeBuilder(tree)
        name, below = steps[0], steps[1:]
        if below:
            present = builder.get(name)
            made = self._with(present if isinstance(present, pygit2.Tree) else None, below, entry)
            placed = None if made is None else (made, FileMode.TREE)
        else:
            placed = None if entry is None else (pygit2.Oid(hex=entry.id), FileMode(entry.mode))
        if placed is not None:
            builder.insert(name, *placed)
        elif builder.get(name) is not None:
            builder.remove(name)
        return builder.write() if len(builder) else None

    def _filtered(self, path: str, raw: bytes, way: FilterMode) -> bytes:
        with self._told(f"the filters of {path} cannot be read"):
            try:
                filters = self._repo.load_filter_list(path, way)
            except pygit2.GitError as error:
                # Attributes may stand in the index, and libgit2 cannot read a split or sparse one.
                if "mandatory extension" not in str(error) or self._has_filters():
                    raise
                return raw
            return raw if filters is None else filters.apply_to_buffer(raw)

    def _has_filters(self) -> bool:
        converts = (self.config("core.autocrlf") or "false").lower() not in {"false", "no", "off", "0"}
        places = (Path(self._repo.workdir) / ".gitattributes", self.git_dir / "info" / "attributes")
        return converts or any(place.exists() for place in places)

    def _told(self, what: str) -> "_told":
        return _told(what, self._where)

    def _hide_private_refs(self) -> None:
        name = "transfer.hideRefs"
        if PRIVATE_REFS not in self._repo.config.get_multivar(name):
            self._repo.config.set_multivar(name, "^refs/harnessd$", PRIVATE_REFS)


def _facts(commit: pygit2.Commit) -> CommitFacts:
    return CommitFacts(
        str(commit.id),
        tuple(str(parent) for parent in commit.parent_ids),
        Person(commit.author.name, commit.author.email),
        commit.commit_time,
        commit.message,
    )


def make_repository(path: Path) -> None:
    """`git init` on branch main; hooks and templates of the machine are not copied."""
    with _told("the repository cannot be made", str(path)):
        pygit2.init_repository(
            str(path),
            flags=pygit2.enums.RepositoryInitFlag.MKPATH | pygit2.enums.RepositoryInitFlag.NO_REINIT,
            initial_head="main",
        )


def blame(home: Path, commit: str, path: str) -> tuple[tuple[str, int, str], ...]:
    """Who set each line of `path` at `commit`: `(commit, line, text)`, lines count from 1, moves followed."""
    import git  # late: 100 ms, and only people ask for this

    with git.Repo(home, search_parent_directories=False) as repo, _safely(repo):
        try:
            found = repo.blame(commit, f"./{path}", rev_opts=["--no-textconv"])
        except (git.GitCommandError, ValueError) as error:
            raise HistoryError(f"git cannot blame it: {error}", where=path) from error
        lines: list[tuple[str, int, str]] = []
        for group in found or ():
            origin, texts = group[0], group[1]
            for text in texts if isinstance(texts, list) else ():
                shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
                lines.append((str(origin), len(lines) + 1, shown))
        return tuple(lines)


def follow(home: Path, path: str, limit: int) -> tuple[str, ...]:
    """The commits that touched `path`, newest first, through renames."""
    import git  # late: 100 ms, and only people ask for this

    with git.Repo(home, search_parent_directories=False) as repo, _safely(repo):
        try:
            found = repo.git.log("--follow", "--format=%H", f"--max-count={limit:d}", "--", path)
        except git.GitCommandError as error:
            raise HistoryError(f"git cannot follow it: {error.stderr.strip()}", where=path) from error
        return tuple(str(found).split())


def update_index(home: Path, index: Path, path: str, old: Entry | None, new: Entry | None) -> bool:
    """Set one entry of the index file `index` by the `git` command, for index formats that libgit2 cannot write.

    False, and nothing changed, if the entry is not `old`.
    """
    listed = _run(home, index, "ls-files", "--stage", "-z", "--", path).rstrip("\0")
    mode, _, rest = listed.partition(" ")
    present = Entry(int(mode, 8), rest.split(" ")[0]) if listed and "\0" not in listed else None
    if "\0" in listed or present not in {old, new}:
        return False
    if new is None:
        _run(home, index, "update-index", "--force-remove", "--", path)
    else:
        _run(home, index, "update-index", "--add", "--cacheinfo", f"{new.mode:o},{new.id},{path}")
    return True


def _run(home: Path, index: Path, *arguments: str) -> str:
    command = ["git", *SAFE_OPTIONS, "-c", f"safe.directory={home}", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=home,
            env=_safe_environment() | {"GIT_INDEX_FILE": str(index)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HistoryError(f"git could not be run: {error}", where=str(home)) from error
    if done.returncode:
        raise HistoryError(f"git {arguments[0]}: {done.stderr.strip()}", where=str(home))
    return done.stdout


SAFE_OPTIONS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgsign=false",
    "-c", "gc.auto=0", "-c", "protocol.ext.allow=never", "-c", "core.attributesFile=/dev/null",
    "-c", "log.showSignature=false", "-c", "core.pager=cat",
)  # fmt: skip


def _safe_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


class _safely:  # noqa: N801 - read as a word: `with …, _safely(repo)`
    """Gives every git command of a GitPython `Repo` the safe options and environment."""

    def __init__(self, repo: object) -> None:
        import git  # late: 100 ms, and only people ask for this

        assert isinstance(repo, git.Repo)  # noqa: S101 - narrows the type
        repo.git.update_environment(**_safe_environment())
        repo.git.set_persistent_git_options(
            c=[option for option in SAFE_OPTIONS if option != "-c"] + [f"safe.directory={repo.working_dir}"]
        )

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _told:  # noqa: N801 - read as a word: `with _told("…")`
    """Turns what libgit2 raises into our own errors, with `what` before git's words."""

    def __init__(self, what: str, where: str) -> None:
        self._what, self._where = what, where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, pygit2.GitError | OSError | ValueError | KeyError):
            words = str(error)
            full = any(hint in words for hint in ("No space", "Read-only", "Permission denied", "Disk quota"))
            if full or isinstance(error, OSError):
                raise StorageError(
                    f"{self._what}: {words}", where=self._where, hint="make the home's .git writable"
                ) from error
            raise HistoryError(
                f"{self._what}: {words}", where=self._where, hint="look at it with: git status, git fsck"
            ) from error


def _cannot_open(path: Path, error: Exception) -> HistoryError:
    words = str(error)
    if "owne" in words:
        return HistoryError(
            "its repository belongs to another user",
            where=str(path),
            hint=f"if you trust it: git config --global --add safe.directory {path}",
        )
    if "objectformat" in words.lower():
        return HistoryError(
            "its repository uses SHA-256 objects, which libgit2 cannot read",
            where=str(path),
            hint="clone it into a SHA-1 repository",
        )
    return HistoryError(
        f"git cannot open it: {words}",
        where=str(path),
        hint="look at it with: git status; a home needs a repository of its own (harnessd init)",
    )
