"""What is true in a session that is not opened: read beside whoever writes it, without a lock."""

from pathlib import Path

from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.journal.checkpoint import Checkpoint, load
from harnessd.journal.deletion import deleted, is_deletion
from harnessd.journal.records import events_from, open_to_read


def peek(journal: Path, checkpoint: Path) -> State:
    """The state as of the last whole record on disk: the checkpoint, if it is of use, and what came after it. Blocks.

    A record that is just being written counts as not there yet, damage is stepped over. Raises `SessionNotFound`
    if there is no such session or it was deleted, `StorageError` if the journal cannot be read.
    """
    saved = load(checkpoint, journal)
    state, start, seq = State(), 0, 0
    if isinstance(saved, Checkpoint):
        state, start, seq = saved.state, saved.mark.start, saved.mark.seq
    with open_to_read(journal) as file:
        for event, _ in events_from(file, start, seq):
            if is_deletion(event):
                raise deleted(journal)
            state = fold(state, event)
    return state
