"""Which homes may start processes: those made here, and those that the operator has looked at."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, ValidationError

from harnessd.errors import StorageError
from harnessd.facts.base import Record
from harnessd.home.intent import write_whole
from harnessd.home.layout import Home
from harnessd.home.lock import home_lock

ID_FILE = "harnessd-id"
AGED_NS = 100_000_000


class TrustRecord(Record):
    """What is known of one home: the id it was given when made here, and the hashes that are trusted."""

    made_id: str = ""
    hashes: tuple[str, ...] = ()


class TrustFile(Record):
    """All of it: real path of the home → record."""

    homes: dict[str, TrustRecord] = Field(default_factory=dict)


class TrustStore:
    """Trust, kept in the operator's state directory, outside every home.

    A home that was made here carries an id in its git folder, which no clone has; at another path it is
    foreign all the same. A foreign home is trusted for the exact states of its executable parts (stdio
    servers, scripts, checks, schedules), whose hash the caller gives.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "trust.json"
        self._known: tuple[tuple[int, ...], TrustFile] | None = None

    def is_trusted(self, home: Home, executable_hash: str) -> bool:
        """Whether this home may start what has that hash. False also if the record cannot be read."""
        try:
            known = self._read().homes.get(_key(home))
        except StorageError:
            return False
        if known is None:
            return False
        made_here = bool(known.made_id) and known.made_id == _home_id(home)
        return made_here or executable_hash in known.hashes

    def trust(self, home: Home, executable_hash: str) -> None:
        """The operator has looked at these executable parts; earlier ones stay so. Raises `StorageError`."""
        self._change(home, lambda known: known.model_copy(update={"hashes": _with(known.hashes, executable_hash)}))

    def made_here(self, home: Home) -> None:
        """Record a home that was just made on this machine. Raises `StorageError`."""
        made_id = secrets.token_hex(16)
        try:
            write_whole(_git_dir(home) / ID_FILE, made_id.encode(), 0o600)
        except OSError as error:
            raise StorageError(f"its id cannot be written: {error.strerror}", where=str(home.path)) from error
        self._change(home, lambda known: known.model_copy(update={"made_id": made_id}))

    def now_foreign(self, home: Home, executable_hash: str) -> None:
        """Something came in from elsewhere: only `executable_hash`, what stood before, stays trusted."""
        self._change(home, lambda _known: TrustRecord(hashes=(executable_hash,)))

    def _change(self, home: Home, change: Callable[[TrustRecord], TrustRecord]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with home_lock(self._path.parent, 10, name="trust.lock"):
                known = self._read()
                homes = known.homes | {_key(home): change(known.homes.get(_key(home), TrustRecord()))}
                written = known.model_copy(update={"homes": homes})
                write_whole(self._path, written.model_dump_json(indent=1).encode(), 0o600)
        except OSError as error:
            raise StorageError(f"trust cannot be recorded: {error.strerror}", where=str(self._path)) from error

    def _read(self) -> TrustFile:
        """The record; parsed again when its stat says so, since each run of each of many homes asks."""
        try:
            found = self._path.stat()
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if self._known is None or self._known[0] != stamp:
                read = TrustFile.model_validate_json(self._path.read_bytes())
                # What was written just now may be written again within one tick of the file system's clock.
                self._known = (stamp if time.time_ns() - found.st_ctime_ns > AGED_NS else (), read)
            return self._known[1]
        except FileNotFoundError:
            return TrustFile()
        except (OSError, ValidationError) as error:
            raise StorageError(
                "the record of trusted homes cannot be read",
                where=str(self._path),
                hint="mend it or delete it; every home from elsewhere then has to be trusted anew",
            ) from error


def _with(hashes: tuple[str, ...], added: str) -> tuple[str, ...]:
    return (*(known for known in hashes if known != added), added)[-20:]


def _key(home: Home) -> str:
    return str(home.path.resolve())


def _home_id(home: Home) -> str:
    try:
        return (_git_dir(home) / ID_FILE).read_text()
    except (OSError, ValueError):
        return ""


def _git_dir(home: Home) -> Path:
    """The git folder, also of a worktree or submodule, whose `.git` is a file that names it."""
    place = home.path / ".git"
    if not place.is_file():
        return place
    named = place.read_text(errors="replace").partition("gitdir:")[2].strip()
    return home.path / named
