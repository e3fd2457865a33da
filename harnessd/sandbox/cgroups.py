"""How much memory and how many processes a sandbox has as a whole, where the kernel lets us make a control group.

It is made below our own group, or beside it where groups with members may have none below (version 2). Nothing of the
system is set up for it: where none can be made, the limits hold per process only, and `harnessd doctor` says so.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep, time

from harnessd.sandbox.outcome import Limits

_ENTER = """until [ "$1" = -- ]; do echo 0 > "$1/cgroup.procs"; shift; done 2>/dev/null; shift; exec "$@\""""
_MEMORY = {1: "memory.limit_in_bytes", 2: "memory.max"}
_TRIES = 20

ABANDONED_SECONDS = 60.0
"""How old a group without members and maker must be to be removed."""


@dataclass(frozen=True, slots=True)
class Group:
    """The control groups of one sandbox, and what they bound: of "memory" and "pids" what the kernel let us."""

    folders: tuple[str, ...] = ()
    bounds: frozenset[str] = frozenset()

    def entering(self, command: Sequence[str]) -> list[str]:
        """The command as a member from its first moment."""
        return ["/bin/sh", "-c", _ENTER, "enter", *self.folders, "--", *command] if self.folders else list(command)

    def remove(self) -> None:
        """Once its members are gone. Blocks, as a rule for no time at all."""
        for folder in self.folders:
            for _ in range(_TRIES):
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    sleep(0.01)
                else:
                    break


def make_group(limits: Limits, mounted: str | None = None, ours: str | None = None) -> Group:
    """Control groups with these limits, as far as they can be made. Blocks for some system calls.

    `mounted` and `ours` are what the kernel says in /proc/self/mountinfo and /proc/self/cgroup.
    """
    name = f"harnessd-{os.getpid()}-{secrets.token_hex(4)}"
    folders: list[str] = []
    bounds: set[str] = set()
    for version, controllers, base in _bases(mounted, ours):
        folder = base / name
        if (wanted := controllers - bounds) and _make(folder, version):
            held = {one for one in wanted if _limit(folder, version, one, limits)}
            if held:
                folders.append(str(folder))
                bounds |= held
            else:
                Group((str(folder),)).remove()
    return Group(tuple(folders), frozenset(bounds))


def remove_abandoned(
    mounted: str | None = None, ours: str | None = None, *, seconds: float = ABANDONED_SECONDS
) -> None:
    """Removes empty groups whose maker is dead: killed before a command began, or at its end, it could not. Blocks.

    One that is younger than that is left, for its maker may be alive where we do not see it. The rest is as above.
    """
    for _, _, base in _bases(mounted, ours):
        with suppress(OSError):
            for folder in base.glob("harnessd-*-*"):
                maker = folder.name.split("-")[1]
                with suppress(OSError):  # with members it is no one's to remove
                    if not Path("/proc", maker).exists() and time() - folder.stat().st_mtime >= seconds:
                        folder.rmdir()


def _bases(mounted: str | None, ours: str | None) -> Iterator[tuple[int, set[str], Path]]:
    """Where groups may be made: the version, which of the two controllers are there, the folder."""
    try:
        mounted = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mounted is None else mounted
        ours = Path("/proc/self/cgroup").read_text(encoding="utf-8") if ours is None else ours
    except OSError:
        return
    mounts = [
        (before.split(), after.split()) for before, _, after in (x.partition(" - ") for x in mounted.splitlines())
    ]
    for line in ours.splitlines():
        number, names, path = line.split(":", 2)
        controllers = set(names.split(",")) & {"memory", "pids"}
        for before, after in mounts:
            root, at = before[3], Path(before[4])
            below = path if root == "/" else "/" + os.path.relpath(path, root)
            folder = at / below.lstrip("/")
            if number == "0" and after[0] == "cgroup2":
                for candidate in (folder, folder.parent):
                    if candidate.is_relative_to(at) and (given := _given(candidate)):
                        yield 2, given, candidate
                        break
            elif after[0] == "cgroup" and controllers & set(after[-1].split(",")):
                yield 1, controllers, folder


def _given(folder: Path) -> set[str]:
    """The controllers that a group below this one has."""
    try:
        return set((folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()) & {"memory", "pids"}
    except OSError:
        return set()


def _make(folder: Path, version: int) -> bool:
    """Whether there is now a group that a process of ours may enter; version 2 asks the group above both, too."""
    doors = [folder, folder.parent] if version == 2 else [folder]
    try:
        folder.mkdir()
    except OSError:
        return False
    if all(os.access(door / "cgroup.procs", os.W_OK) for door in doors):
        return True
    Group((str(folder),)).remove()
    return False


def _limit(folder: Path, version: int, controller: str, limits: Limits) -> bool:
    try:
        if controller == "pids":
            (folder / "pids.max").write_text(str(limits.processes), encoding="utf-8")
        else:
            (folder / _MEMORY[version]).write_text(str(limits.memory), encoding="utf-8")
            with suppress(OSError):  # there may be no swap, and that is well
                (folder / "memory.swap.max").write_text("0", encoding="utf-8")
    except OSError:
        return False
    return True
