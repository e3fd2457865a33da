"""What is wrong, or odd, with what a session left on disk, told so that a person knows what to do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harnessd.journal.session_files import SessionFiles

Severity = Literal["notice", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `line` counts from 1, `byte` from 0; None means the whole file.

    `notice`: nothing is lost and nothing need be done. `warning`: something does not fit together. `error`: something
    that was on record is lost or cannot be trusted. `repairable` names the session if the file at `path` can be removed
    without a loss: a copy that is made again, or what is left over of a session that was deleted.
    """

    path: Path
    severity: Severity
    code: str
    message: str
    way_out: str
    line: int | None = None
    byte: int | None = None
    repairable: SessionFiles | None = None
