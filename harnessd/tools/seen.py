"""Which version of a file has this session read: what makes a stale write visible."""

import time

from harnessd.home.tree import blob_id
from harnessd.tools.large import Stamp, Survey

SURVEYS_KEPT = 4
TOO_FRESH = 2_000_000_000
"""Nanoseconds within which a file may change again without its status telling: some file systems count so coarsely."""


class Seen:
    """The blob id of each file that the session read or wrote last, by absolute path.

    It lives with the open session. After a restart nothing counts as seen, so a file is read again before it is
    overwritten.
    """

    def __init__(self) -> None:
        self._blobs: dict[str, str] = {}
        self._parts: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = {}
        self._surveys: dict[str, Survey] = {}

    def note(self, path: str, data: bytes) -> str:
        """Remembers that the session knows `path` with this content; returns its blob id."""
        blob = blob_id(data)
        self._blobs[path] = blob
        return blob

    def note_survey(self, path: str, survey: Survey) -> None:
        """The same for a large file that was read in passing; its survey is kept if it can be relied on."""
        self._blobs[path] = survey.blob
        self._surveys.pop(path, None)
        if time.time_ns() - max(survey.stamp[3:]) > TOO_FRESH:
            self._surveys[path] = survey
        if len(self._surveys) > SURVEYS_KEPT:
            del self._surveys[next(iter(self._surveys))]

    def survey(self, path: str, stamp: Stamp) -> Survey | None:
        """The survey of the file, if it has not changed since."""
        known = self._surveys.get(path)
        return known if known is not None and known.stamp == stamp else None

    def part(self, path: str, first: int, last: int) -> bool:
        """Remembers that these lines of the version known were shown; false if each of them was shown before."""
        blob = self._blobs.get(path, "")
        version, shown = self._parts.get(path, ("", ()))
        if version != blob:
            shown = ()
        if last < first or any(begin <= first and last <= end for begin, end in shown):
            return False
        self._parts[path] = (blob, _joined((*shown, (first, last))))
        return True

    def version(self, path: str) -> str | None:
        """The blob id that the session knows, or None if it never read the file."""
        return self._blobs.get(path)


def _joined(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The same lines in as few ranges as can be, in order."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)
