"""What is wrong with one session: each record of its journal, then its checkpoint and the files it refers to.

Reads only, takes no lock, and may run beside whoever writes the session: what is just being written counts as not
there yet.
"""

from dataclasses import dataclass, field
from pathlib import Path

from harnessd.errors import HarnessdError
from harnessd.facts.event import (
    EVENT_TYPES,
    ArtifactCreated,
    ArtifactUpdated,
    Event,
    MessageCreated,
    RunFinished,
    RunStarted,
    SessionCreated,
    SubagentFinished,
    SubagentStarted,
    SubagentWaiting,
    ToolCallCompleted,
    ToolResultEvicted,
    TurnStarted,
    UnknownEvent,
)
from harnessd.facts.fold import fold
from harnessd.facts.message import FilePart, ImagePart, Part, ToolMessage
from harnessd.facts.run import Parent, SubagentRef
from harnessd.facts.state import State
from harnessd.journal.checkpoint import Checkpoint, Ignored, draft_of, load, seq_in
from harnessd.journal.deletion import is_deletion
from harnessd.journal.finding import Finding, Severity
from harnessd.journal.line import decode
from harnessd.journal.records import Damage, Record, open_to_read, scan
from harnessd.journal.referred import Referred, check_referred
from harnessd.journal.session_files import SessionFiles

GO_ON = "all other records are read and the session can go on; a backup of the file has the rest"


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found, and what only the other sessions of the home can confirm.

    `subagents` are the delegates that it names, each with the line that does; `parent` is the run it works for.
    """

    findings: tuple[Finding, ...] = ()
    subagents: tuple[tuple[SubagentRef, int], ...] = ()
    parent: Parent | None = None
    deleted: bool = False
    whole: bool = True


def examine(files: SessionFiles, home: Path) -> Examined:
    """Everything about the session at `files` that can be told from its own files. Blocks."""
    saved = load(files.checkpoint, files.journal)
    reading = _Reading(files.journal, files.session_id, saved)
    try:
        with open_to_read(files.journal) as file:
            for piece in scan(file):
                if isinstance(piece, Record):
                    reading.record(piece)
                else:
                    reading.damage(piece)
    except (HarnessdError, OSError) as error:
        said = error.message if isinstance(error, HarnessdError) else error.strerror or str(error)
        reading.tell("error", "unreadable", f"the journal cannot be read: {said}", "look at the file and its rights")
        return Examined(tuple(reading.findings), whole=False)
    reading.end()
    findings = [*reading.findings]
    if not reading.deleted:
        findings += _of_checkpoint(files, saved, reading)
        findings += check_referred(files, home, reading.referred, reading.mentioned)
    return Examined(tuple(findings), tuple(reading.subagents.values()), reading.parent, reading.deleted, reading.whole)


@dataclass
class _Reading:
    """How far the journal was read, and what was found on the way."""

    path: Path
    session_id: str
    saved: Checkpoint | Ignored
    findings: list[Finding] = field(default_factory=list)
    state: State = field(default_factory=State)
    saved_as: State | None = None
    line: int = 1
    damaged_since: int = 0
    whole: bool = True
    deleted: bool = False
    foreign: bool = False
    parent: Parent | None = None
    subagents: dict[str, tuple[SubagentRef, int]] = field(default_factory=dict)
    referred: dict[str, Referred] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)

    def tell(self, severity: Severity, code: str, message: str, way_out: str, byte: int | None = None) -> None:
        line = None if byte is None else self.line
        self.findings.append(Finding(self.path, severity, code, message, way_out, line, byte))

    def damage(self, piece: Damage) -> None:
        size = len(piece.data)
        if piece.torn:
            self.tell(
                "notice",
                "torn-tail",
                f"the file ends in {size} bytes of a record: it is being written now, or its writer was killed",
                "none needed: nobody was told of it, and the next opening sets the bytes aside",
                piece.start,
            )
        else:
            message = f"{size} bytes are no record ({piece.reason}); what they said is lost"
            self.tell("error", "damaged", message, f"look at the disk; {GO_ON}", piece.start)
            self.damaged_since += 1
            self.whole = False
        self.line += piece.data.count(b"\n")

    def record(self, piece: Record) -> None:
        event = decode(piece.data)
        if isinstance(event, Event) and self._counts(event, piece.start):
            self._odd(event, piece.start)
            self._take_note(event)
            self.deleted = self.deleted or is_deletion(event)
            self.state = fold(self.state, event)
            if isinstance(self.saved, Checkpoint) and event.seq == self.saved.mark.seq:
                self.saved_as = self.state
        self.line += piece.data.count(b"\n")

    def end(self) -> None:
        if not self.state.seq and not self.findings:
            message = "the journal holds no record: its writer was killed, or the disk refused, before the first"
            self.tell("notice", "empty", message, "nothing was said in it; it can be deleted")

    def _counts(self, event: Event, byte: int) -> bool:
        """Whether the record's number is one that follows; its place in the order is checked on the way."""
        last = self.state.seq
        if event.seq <= last:
            message = f"the record has seq {event.seq} but stands behind seq {last}; it counts for nothing"
            self.tell("warning", "out-of-order", message, "none needed: no reader looks at it", byte)
            return False
        missing = event.seq - last - 1
        if missing > self.damaged_since and not is_deletion(event):
            what = f"{missing} records are missing" if missing > 1 else "a record is missing"
            message = f"{what} between seq {last} and seq {event.seq}"
            self.tell("error", "gap", message, f"somebody or something cut the file; {GO_ON}", byte)
            self.whole = False
        self.damaged_since = 0
        return True

    def _odd(self, event: Event, byte: int) -> None:
        if isinstance(event, UnknownEvent):
            known = event.type in EVENT_TYPES
            what = f"a {event.type} of a shape" if known else f"an event of type {event.type!r}"
            message = f"{what} that this version does not know; it changes nothing here"
            severity: Severity = "warning" if known else "notice"
            self.tell(severity, "unknown", message, "the version of harnessd that wrote it can show it", byte)
        if event.session_id and event.session_id != self.session_id and not self.foreign:
            self.foreign = True
            message = f"the records name session {event.session_id}: the file was copied or renamed"
            self.tell("warning", "foreign", message, "give the file its name back", byte)
        self._left_open(event, byte)

    def _left_open(self, event: Event, byte: int) -> None:
        """What should have been closed before `event`; the state has an answer for each, so the session goes on."""
        run = self.state.active_run
        way_out = "none needed to go on; with a gap or damage above, this follows from it. Else please report it"
        if isinstance(event, RunStarted) and run is not None:
            self.tell("warning", "run-left-open", f"{run.run_id} has no end, and another run began", way_out, byte)
        if isinstance(event, RunFinished) and run is None:
            self.tell("warning", "end-without-run", f"{event.run_id} ended without having begun", way_out, byte)
        if isinstance(event, RunFinished):
            for approval in self.state.pending_approvals:
                message = f"the run ended while approval {approval.id} was open"
                self.tell("warning", "approval-left-open", message, way_out, byte)
        if isinstance(event, RunFinished | RunStarted | TurnStarted):
            for entry in run.calls if run else ():
                if entry.result is None:
                    message = f"{entry.call.id} ({entry.call.name}) was left without a result"
                    self.tell("warning", "call-left-open", message, way_out, byte)
        if isinstance(event, ToolCallCompleted):
            entries = [entry for entry in run.calls if entry.call.id == event.tool_call_id] if run else []
            if not entries or entries[0].result is not None:
                what = "a second result" if entries else "a result without a call"
                self.tell("warning", "result-left-over", f"{what} of {event.tool_call_id}", way_out, byte)

    def _take_note(self, event: Event) -> None:
        """Of what the event refers to outside of the journal."""
        match event:
            case SessionCreated(parent=parent):
                self.parent = parent
            case SubagentStarted(subagent=ref) | SubagentWaiting(subagent=ref) | SubagentFinished(subagent=ref):
                self.subagents[ref.session_id] = (ref, self.line)
            case ToolResultEvicted(content_ref=ref, size=size, sha256=sha256):
                self.referred[ref] = Referred("result", event.tool_call_id, size, sha256, self.line)
            case ArtifactCreated(artifact=artifact) | ArtifactUpdated(artifact=artifact):
                told = Referred("artifact", artifact.id, artifact.size, artifact.sha256, self.line)
                self.referred[artifact.content_ref] = told
            case MessageCreated(message=message) if not isinstance(message, ToolMessage):
                self._mention(message.parts)
            case ToolCallCompleted(parts=parts):
                self._mention(parts)

    def _mention(self, parts: tuple[Part, ...]) -> None:
        self.mentioned.update(part.content_ref for part in parts if isinstance(part, ImagePart | FilePart))


def _of_checkpoint(files: SessionFiles, saved: Checkpoint | Ignored, reading: _Reading) -> list[Finding]:
    """Whether the saved state is the one that the journal gives. It is a copy: with the journal whole, it can go."""
    path, found = files.checkpoint, list[Finding]()
    repair = "harnessd fsck --repair removes it; it is made again"
    if isinstance(saved, Ignored):
        seq = seq_in(path)
        if not saved.absent and seq > reading.state.seq:
            message = f"the checkpoint is of seq {seq}, the journal ends at seq {reading.state.seq}: its end is missing"
            way_out = "look for a newer copy of the journal, and keep the checkpoint: it holds the state"
            found.append(Finding(path, "error", "journal-behind", message, way_out))
        elif not saved.absent:
            message = f"the checkpoint is not used: {saved.reason}"
            found.append(Finding(path, "warning", "checkpoint-useless", message, repair, repairable=files))
    elif reading.saved_as is None or _text(saved.state) != _text(reading.saved_as):
        message = f"the checkpoint of seq {saved.mark.seq} is not what the journal says"
        if reading.whole:
            found.append(Finding(path, "error", "checkpoint-wrong", message, repair, repairable=files))
        else:
            way_out = "keep it: it is from before the damage and knows what the lost records said"
            found.append(Finding(path, "notice", "checkpoint-knows-more", message, way_out))
    draft = draft_of(path)
    if draft.exists():
        message = "a checkpoint that is being written, or whose writer was killed"
        found.append(Finding(draft, "notice", "draft", message, repair, repairable=files))
    return found


def _text(state: State) -> bytes:
    return state.__pydantic_serializer__.to_json(state, by_alias=True, exclude_none=True)
