"""What the pipeline needs of a session's record; `journal.ledger.Ledger` is the one that is used."""

from typing import Protocol

from harnessd.facts.event import Delta, Event
from harnessd.facts.state import State


class Recorder(Protocol):
    """Takes facts, makes them durable, tells those who watch."""

    @property
    def state(self) -> State:
        """What is true after everything recorded."""
        ...

    def record(self, event: Event) -> Event:
        """Puts the event on record, stamped. Never blocks; raises `StorageError` if the journal is broken."""
        ...

    async def barrier(self) -> int:
        """Returns once everything recorded so far is on disk."""
        ...

    def delta(self, delta: Delta) -> None:
        """Tells those who watch, and nobody else."""
        ...
