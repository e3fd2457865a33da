"""What a session stands on: one object that records facts, knows what is true now, and tells those who listen.

event → redacted → folded into `state` → journal → disk → told. Nobody is told what is not on disk.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
from pydantic_core import from_json, to_json

from harnessd.facts.event import CheckpointWritten, Delta, Event, UnknownEvent, read_event
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.journal.bus import QUEUE_LIMIT, Bus, Subscription
from harnessd.journal.checkpoint import Checkpoint, Ignored, load, save
from harnessd.journal.committer import Committer
from harnessd.journal.deletion import deleted, is_deleted, is_deletion
from harnessd.journal.file import Disk
from harnessd.journal.journal import Journal, Recovery
from harnessd.journal.line import body_of, frame
from harnessd.journal.records import read_events
from harnessd.journal.stamp import Clock, Stamp

Redact = Callable[[bytes], bytes]
"""Gives UTF-8 text back without the secrets in it; the very same object if there are none."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How the session was found: what its journal had suffered, and whether its checkpoint was of use.

    `last_at` is the time of its last fact, RFC 3339; empty if it is new.
    """

    recovery: Recovery
    checkpoint: Literal["used", "absent", "ignored"]
    reason: str
    folded: int
    last_at: str = ""


def keep(text: bytes) -> bytes:
    """Redacts nothing."""
    return text


class Ledger:
    """One open session. `state` is always the fold of everything recorded. Belongs to one event loop."""

    def __init__(
        self,
        journal: Journal,
        checkpoint: Path,
        state: State,
        opening: Opening,
        *,
        session_id: str,
        agent_id: str,
        clock: Clock = time.time,
        redact: Redact = keep,
        told: Callable[[Event], None] | None = None,
    ) -> None:
        self.state = state
        self.journal = journal
        self.opening = opening
        self.session_id = session_id
        self.agent_id = agent_id
        self._checkpoint = checkpoint
        self._redact = redact
        self._now = Stamp(clock)
        self._bus = Bus(_reader(journal.path), journal.durable, told)
        journal.on_durable = self._on_durable

    @classmethod
    async def open(
        cls,
        journal: Path,
        checkpoint: Path,
        *,
        session_id: str,
        agent_id: str,
        committer: Committer,
        clock: Clock = time.time,
        redact: Redact = keep,
        disk: Disk | None = None,
        told: Callable[[Event], None] | None = None,
    ) -> "Ledger":
        """Opens the session, creating its journal if there is none: the checkpoint, then what came after it.

        `told` is called with every event once it is on disk; it must not wait or raise.
        Raises `Locked` with the pid of the process that has it open, `SessionNotFound` if it was deleted,
        `StorageError`.
        """
        opened, state, opening = await anyio.to_thread.run_sync(_open, journal, checkpoint, committer, disk)
        return cls(
            opened,
            checkpoint,
            state,
            opening,
            session_id=session_id,
            agent_id=agent_id,
            clock=clock,
            redact=redact,
            told=told,
        )

    def record(self, event: Event) -> Event:
        """Takes a fact in and gives it back as it will be on disk: with `seq`, `at`, session, agent, without secrets.

        Never blocks; call it on the session's event loop. It is on disk after the next `barrier`, or about 20 ms
        later. Raises `StorageError` while the journal is broken; then nothing was recorded.
        """
        journal = self.journal
        journal.check()
        stamped = event.model_copy(
            update={
                "seq": journal.last.seq + 1,
                "at": self._now(),
                "session_id": self.session_id,
                "agent_id": self.agent_id,
            }
        )
        stamped, body = body_of(stamped)
        redacted = self._redact(body)
        if redacted != body:
            stamped, body = _reread(stamped, body, redacted, self._redact)
        state = fold(self.state, stamped)
        journal.append(stamped, frame(body))
        self.state = state
        self._bus.hold(stamped)
        return stamped

    def flush(self) -> int:
        """Begins to put what is recorded on disk, and returns the last seq of it; `barrier(seq)` waits for that."""
        return self.journal.flush()

    async def barrier(self, seq: int | None = None) -> int:
        """Returns once everything up to `seq` (None: all that is recorded) is on disk; at once if it is.

        Raises `StorageError`; nothing is forgotten then, and the next barrier tries again.
        """
        return await self.journal.barrier(seq)

    @property
    def held(self) -> int:
        """How many events and deltas wait for the disk before they are told."""
        return self._bus.held

    def delta(self, delta: Delta) -> None:
        """Tells the readers a piece of text; it is not recorded."""
        if self.journal.broken is None:
            self._bus.delta(delta)

    def subscribe(self, after: int = 0, limit: int = QUEUE_LIMIT) -> Subscription:
        """Every event with a seq above `after`, from disk and then live, without a gap or a repetition, and deltas.

        A reader with `limit` items untaken is cut.
        """
        return self._bus.subscribe(after, limit)

    async def page(self, before: int | None, count: int) -> list[Event]:
        """The last `count` events on disk below seq `before` (None: of all), in order."""
        return await anyio.to_thread.run_sync(self.journal.read_tail, before, count)

    async def checkpoint(self) -> None:
        """Saves the state as of now, and records that. Raises `StorageError`; the former checkpoint stays then."""
        mark, state = self.journal.last, self.state
        if mark.seq == 0:
            return
        await self.barrier()
        await anyio.to_thread.run_sync(save, self._checkpoint, Checkpoint(mark, state))
        self.record(CheckpointWritten(at_seq=mark.seq))

    async def close(self) -> None:
        """Puts everything on disk, ends the subscriptions and lets the session go. Raises `StorageError`."""
        try:
            await self.journal.close()
        finally:
            self._bus.close()

    def _on_durable(self) -> None:
        self._bus.release(self.journal.durable)


def _open(path: Path, checkpoint_path: Path, committer: Committer, disk: Disk | None) -> tuple[Journal, State, Opening]:
    saved = load(checkpoint_path, path)
    if isinstance(saved, Ignored) and path.exists() and is_deleted(path):
        raise deleted(path)
    folding = _Folding(path, saved.state if isinstance(saved, Checkpoint) else State())
    since = saved.mark if isinstance(saved, Checkpoint) else None
    journal = Journal.open(path, committer=committer, since=since, seen=folding.add, disk=disk)
    last_at = folding.last_at or "".join(event.at for event in journal.read_tail(None, 1))
    if isinstance(saved, Ignored):
        use: Literal["absent", "ignored"] = "absent" if saved.absent else "ignored"
        return journal, folding.state, Opening(journal.recovery, use, saved.reason, folding.count, last_at)
    return journal, folding.state, Opening(journal.recovery, "used", "", folding.count, last_at)


class _Folding:
    """A state that takes in one event after another."""

    def __init__(self, path: Path, state: State) -> None:
        self.path = path
        self.state = state
        self.count = 0
        self.last_at = ""

    def add(self, event: Event) -> None:
        if is_deletion(event):
            raise deleted(self.path)
        self.state = fold(self.state, event)
        self.count += 1
        self.last_at = event.at or self.last_at


def _reader(path: Path) -> Callable[[int, int, int], list[Event]]:
    def read(after: int, upto: int, count: int) -> list[Event]:
        return list(islice(takewhile(lambda event: event.seq <= upto, read_events(path, after)), count))

    return read


def _reread(event: Event, body: bytes, redacted: bytes, redact: Redact) -> tuple[Event, bytes]:
    """The event that the redacted text holds. If the text broke, each string is redacted by itself."""
    try:
        changed = read_event(from_json(redacted))
    except ValueError:
        changed = UnknownEvent()
    if type(changed) is type(event) and changed.seq == event.seq:
        return changed, redacted
    data = {
        key: value if key in {"type", "seq", "v", "at"} else _redact_each(value, redact)
        for key, value in from_json(body).items()
    }
    return read_event(data), to_json(data)


def _redact_each(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value.encode()).decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_redact_each(key, redact): _redact_each(item, redact) for key, item in value.items()}
    if isinstance(value, list):
        return [_redact_each(item, redact) for item in value]
    return value
