"""A saved state beside the journal, so that waking does not read the whole journal.

It only ever saves time: one that is missing, damaged, of another schema or not of this journal is ignored, and the
journal is folded from its start.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import to_json

from harnessd.errors import StorageError
from harnessd.facts.event import SCHEMA_VERSION
from harnessd.facts.state import State
from harnessd.journal.file import make_directory, storage_error, sync_directory
from harnessd.journal.journal import Mark
from harnessd.journal.line import Damaged, frame, unframe
from harnessd.journal.records import Record, open_to_read, scan, seq_of


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after the record that `mark` names."""

    mark: Mark
    state: State


@dataclass(frozen=True, slots=True)
class Ignored:
    """There is no checkpoint to go by, and why; `absent` if there is none at all."""

    reason: str
    absent: bool = False


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Replaces the checkpoint at `path` in one step, on disk when this returns. Blocks. Raises `StorageError`."""
    state = checkpoint.state.__pydantic_serializer__.to_json(checkpoint.state, by_alias=True, exclude_none=True)
    head = to_json(
        {"seq": checkpoint.mark.seq, "offset": checkpoint.mark.start, "schemaVersion": checkpoint.state.schema_version}
    )
    make_directory(path.parent)
    draft = draft_of(path)
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(frame(b'%b,"state":%b}' % (head[:-1], state)))
            out.flush()
            os.fsync(fd)
        draft.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise storage_error(error, path) from error


def load(path: Path, journal: Path) -> Checkpoint | Ignored:
    """The checkpoint at `path` if it can be trusted and stands in `journal`, else why not. Blocks."""
    try:
        data = unframe(path.read_bytes())
    except FileNotFoundError:
        return Ignored("there is none", absent=True)
    except OSError as error:
        return Ignored(f"it cannot be read: {error.strerror}")
    if isinstance(data, Damaged):
        return Ignored(f"it is damaged: {data.reason}")
    seq, offset = data.get("seq"), data.get("offset")
    if not isinstance(seq, int) or not isinstance(offset, int) or offset < 0:
        return Ignored("it does not say where it stands")
    if data.get("schemaVersion") != SCHEMA_VERSION:
        return Ignored(f"it is of schema {data.get('schemaVersion')}, not {SCHEMA_VERSION}")
    if not _stands(journal, seq, offset):
        return Ignored("the journal has no such record at that place")
    try:
        return Checkpoint(Mark(seq, offset), State.model_validate(data.get("state")))
    except ValidationError as error:
        return Ignored(f"its state is not ours: {error.error_count()} fields")


def draft_of(path: Path) -> Path:
    """The file in which a checkpoint is made ready."""
    return path.with_name(f".{path.name}.new")


def seq_in(path: Path) -> int:
    """The seq that the file at `path` claims to be of, trusted or not; 0 if it claims none. Blocks."""
    try:
        data = unframe(path.read_bytes())
    except OSError:
        return 0
    seq = data.get("seq") if isinstance(data, dict) else None
    return seq if isinstance(seq, int) else 0


def _stands(journal: Path, seq: int, offset: int) -> bool:
    try:
        with open_to_read(journal) as file:
            first = next(scan(file, offset), None)
    except (StorageError, OSError):
        return False
    return isinstance(first, Record) and seq_of(first.data) == seq
