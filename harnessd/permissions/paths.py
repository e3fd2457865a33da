"""Which file does a path really mean, and may the agent go there?"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harnessd.permissions.call import Access, Target, Tier, Within

_MOST_LINKS, _LONGEST = 40, 4095  # as the kernel: MAXSYMLINKS, PATH_MAX


@dataclass(frozen=True, slots=True)
class Roots:
    """Where an agent may go. Made by `find_roots`; every path in it is real and absolute.

    `places` are folders and what lies in them, the longest matching one counts. `tier_of` takes a path relative to the
    home, outside `work/`; what it calls neither `auto` nor `ask` is locked. `refused` are granted folders that were
    not taken, each with the reason.
    """

    home: str
    places: tuple[tuple[str, Within], ...]
    tier_of: Callable[[str], str]
    refused: tuple[tuple[str, str], ...] = ()


def find_roots(
    home: Path,
    tier_of: Callable[[str], str],
    *,
    workdirs: Iterable[str | Path] = (),
    hidden: Iterable[str | Path] = (),
    visible: Iterable[str | Path] = (),
    user_id: str | None = None,
) -> Roots:
    """The roots of one session. Touches the disk (a few `lstat`), so call it once a run, in a thread.

    `hidden` are the workspaces folder, the state directory and the like; `visible` are this session's own folders
    below `agents/`. The home's `.git`, `agents/` and other users' memory are hidden by themselves. A workdir that
    overlaps the home or a hidden folder, or that is the root of the machine, is refused.
    """
    real_home = os.path.realpath(home)
    real_hidden = [os.path.realpath(path) for path in hidden]
    taken: list[tuple[str, Within]] = [
        (real_home, "home"),
        (f"{real_home}/work", "work"),
        *((f"{real_home}/{name}", _HIDDEN) for name in (".git", "agents", "users")),
    ]
    if user_id is not None and user_id not in {"", ".", ".."} and "/" not in user_id:
        taken.append((f"{real_home}/users/{user_id}", "home"))
    taken += [(real, "home") for real in map(os.path.realpath, visible) if _is_in(real, f"{real_home}/agents")]
    taken += [(path, _HIDDEN) for path in real_hidden if path != real_home]
    refused = []
    for workdir in workdirs:
        real = os.path.realpath(workdir)
        clash = next((p for p in (real_home, *real_hidden) if _is_in(real, p) or _is_in(p, real)), None)
        if not Path(workdir).is_absolute():
            refused.append((str(workdir), "a granted folder is named by its full path"))
        elif any(_is_in(real, kernel) for kernel in _KERNEL):
            refused.append((str(workdir), "the kernel's own folders can't be granted"))
        elif clash is not None:
            refused.append((str(workdir), f"it overlaps {clash}"))
        else:
            taken.append((real, "workdir"))
    # A longer path is more special; of equal ones the hidden one counts.
    places = sorted(taken, key=lambda place: (-len(place[0]), place[1] != "hidden"))
    return Roots(home=real_home, places=tuple(places), tier_of=tier_of, refused=tuple(refused))


def resolve_target(roots: Roots, path: str, access: Access) -> Target:
    """What `path` (absolute, or relative to the home) really means now; never raises.

    Every symlink is followed, of a deletion's last step none, since what is deleted is the link. What does not exist
    yet lies in its longest existing folder. Nothing is expanded or normalised: `~`, look-alike letters and other
    spellings of a name are names of their own. A path that can't be resolved is `outside`, with a `note`. The tool
    opens `path` of the answer and refuses every link on the way, so a swap after this check meets a refusal.

    Costs one `lstat` per step of the path.
    """
    found = _follow(roots.home, path, follow_last=access != "delete")
    if isinstance(found, str):
        return Target(path=_printable(path), access=access, within="outside", note=_printable(found))
    real, status = found.path, found.status
    place, within = next((known for known in roots.places if _is_in(real, known[0])), ("", _OUTSIDE))
    if within == "outside" or any(_is_in(real, kernel) for kernel in _KERNEL):
        return Target(path=real, access=access, within="outside")
    home_path = "" if real == roots.home else real[len(roots.home) + 1 :] if _is_in(real, roots.home) else None
    tier: Tier | None = None
    if real == place and access != "read":
        tier = "locked"  # what lies in a root may change, the root itself not
    elif home_path is not None and within != "work":
        tier = _TIERS.get(roots.tier_of(home_path), "locked") if home_path and within == "home" else "locked"
    shared = status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return Target(path=real, access=access, within=within, home_path=home_path, tier=tier, shared=shared)


_HIDDEN: Within = "hidden"
_OUTSIDE: Within = "outside"
_TIERS: Mapping[str, Tier] = {"auto": "auto", "ask": "ask"}
_KERNEL = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    status: os.stat_result | None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _follow(start: str, path: str, *, follow_last: bool) -> _Found | str:
    """Walks `path` from `start` as the kernel would; the real path, or why there is none."""
    if not path:
        return "the path is empty"
    if "\0" in path:
        return "the path holds a NUL character"
    if _printable(path) != path:
        return "the path is not valid text"
    if len(path.encode()) > _LONGEST:
        return "the path is too long"
    steps = [step for step in reversed(path.split("/")) if step not in {"", "."}]
    is_folder = path.endswith(("/", "/."))
    here = "/" if path.startswith("/") else start
    status: os.stat_result | None = None
    missing, links = False, 0
    while steps:
        step = steps.pop()
        if step == "..":
            if missing:
                return "the path climbs out of a folder that does not exist"
            here = os.path.dirname(here)  # noqa: PTH120 - text of real paths, no object per step
            status = None
            continue
        here = f"{here.rstrip('/')}/{step}"
        if missing:
            continue
        try:
            status = os.lstat(here)
            link = os.readlink(here) if stat.S_ISLNK(status.st_mode) else ""  # noqa: PTH115 - must keep odd bytes
        except FileNotFoundError:
            missing, status = True, None
            continue
        except OSError as error:
            return f"{here}: {_REASONS.get(error.errno or 0, error.strerror)}"
        if link and (steps or follow_last or is_folder):
            links += 1
            if links > _MOST_LINKS:
                return "the path runs through too many links"
            if any(_is_in(here, kernel) for kernel in _KERNEL):
                return f"{here} is a link of the kernel's, which means something else to each process"
            here = "/" if link.startswith("/") else os.path.dirname(here)  # noqa: PTH120
            steps += [part for part in reversed(link.split("/")) if part not in {"", "."}]
            status = None
        elif steps and not stat.S_ISDIR(status.st_mode):
            return f"{here} is not a folder"
    return _Found(path=here, status=status) if _printable(here) == here else "the path leads to a name that is no text"


def _printable(path: str) -> str:
    return path.encode(errors="replace").decode()


_REASONS = {errno.ENAMETOOLONG: "a name in the path is too long", errno.EACCES: "this folder may not be entered"}
