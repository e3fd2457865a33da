"""What is there in a sandbox, and what of it can be written to: the mounts that bubblewrap makes, in their order.

Everything is mounted by its real path, so that a link in place of a folder opens nothing that was not meant.
"""

import os
import pwd
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from harnessd.sandbox import gate

Machine = Literal["read-only", "as-user"]

_PRIVATE = (Path("/run"), Path("/root"), Path("/home"))
"""Hidden unless the machine is shown as the user sees it: what is running, and everybody's own files."""

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc", "dev", "proc", "sys", "boot", "nonexistent")
_EMPTY_BYTES = 1024 * 1024
"""For what is hidden: room for the names of what is shown in it all the same."""

GATE = Path(os.path.realpath(gate.__file__))
_RESOLVER = Path("/etc/resolv.conf")


class CannotMount(Exception):
    """A folder that was asked for is not there or must not be opened; the message names it."""


@dataclass(frozen=True, slots=True)
class Mounts:
    """What bubblewrap is told, and what can be written to in there; None if that is not bounded.

    Each of `writable` is a folder, and whether files can be made and removed in it too.
    """

    arguments: tuple[str, ...]
    writable: tuple[tuple[str, bool], ...] | None


@dataclass(frozen=True)
class Places:
    """The folders of one sandbox, as its owner names them."""

    home: Path
    workdirs: tuple[Path, ...]
    hidden: tuple[Path, ...]
    visible: tuple[Path, ...]
    readable: tuple[Path, ...]
    machine: Machine
    writes: bool = True


def plan_mounts(places: Places, *, network: bool, tmp_bytes: int | None) -> Mounts:
    """The mounts for these folders. `tmp_bytes` bounds what lies in memory, None if bubblewrap can't. Blocks.

    Raises `CannotMount`.
    """
    home = _real(places.home)
    work = _work(home)
    hidden = [_real(folder) for folder in places.hidden if folder.is_dir()]
    workdirs = _workdirs(places, home, work, hidden)
    size = ["--size", str(tmp_bytes)] if tmp_bytes is not None else []
    empty = ["--size", str(_EMPTY_BYTES)] if tmp_bytes is not None else []
    made: list[str] = []
    closed: list[Path] = []

    def hide(folder: Path) -> None:
        made.extend((*empty, "--tmpfs", str(folder)))
        closed.append(folder)

    made += ["--bind" if places.machine == "as-user" else "--ro-bind", "/", "/", "--proc", "/proc"]
    made += ["--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    if places.machine == "read-only":
        made += [*size, "--tmpfs", "/tmp"]  # noqa: S108
        for folder in (*_PRIVATE, *_own_folders()):
            if folder.is_dir():
                hide(folder)
        made += _readable(places.readable, network=network)
    for folder in hidden:
        hide(folder)
    for path in _interpreter():
        if any(path.is_relative_to(folder) for folder in closed) or path.is_relative_to("/tmp"):  # noqa: S108
            made += ["--ro-bind", str(path), str(path)]
    made += ["--ro-bind", str(home), str(home)]
    for folder in _state_of(home):
        if folder.is_dir():
            hide(folder)
        elif folder.exists():
            made += ["--ro-bind", "/dev/null", str(folder)]
    made += _visible(places.visible, _real(home / "agents"))
    for folder in (work, *workdirs):
        made += ["--bind" if places.writes else "--ro-bind", str(folder), str(folder)]
    for folder in closed:
        made += ["--remount-ro", str(folder)]
    whole = (*(map(str, (work, *workdirs)) if places.writes else ()), "/tmp", "/dev/shm")  # noqa: S108
    writable = (*((folder, True) for folder in whole), ("/dev", False))
    return Mounts(tuple(made), writable if places.machine == "read-only" else None)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _own_folders() -> list[Path]:
    """This user's own home directory, wherever it lies; a service's may be a folder of the system."""
    found = {_real(Path.home())}
    with suppress(KeyError):  # a container may run under a number that nobody has
        found.add(_real(Path(pwd.getpwuid(os.getuid()).pw_dir)))
    return sorted(one for one in found if len(one.parts) > 2 and one.parts[1] not in _SYSTEM)


def _work(home: Path) -> Path:
    """`work/` of this home, made if it is missing; never by a link, which would open what it leads to."""
    work = home / "work"
    if work.is_symlink():
        raise CannotMount(f"{work} is a link, and what it leads to is not opened")
    try:
        work.mkdir(exist_ok=True)
    except OSError as error:
        raise CannotMount(f"{work} cannot be made: {error.strerror}") from None
    return work


def _workdirs(places: Places, home: Path, work: Path, hidden: list[Path]) -> list[Path]:
    """The granted folders by their real paths. One inside another is no mount of its own: a link may stand there."""
    opened = [work]
    for asked in sorted(places.workdirs, key=lambda path: len(path.parts)):
        lexical = Path(os.path.normpath(asked))
        if any(lexical.is_relative_to(folder) for folder in opened):
            if not lexical.is_dir():
                raise CannotMount(f"the folder {asked} does not exist")
            continue
        real = _real(lexical)
        if not real.is_dir():
            raise CannotMount(f"the folder {asked} does not exist")
        for kept in (home, *hidden, *(_real(folder) for folder in _state_of(home))):
            if real.is_relative_to(kept) or kept.is_relative_to(real):
                raise CannotMount(f"the folder {asked} overlaps {kept}, which is closed")
        opened += [lexical, real]
    return list(dict.fromkeys(_real(folder) for folder in opened[1:]))


def _readable(readable: tuple[Path, ...], *, network: bool) -> Iterator[str]:
    """What the operator shows although it lies in a hidden place; a name server's address is in one on many systems."""
    for asked in (*readable, *([_RESOLVER] if network else [])):
        real = _real(asked)
        if asked != _RESOLVER or any(real.is_relative_to(folder) for folder in _PRIVATE):
            yield from ("--ro-bind-try", str(real), str(real))
        if asked != real and any(asked.is_relative_to(folder) for folder in _PRIVATE):
            yield from ("--symlink", str(real), str(asked))


def _state_of(home: Path) -> list[Path]:
    """Where this home keeps journals and history. `.git` may be a file that names a folder elsewhere."""
    found = [_real(home / "agents")]
    git = home / ".git"
    if git.is_file():
        found.append(git)
        named = git.read_bytes()[:4096].decode("utf-8", "replace").strip()
        if named.startswith("gitdir:"):
            found.append(_real(home / named.removeprefix("gitdir:").strip()))
    else:
        found.append(_real(git))
    return found


def _visible(visible: tuple[Path, ...], agents: Path) -> Iterator[str]:
    """This session's own files, shown again below what was hidden."""
    for asked in visible:
        real = _real(asked)
        if not real.exists():
            continue
        if not real.is_relative_to(agents) or real == agents:
            raise CannotMount(f"{asked} does not lie below {agents}")
        yield from ("--ro-bind", str(real), str(real))


@cache
def _interpreter() -> tuple[Path, ...]:
    """What the gate needs to run, which may lie in a hidden place: the interpreter, its library, its modules."""
    found = [GATE, interpreter(), Path(sysconfig.get_path("stdlib"))]
    library = sysconfig.get_config_var("INSTSONAME")
    if isinstance(library, str) and library.endswith((".so", ".so.1.0")):
        folder = sysconfig.get_config_var("LIBDIR")
        found.append(Path(str(folder)) / library)
    return tuple(_real(path) for path in found if path.exists())


@cache
def interpreter() -> Path:
    """The Python that runs this, as itself and not as a link of a virtual environment."""
    return _real(Path(getattr(sys, "_base_executable", "") or sys.executable))
