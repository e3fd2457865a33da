"""What does the operator read of the daemon? One line of JSON for each thing that happened, on standard error.

Any logger of the process may be used as the library has it; what is given as `extra` stands beside the message:
`log.info("ready", extra={"port": 7433})` → `{"at": …, "level": "info", "logger": …, "message": "ready", "port": 7433}`.
"""

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from harnessd.journal.stamp import time_text

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
LONGEST = 8192
"""Characters of one text in a line; a longer one is cut, and says so."""


class JsonLines(logging.Formatter):
    """One record as one line of JSON, without the secrets that `redact` knows."""

    def __init__(self, redact: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        told: dict[str, object] = {
            "at": time_text(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            told["error"] = _cut(f"{type(error).__name__}: {error}")
            told["trace"] = _cut("".join(traceback.format_exception(error)))
        line = json.dumps(told, default=lambda value: _cut(str(value)), ensure_ascii=True)
        return self._redact(line.encode()).decode("utf-8", "replace")


@contextmanager
def operator_log(level: str, out: IO[str], redact: Callable[[bytes], bytes]) -> Iterator[None]:
    """While the block runs, our records from `level` up and the warnings of all others go to `out`."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines(redact))
    root, own = logging.getLogger(), logging.getLogger("harnessd")
    before = own.level
    own.setLevel(level.upper())
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        own.setLevel(before)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST} characters more)"
