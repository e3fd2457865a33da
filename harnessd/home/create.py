"""How a home comes to be: in a new or an existing folder, adding what is missing and overwriting nothing."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from harnessd.errors import HistoryError, StorageError, UsageError
from harnessd.home.git import EXECUTABLE, REGULAR, Entry, GitStore, Person, make_repository
from harnessd.home.layout import AGENTS, DEFINITION_FOLDERS, IGNORED, MEMORY, RUNTIME_FOLDERS, Home
from harnessd.home.lock import home_lock
from harnessd.home.scan import ROOT_FILES
from harnessd.home.trust import TrustStore

OPERATOR = Person("operator", "operator@localhost")


@dataclass(frozen=True, slots=True)
class Created:
    """The home, the files that were added (from the home), the commit of them, and what is worth telling."""

    home: Home
    added: tuple[str, ...]
    commit: str | None
    notes: tuple[str, ...]


def create(path: Path, *, template: Path | None = None, trust: TrustStore | None = None) -> Created:
    """Make a home at `path`; blocking. With nothing missing it changes nothing.

    `template` is a folder whose files are copied where there are none. The commit is the operator's, with the
    identity that git has. A repository made here is recorded in `trust`; one that was there stays foreign.
    Raises `UsageError` (`path` or the template is no folder), `StorageError`, `HistoryError`.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the home's own symlinks
    if template is not None and not template.is_dir():
        raise UsageError("there is no such template", where=str(template))
    if os.path.lexists(path) and not path.is_dir():
        raise UsageError("this is a file, not a folder", where=str(path), hint="choose another path")
    home, notes = Home(path), []
    try:
        path.mkdir(parents=True, exist_ok=True)
        made_repository = not os.path.lexists(path / ".git")
        if made_repository:
            if any(os.path.lexists(above / ".git") for above in path.parents):
                notes.append("this folder lies inside another repository; the home has a repository of its own")
            make_repository(path)
        added = _add_missing(home, template)
    except OSError as error:
        raise StorageError(
            f"the home cannot be made: {error.strerror}",
            where=str(error.filename or path),
            hint="choose a folder that you may write to",
        ) from error
    with GitStore(path) as store, home_lock(store.git_dir, 30):
        if _ignore_runtime(home, store) and ".gitignore" not in added:
            added = [".gitignore", *added]
        commit = _commit(home, store, added, notes)
    if made_repository and trust is not None:
        trust.made_here(home)
    return Created(home, tuple(added), commit, tuple(notes))


def _add_missing(home: Home, template: Path | None) -> list[str]:
    added = _copy_missing(template, home.path) if template is not None else []
    plain = {
        AGENTS: f"# {home.name}\n\nYou are {home.name}, an assistant. Be brief; say when you are not sure.\n",
        MEMORY: "# Memory\n",
    }
    for name, text in plain.items():
        if not os.path.lexists(home.path / name):
            (home.path / name).write_text(text)
            added.append(name)
    for name in RUNTIME_FOLDERS:
        (home.path / name).mkdir(exist_ok=True)
    return added


def _copy_missing(template: Path, target: Path) -> list[str]:
    """Regular files only: a link in a template could lead anywhere."""
    added = []
    for folder, folders, names in os.walk(template):
        folders[:] = sorted(name for name in folders if name not in {".git", *RUNTIME_FOLDERS, "__pycache__"})
        relative = Path(folder).relative_to(template)
        for name in sorted(names):
            source, place = Path(folder, name), target / relative / name
            if source.is_symlink() or not source.is_file() or os.path.lexists(place):
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
            added.append((relative / name).as_posix())
    return added


def _ignore_runtime(home: Home, store: GitStore) -> bool:
    """Keep what the runtime writes out of git; whether .gitignore had to be made or lengthened for it."""
    if all(store.is_ignored(f"{name}/x") for name in RUNTIME_FOLDERS):
        return False
    ignore = home.path / ".gitignore"
    known = ignore.read_text() if ignore.exists() else ""
    ignore.write_text(known + ("\n" if known and not known.endswith("\n") else "") + IGNORED)
    return True


def _commit(home: Home, store: GitStore, added: list[str], notes: list[str]) -> str | None:
    """One commit of what was added; a repository's first also holds the definition files that were there."""
    head = store.head()
    paths = [path for path in added if not store.is_ignored(path)]
    if head.commit is None:
        paths = sorted({*paths, *_definition_files(home)})
    if not paths:
        return None
    if head.ref is None or store.under_way() is not None:
        notes.append("nothing was committed: no branch is checked out, or git is in the middle of something")
        return None
    identity = store.identity()
    if identity is None:
        notes.append("git knows no user.name and user.email; the commit is by operator@localhost")
    tree = head.commit
    entries: dict[str, Entry] = {}
    for path in paths:
        place = home.path / path
        mode = EXECUTABLE if place.stat().st_mode & 0o100 else REGULAR
        entries[path] = Entry(mode, store.write_blob(store.to_git(path, place.read_bytes())))
        tree = store.tree_with(tree, path, entries[path])
    who = identity or OPERATOR
    subject = f"Make the home of {home.name}" if head.commit is None else f"Complete the home of {home.name}"
    parents = () if head.commit is None else (head.commit,)
    commit = store.write_commit(tree or "", parents, who, who, subject + "\n")
    if not store.advance(head.ref, head.commit, commit, f"harnessd: {subject}"):
        raise HistoryError("the branch moved meanwhile", where=str(home.path), hint="run it again")
    for path, entry in entries.items():
        if store.index_entry(path) is None:
            store.set_index(store.git_dir / "index", path, entry)
    return commit


def _definition_files(home: Home) -> list[str]:
    found = [name for name in (".gitignore", *ROOT_FILES) if (home.path / name).is_file()]
    for folder in DEFINITION_FOLDERS:
        for place in sorted((home.path / folder).rglob("*")):
            relative = place.relative_to(home.path)
            hidden = any(step.startswith(".") for step in relative.parts)
            if place.is_file() and not place.is_symlink() and not hidden:
                found.append(relative.as_posix())
    return [path for path in found if not (home.path / path).is_symlink()]
