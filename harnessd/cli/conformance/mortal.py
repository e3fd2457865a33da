"""A disk whose process dies at the n-th step of writing its journals, and leaves a note of where that was."""

import json
import os
import signal
from pathlib import Path
from typing import NoReturn

from harnessd.journal.file import Disk


class Mortal(Disk):
    """Steps are: before each write, in the middle of each line, after each line, after each sync.

    With `point` 0 it never dies; it then notes how many steps there were. Used by the journal's one thread.
    """

    def __init__(self, point: int, notes: Path) -> None:
        self._point = point
        self._notes = notes
        self._steps = 0

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        """Writes line by line, each of them in two halves."""
        lines = bytes(data).splitlines(keepends=True)
        self._step("before the write of", lines[0] if lines else b"")
        for line in lines:
            half = len(line) // 2
            offset += os.pwrite(fd, line[:half], offset)
            self._step("in the middle of", line)
            offset += os.pwrite(fd, line[half:], offset)
            self._step("after the write of", line)
        return len(data)

    def sync(self, fd: int) -> None:
        """As the real disk."""
        super().sync(fd)
        self._step("after a sync", b"")

    def _step(self, place: str, line: bytes) -> None:
        self._steps += 1
        if self._point == 0:
            self._notes.write_text(json.dumps({"steps": self._steps}), encoding="utf-8")
        elif self._steps == self._point:
            self._die(f"{place} {_what(line)}".strip())

    def _die(self, place: str) -> NoReturn:
        self._notes.write_text(json.dumps({"steps": self._steps, "place": place}), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
        raise SystemExit  # never reached


def _what(line: bytes) -> str:
    """The event on a journal line, by type and seq."""
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    return f"{record.get('type')} (seq {record.get('seq')})" if isinstance(record, dict) else ""
