"""What is wrong with everything the runtime has written into a home: each session, and how they fit together."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harnessd.facts.run import SubagentRef
from harnessd.journal.deletion import is_deleted
from harnessd.journal.erase import erase_session, left_overs
from harnessd.journal.examine import Examined, examine
from harnessd.journal.file import FileLock, lock_of, storage_error
from harnessd.journal.finding import Finding, Severity
from harnessd.journal.session_files import SessionFiles

_SET_ASIDE = re.compile(r"(.+\.jsonl)\.damaged-(\d+)(\.\d+)?")
_JOURNAL = ".jsonl"


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The folders that the runtime writes for one agent; `files` says where those of a session lie."""

    agent_id: str
    sessions: Path
    by_session: tuple[Path, ...]
    files: Callable[[str], SessionFiles]


def fsck(home: Path, agents: Sequence[AgentFolders], trusted: Container[Path] = ()) -> Iterator[Finding]:
    """Every finding, as it is found. Reads only, takes no lock, may run beside a daemon. Blocks.

    Links are told and not followed, unless they are `trusted`.
    """
    # All are listed before the first is read: a session that begins meanwhile is then no riddle to the others.
    listed: dict[tuple[str, str], SessionFiles] = {}
    examined: dict[tuple[str, str], Examined] = {}
    told: set[Path] = set()
    for one in agents:
        agent = one.sessions.parent
        links = list(_links((agent.parent, agent, one.sessions, *one.by_session), trusted))
        yield from (link for link in links if link.path not in told)
        told.update(link.path for link in links)
        if told.isdisjoint({agent.parent, agent, one.sessions}):
            listed |= {(one.agent_id, name): one.files(name) for name in _session_names(one.sessions)}
            yield from _of_folder(one)
    for key, files in listed.items():
        places = (files.journal, files.checkpoint.parent, files.evicted, files.artifacts)
        links = list(_links(places, trusted))
        yield from links
        if any(link.path == files.journal for link in links):
            continue
        examined[key] = examine(files, home)
        yield from examined[key].findings
        if examined[key].deleted:
            yield from _left_over(files)
    for key, found in examined.items():
        yield from _unconfirmed(listed[key], found, key, examined, agents)


def repair(files: SessionFiles, home: Path) -> tuple[Path, ...]:
    """Removes what nothing is lost with, holding the session's lock, and tells what it removed. Blocks.

    The journal is never touched. Raises `Locked` while the session is open, `StorageError`.
    """
    if is_deleted(files.journal):
        gone = left_overs(files)
        erase_session(files)
        return gone
    lock = FileLock(lock_of(files.journal))
    try:
        gone = tuple(found.path for found in examine(files, home).findings if found.repairable)
        for path in gone:
            path.unlink()
    except OSError as error:
        raise storage_error(error, files.checkpoint) from error
    finally:
        lock.close()
    return gone


def _session_names(folder: Path) -> list[str]:
    return sorted(name.removesuffix(_JOURNAL) for name in _names(folder) if name.endswith(_JOURNAL))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _links(places: Iterable[Path], trusted: Container[Path]) -> Iterator[Finding]:
    for place in places:
        if place.is_symlink() and place not in trusted:
            message = f"this is a link, to {place.readlink()}; no session is written through it"
            way_out = "put what it leads to in its place, or list it under trustedLinks in harnessd.yaml"
            yield Finding(place, "warning", "link", message, way_out)


def _of_folder(one: AgentFolders) -> Iterator[Finding]:
    """What lies in an agent's folders and belongs to no session."""
    names = set(_names(one.sessions))
    for name in sorted(names):
        yield from _stranger(one.sessions / name, names)
    sessions = {name.removesuffix(_JOURNAL) for name in names if name.endswith(_JOURNAL)}
    for folder in one.by_session:
        for name in _names(folder):
            if name not in sessions:
                message = "there is no journal of a session of this name"
                way_out = "put the journal back from a backup; if it is not wanted any more, remove this"
                yield Finding(folder / name, "warning", "no-journal", message, way_out)


def _stranger(path: Path, names: Container[str]) -> Iterator[Finding]:
    """What a file is that stands among the journals and is none."""
    aside = _SET_ASIDE.fullmatch(path.name)
    if path.name.endswith(_JOURNAL) or (path.name.endswith(".lock") and path.stem in names):
        return
    if aside and aside[1] in names:
        message = f"{path.lstat().st_size} bytes that were no record were set aside here, from byte {aside[2]}"
        yield Finding(path, "notice", "set-aside", message, "look at it, and remove it when it is of no use")
    else:
        yield Finding(path, "notice", "stranger", "this is no journal, and belongs to none", "none needed")


def _left_over(files: SessionFiles) -> Iterator[Finding]:
    for path in left_overs(files):
        message = "the session was deleted, but this was left over: deleting it was cut off"
        way_out = "harnessd fsck --repair removes it"
        yield Finding(path, "warning", "left-over", message, way_out, repairable=files)


def _unconfirmed(
    files: SessionFiles,
    found: Examined,
    key: tuple[str, str],
    examined: Mapping[tuple[str, str], Examined],
    agents: Sequence[AgentFolders],
) -> Iterator[Finding]:
    """What this session says of others that these do not confirm."""
    for ref, line in found.subagents:
        if (ref.agent_id, ref.session_id) not in examined and not _exists(ref, agents):
            under_way = ref.status == "running"
            message = f"the session {ref.session_id} of subagent {ref.agent_id!r} is not there"
            way_out = "put its journal back from a backup; this session goes on without it"
            if under_way:
                way_out = f"none needed if it is just beginning; else {way_out}"
            severity: Severity = "notice" if under_way else "warning"
            yield Finding(files.journal, severity, "subagent-missing", message, way_out, line)
    if found.parent is None:
        return
    above = [one for (_, session_id), one in examined.items() if session_id == found.parent.session_id]
    way_out = "put the journal of the session that it worked for back; this one can be read all the same"
    if not above:
        message = f"it worked for session {found.parent.session_id}, which is not there"
        yield Finding(files.journal, "warning", "parent-missing", message, way_out)
    elif not any(one.deleted or _names_it(one, key) for one in above):
        message = f"it worked for session {found.parent.session_id}, which does not know of it"
        yield Finding(files.journal, "warning", "parent-silent", message, way_out)


def _exists(ref: SubagentRef, agents: Sequence[AgentFolders]) -> bool:
    """Whether its journal is there, perhaps since a moment."""
    folder = next((one.sessions for one in agents if one.agent_id == ref.agent_id), None)
    return folder is not None and f"{ref.session_id}{_JOURNAL}" in _names(folder)


def _names_it(above: Examined, key: tuple[str, str]) -> bool:
    return any((ref.agent_id, ref.session_id) == key for ref, _ in above.subagents)
