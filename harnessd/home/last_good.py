"""Which version of a broken file is used in its place: the last valid one of that file."""

from collections.abc import Callable
from dataclasses import dataclass

from harnessd.home.git import GitStore
from harnessd.home.layout import AGENTS, KNOWLEDGE, MEMORY, TOOLS
from harnessd.home.problem import Problem

Invalid = Callable[[str, bytes, bytes | None], Problem | None]
COMMITS_SEARCHED = 5_000


@dataclass(frozen=True, slots=True)
class Sound:
    """The file is valid and used as it stands."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An older blob is used; the problem names where it comes from."""

    blob: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class NoVersion:
    """The file is invalid and has no valid past: nothing of it is used, or its text is read leniently."""

    problem: Problem
    text_is_read: bool


Verdict = Sound | Replaced | NoVersion


def is_judged(path: str) -> bool:
    """Whether validity is asked of this file: all but what lies beside a SKILL.md (scripts, assets …)."""
    steps = path.split("/")
    return steps[0] != "skills" or len(steps) == 2 or (len(steps) == 3 and steps[2].lower() == "skill.md")


class LastGood:
    """Judges files and finds their stand-ins; remembers its verdicts, so an unchanged file costs nothing."""

    def __init__(self, store: GitStore, invalid: Invalid) -> None:
        self._store = store
        self._invalid = invalid
        self._verdicts: dict[str, tuple[tuple[str, str | None, str], Verdict]] = {}

    def judge(
        self,
        path: str,
        blob: str,
        raw: Callable[[], bytes | None],
        committed: str | None,
        head: str | None,
        seen: str | None,
    ) -> Verdict:
        """What is used for `path`, whose bytes on disk are `raw()` (None = unreadable).

        `committed` is its blob in the commit `head`. `seen` is the blob that was
        last used for it and found valid: it may never have been committed.
        """
        known = self._verdicts.get(path)
        # A sound file depends on HEAD only through its own blob there; a stand-in depends on the whole past.
        for dependence in ("", head or ""):
            if known is not None and known[0] == (blob, committed, dependence):
                return known[1]
        verdict = self._judge(path, raw(), committed, head, seen)
        self._verdicts[path] = (
            (blob, committed, "" if isinstance(verdict, Sound) else head or ""),
            verdict,
        )
        return verdict

    def forget_others(self, paths: set[str]) -> None:
        """Drop what is known of files that are gone."""
        self._verdicts = {path: known for path, known in self._verdicts.items() if path in paths}

    def _judge(
        self, path: str, raw: bytes | None, committed: str | None, head: str | None, seen: str | None
    ) -> Verdict:
        if raw is None:
            found: Problem | None = Problem(path=path, code="unreadable", severity="error", message="it cannot be read")
        else:
            found = self._invalid(path, raw, None if committed is None else self._store.read(committed))
        if found is None:
            return Sound()
        stand_in = self._stand_in(path, head, seen)
        if stand_in is not None:
            blob, source = stand_in
            return Replaced(blob, _told(found, path, f"{found.message}; {source} is used in its place"))
        if path == TOOLS:
            message = f"{found.message}; no valid version of it exists, so only read-only built-in tools work"
            return NoVersion(_told(found, path, message, code="tools-denied"), text_is_read=False)
        readable = raw is not None and (path in {AGENTS, MEMORY, KNOWLEDGE} or path.startswith("skills/"))
        use = "its text is read, its settings are not" if readable else "it is not used"
        if path == AGENTS:
            use += "; until it is mended only read-only tools run"
        return NoVersion(_told(found, path, f"{found.message}; no valid version exists: {use}"), readable)

    def stand_in(self, path: str, head: str | None) -> str | None:
        """The last valid blob of `path` in the past of `head`."""
        found = self._stand_in(path, head, None)
        return None if found is None else found[0]

    def _stand_in(self, path: str, head: str | None, seen: str | None) -> tuple[str, str] | None:
        """The last valid blob and its source; one that was seen valid but never committed is the newest."""
        newest = None
        for commit, blob in self._store.versions(head, path, COMMITS_SEARCHED):
            if newest is None and self._is_valid(path, blob):
                newest = blob, f"the version of commit {commit[:12]}"
            if blob == seen:
                return newest
        if seen is not None and self._is_valid(path, seen):
            return seen, f"the version last read before it broke (blob {seen[:12]}, not committed)"
        return newest

    def _is_valid(self, path: str, blob: str) -> bool:
        raw = self._store.read(blob)
        return raw is not None and self._invalid(path, raw, None) is None


def _told(found: Problem, path: str, message: str, code: str | None = None) -> Problem:
    return found.model_copy(update={"path": path, "severity": "error", "message": message, "code": code or found.code})
