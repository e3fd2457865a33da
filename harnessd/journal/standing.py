"""Whether something is left to do in a session: read from the end of its journal only, beside whoever writes it.

Facts near the end say where reading may begin: a run that began or ended, a turn that began. From there on the
events are folded, so that this is the same answer as the whole state would give, at a price that does not depend
on the length of the session. Only where messages waited when the last run ended, or where `run.finished` is too
old to tell, the whole journal is looked through for what waits.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from harnessd.facts.event import Event, RunFinished, TurnStarted, UnknownEvent
from harnessd.facts.fold import fold
from harnessd.facts.run import Approval, EndReason
from harnessd.facts.state import ActiveRun, State
from harnessd.journal.line import decode, unframe
from harnessd.journal.records import Record, open_to_read, scan, scan_backwards

TAIL = 16 * 1024
"""How many bytes are read at a time from the end; a turn with an approval usually fits."""

Word = Literal["quiet", "unfinished", "waiting", "queued", "parked"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a session stands.

    `quiet`: nothing is left to do. `unfinished`: a run can go on by itself (some of its calls may wait all the same).
    `waiting`: a run goes on when a person has decided, here or in the session of a subagent. `parked`: a run goes on
    when a person says so. `queued`: no run is under way and a message waits for one. `approvals` are those asked for
    in this session. `ended` is how the last run ended, None if none did or another has begun since.
    """

    word: Word
    approvals: tuple[Approval, ...] = ()
    ended: EndReason | None = None


def standing(path: Path) -> Standing:
    """How the session of the journal at `path` stands. Blocks; reads the end of the file, usually at one go.

    Raises `SessionNotFound` if there is no such journal, `StorageError` if it cannot be read.
    """
    with open_to_read(path) as file:
        return standing_of(_state_at_the_end(file))


def standing_of(state: State) -> Standing:
    """How a session with this state stands."""
    run = state.active_run
    ended = state.last_run.reason if state.last_run is not None and run is None else None
    if run is None:
        first = state.queue[0] if state.queue else None
        word: Word = "quiet" if first is None else "parked" if first.parked and not first.stopped else "queued"
    elif run.status == "parked":
        word = "parked"
    else:
        word = "waiting" if run.status == "waiting_approval" and _all_wait(state, run) else "unfinished"
    return Standing(word, state.pending_approvals, ended)


def _all_wait(state: State, run: ActiveRun) -> bool:
    """Whether something waits, and every call is done or waits; one that a crash cut off has to be seen to."""
    below = {ref.parent_tool_call_id for ref in state.subagents if ref.status == "waiting"}
    done = all(entry.status in {"finished", "waiting_approval"} or entry.call.id in below for entry in run.calls)
    return done and bool(state.pending_approvals or below)


_NAME = re.compile(rb'\{"crc":"[0-9a-f]{8}","seq":(\d+),"v":\d+,"at":"[^"\\]*","type":"([^"\\]*)"')

_BEGINS = {b"turn.started", b"run.started", b"run.finished"}
_OF_THE_QUEUE = {
    *(b"run.started", b"run.finished", b"run.stop_requested", b"run.parked", b"run.resumed"),
    *(b"message.queued", b"message.created"),
}


def _state_at_the_end(file: BinaryIO) -> State:
    """As much of the state as `standing_of` looks at."""
    tail: list[Record] = []
    began = b""
    above: int | None = None
    for piece in scan_backwards(file, chunk_size=TAIL):
        if not isinstance(piece, Record):
            continue
        seq, kind = _seq_and_type(piece.data)
        if above is not None and seq != above - 1:
            # Some are lost or there twice: only the whole tells which count.
            return _folded(State(), _all_records(file))
        if began:
            break
        above = seq
        tail.append(piece)
        began = kind if kind in _BEGINS else b""
    tail.reverse()
    first = decode(tail[0].data) if began else None
    if isinstance(first, UnknownEvent):
        return _folded(State(), _all_records(file))  # a later version wrote it: here it changes nothing
    if isinstance(first, RunFinished) and first.queued != 0:
        return _folded(State(), _queue_records(file))
    start = State(active_run=ActiveRun(run_id=first.run_id or "")) if isinstance(first, TurnStarted) else State()
    return _folded(start, tail)


def _folded(state: State, records: "list[Record] | Iterator[Record]") -> State:
    last = 0
    for record in records:
        event = decode(record.data)
        if isinstance(event, Event) and event.seq > last:
            last = event.seq
            state = fold(state, event)
    return state


def _all_records(file: BinaryIO) -> Iterator[Record]:
    return (piece for piece in scan(file) if isinstance(piece, Record))


def _queue_records(file: BinaryIO) -> Iterator[Record]:
    """The records that say what waits in the queue when no run is under way."""
    return (record for record in _all_records(file) if _seq_and_type(record.data)[1] in _OF_THE_QUEUE)


def _seq_and_type(data: bytes) -> tuple[int, bytes]:
    """What a good record says of itself in its first bytes, read without parsing the rest."""
    found = _NAME.match(data)
    if found is not None:
        return int(found[1]), found[2]
    fields = unframe(data)
    seq, kind = (fields.get("seq"), fields.get("type")) if isinstance(fields, dict) else (None, None)
    return (seq if isinstance(seq, int) else 0), kind.encode() if isinstance(kind, str) else b""
