"""Whether the files that a journal refers to are there and are what they were, and whether there are others."""

import hashlib
import os
import stat
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from harnessd.journal.finding import Finding
from harnessd.journal.session_files import SessionFiles

ORPHANS_TOLD = 20
"""How many files of one folder to which nothing refers are told one by one."""
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Referred:
    """What a fact says of a file: whose it is, how many bytes it has, their hash (empty: not told), and its line."""

    kind: Literal["result", "artifact"]
    owner: str
    size: int
    sha256: str
    line: int


def check_referred(
    files: SessionFiles, home: Path, referred: Mapping[str, Referred], mentioned: Container[str]
) -> Iterator[Finding]:
    """What is wrong with the files of a session, by their paths below the home; `mentioned` ones have an owner too."""
    for ref, told in referred.items():
        fault = _fault(home, ref, told)
        if fault is not None:
            yield _lost(files.journal, ref, told, fault)
    for folder in (files.evicted, files.artifacts):
        yield from _orphans(folder, home, referred, mentioned)


def _fault(home: Path, ref: str, told: Referred) -> str | None:
    """Why the file at `ref` is not what was recorded; None if it is."""
    if not ref or not _within(home, home / ref):
        return "does not lie in the home"
    path = home / ref
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "is not there"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return "is no file"
        if about.st_size != told.size:
            return f"has {about.st_size} bytes, not {told.size}"
        digest = hashlib.sha256()
        while told.sha256 and (piece := file.read(_PIECE)):
            digest.update(piece)
    return "is not what it was: its hash differs" if told.sha256 and digest.hexdigest() != told.sha256 else None


def _within(home: Path, path: Path) -> bool:
    """Whether the path stays in the home, links on the way included."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(home)) and path.name not in {"", ".."}


def _lost(journal: Path, ref: str, told: Referred, fault: str) -> Finding:
    code = f"{told.kind}-lost"
    if told.kind == "result":
        message = f"{ref}, the whole result of {told.owner}, {fault}"
        way_out = "its beginning and end are in the journal; a backup has the rest"
    else:
        message = f"{ref}, which is artifact {told.owner}, {fault}"
        way_out = "put the file back from a backup, or have the agent make it again"
    return Finding(journal, "error", code, message, way_out, told.line)


def _orphans(
    folder: Path, home: Path, referred: Mapping[str, Referred], mentioned: Container[str]
) -> Iterator[Finding]:
    """The files to which no fact refers: a crash came between the file and its fact, or somebody put them there."""
    loose = (path for path in _files(folder) if not _known(str(path.relative_to(home)), referred, mentioned))
    way_out = "none needed; if no run is under way it can be removed"
    for path in islice(loose, ORPHANS_TOLD):
        yield Finding(path, "notice", "orphan", "no fact of the session refers to this file", way_out)
    more = sum(1 for _ in loose)
    if more:
        yield Finding(folder, "notice", "orphan", f"no fact refers to {more} more files in here", way_out)


def _known(ref: str, referred: Mapping[str, Referred], mentioned: Container[str]) -> bool:
    return ref in referred or ref in mentioned


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in sorted(names))
