"""Did the last starts fail, so that this one had better be careful?

A start is counted when it begins, and cleared when `/readyz` was reached. What ends before was a failed start, if
it was not refused with a clear error (a port that is taken, a full disk): being careful would not help there.
"""

from pathlib import Path

from pydantic import Field, ValidationError

from harnessd.facts.base import Record
from harnessd.home.intent import write_whole
from harnessd.journal.file import storage_error

FILE = "starts.json"
TOO_MANY = 3
_KEPT = 10


class Starts(Record):
    """The starts that began and never were ready, oldest first; times are RFC 3339."""

    began: tuple[str, ...] = Field(default=())

    @property
    def safe_mode(self) -> str | None:
        """Why the next start resumes nothing by itself; None if it may."""
        if len(self.began) < TOO_MANY:
            return None
        times = ", ".join(self.began[-TOO_MANY:])
        return f"the last {len(self.began)} starts ended before the daemon was ready (begun {times})"


def read_starts(state_dir: Path) -> Starts:
    """What is on record; nothing if the file is missing, damaged or unreadable: it never blocks a start. Blocks."""
    try:
        return Starts.model_validate_json((state_dir / FILE).read_bytes())
    except (OSError, ValidationError):
        return Starts()


def begin(state_dir: Path, now: str) -> Starts:
    """Counts the start that begins now; gives back what was on record before. Blocks. Raises `StorageError`."""
    before = read_starts(state_dir)
    write_starts(state_dir, Starts(began=(*before.began, now)[-_KEPT:]))
    return before


def write_starts(state_dir: Path, starts: Starts) -> None:
    """Puts `starts` on record, on disk when this returns; none leave no file. Blocks. Raises `StorageError`."""
    path = state_dir / FILE
    try:
        if starts.began:
            write_whole(path, starts.model_dump_json(by_alias=True).encode() + b"\n", 0o600)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error, path) from error
