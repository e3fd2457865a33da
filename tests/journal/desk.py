"""What the journal's tests work with: ledgers in a temporary folder, disks that fail, and a process that writes."""

import contextlib
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnessd.facts.event import EVENT_TYPES, Event, MessageCreated
from harnessd.facts.message import TextPart, UserMessage
from harnessd.journal.committer import Committer
from harnessd.journal.file import Disk
from harnessd.journal.ledger import Ledger
from harnessd.journal.line import encode

SESSION = "ses_01kbc3fqz-7h2m9xw"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Desk:
    """A folder with one session in it."""

    folder: Path
    committer: Committer

    @property
    def journal(self) -> Path:
        return self.folder / "sessions" / f"{SESSION}.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "context" / SESSION / "state.json"

    async def open(self, **more: Any) -> Ledger:
        return await Ledger.open(
            self.journal, self.checkpoint, session_id=SESSION, agent_id="main", committer=self.committer, **more
        )

    @contextlib.asynccontextmanager
    async def ledger(self, **more: Any) -> AsyncIterator[Ledger]:
        ledger = await self.open(**more)
        try:
            yield ledger
        finally:
            await ledger.close()


class CountingDisk(Disk):
    """A disk that tells what was asked of it, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        self.calls.append("write")
        return super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self.calls.append("sync")
        super().sync(fd)


class FailingDisk(CountingDisk):
    """A disk on which whatever stands in `fails` fails with `error`; a write first takes `takes` bytes."""

    def __init__(self, error: int = errno.ENOSPC, takes: int = 0) -> None:
        super().__init__()
        self.fails: set[str] = set()
        self.error = error
        self.takes = takes
        self._taken = False

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        if "write" in self.fails:
            if self.takes and not self._taken:
                self._taken = True
                return super().write(fd, data[: self.takes], offset)
            self._taken = False
            raise OSError(self.error, os.strerror(self.error))
        return super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        if "sync" in self.fails:
            raise OSError(self.error, os.strerror(self.error))
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        if "truncate" in self.fails:
            raise OSError(self.error, os.strerror(self.error))
        super().truncate(fd, size)


def said(text: str) -> MessageCreated:
    """A message to record."""
    return MessageCreated(message=UserMessage(id=f"msg_{text}", parts=(TextPart(text=text),)))


def one_line_of_each() -> list[bytes]:
    """A short line of every kind of event, numbered from 1."""
    events = [kind(seq=seq, at="2026-11-30T12:00:00.000Z") for seq, kind in enumerate(EVENT_TYPES.values(), 1)]
    return [encode(event) for event in events]


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


def child(code: str, *arguments: str) -> list[str]:
    """The command of a Python process that runs `code` with this checkout importable."""
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}", *arguments]


Make = Callable[..., Desk]
