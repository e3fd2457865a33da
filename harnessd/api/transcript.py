"""What was said and done, as pages of messages: made from events, each call with its decisions and its result.

A page is cut only where no call is parted from what became of it, so pages put together are the whole, each thing once.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from harnessd.facts.base import Record
from harnessd.facts.event import (
    ArtifactCreated,
    ArtifactUpdated,
    CheckpointWritten,
    Event,
    MessageCreated,
    MessageQueued,
    RunStarted,
    SubagentFinished,
    SubagentStarted,
    SubagentWaiting,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    ToolResultEvicted,
    TurnFinished,
    TurnStarted,
    write_event,
)
from harnessd.facts.message import (
    AssistantMessage,
    CallStatus,
    JsonObject,
    Origin,
    Part,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from harnessd.facts.run import Approval, ArtifactRef, Decision, Failure, SubagentRef

CHUNK = 256
"""Events that are read at a time."""

ReadPage = Callable[[int | None, int], Awaitable[list[Event]]]
"""`(before, count)` → the last `count` events on disk below that seq, in order."""


class AskedPerson(Record):
    """An approval of a call, and what became of it; without `outcome` it waits."""

    approval: Approval = Approval()
    outcome: Literal["allowed", "denied", "expired", "cancelled"] | None = None
    by: str = ""
    scope: Literal["once", "session", "always"] = "once"
    note: str = ""
    at: str = ""


class TranscriptCall(Record):
    """A tool call from the model's request to its one result.

    `written` is what the model wrote as arguments, `arguments` what the call is made with (a person may have changed
    them). `evicted` is where a result too large for the context lies, a path below the home. Times are RFC 3339.
    """

    id: str = ""
    name: str = ""
    written: str = ""
    arguments: JsonObject | None = None
    effect: Literal["read", "write"] | None = None
    status: Literal["pending", "waiting_approval", "running"] | CallStatus = "pending"
    decision: Decision | None = None
    approvals: tuple[AskedPerson, ...] = ()
    started_at: str | None = None
    finished_at: str | None = None
    duration_ms: int | None = None
    reruns: int = 0
    parts: tuple[Part, ...] = ()
    origin: Origin | None = None
    commit: str | None = None
    failure: Failure | None = None
    evicted: str | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    subagent: SubagentRef | None = None


class TranscriptMessage(Record):
    """What a person, the harness or the model said. `usage` and the times are those of the model's request."""

    kind: Literal["message"] = "message"
    seq: int = 0
    at: str = ""
    run_id: str | None = None
    turn_id: str | None = None
    id: str = ""
    role: Literal["user", "assistant"] = "user"
    said: Literal["input", "note", "summary", "answer"] = "input"
    parts: tuple[Part, ...] = ()
    origin: Origin | None = None
    reasoning: str | None = None
    finish: str | None = None
    model: str | None = None
    calls: tuple[TranscriptCall, ...] = ()
    usage: Usage | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None


class TranscriptFact(Record):
    """Anything else that happened, as it was recorded: where a run began and ended, a retry, a compaction …"""

    kind: Literal["fact"] = "fact"
    seq: int = 0
    at: str = ""
    event: JsonObject = Field(default_factory=dict)


class TranscriptPage(Record):
    """A stretch of a session, in order; what came before it is had with `before`, unless it is absent."""

    messages: tuple[TranscriptMessage | TranscriptFact, ...] = ()
    before: int | None = None


async def read_transcript(read: ReadPage, before: int | None, limit: int) -> TranscriptPage:
    """The last items below seq `before`, at least `limit` of them if there are so many, and few more."""
    walk = _Backwards(limit)
    at = before
    while not walk.full:
        page = await read(at, CHUNK)
        if not page:
            return TranscriptPage(messages=told(walk.events()))
        walk.add(page)
        at = page[0].seq
    events = walk.events()
    return TranscriptPage(messages=told(events), before=events[0].seq if events[0].seq > 1 else None)


def told(events: Iterable[Event]) -> tuple[TranscriptMessage | TranscriptFact, ...]:
    """The items that events are, in the order in which each began. Pure."""
    items: list[_Message | TranscriptFact] = []
    calls: dict[str, _Call] = {}
    for event in events:
        if isinstance(event, MessageCreated) and not isinstance(event.message, ToolMessage):
            message = _Message(event)
            calls.update((call.id, call) for call in message.calls)
            items.append(message)
        elif isinstance(event, SILENT):
            continue
        elif (call := calls.get(call_id_of(event) or "")) is not None:
            call.add(event)
        else:
            items.append(TranscriptFact(seq=event.seq, at=event.at, event=write_event(event)))
    return tuple(item.record() if isinstance(item, _Message) else item for item in items)


SILENT = (CheckpointWritten, MessageQueued, TurnStarted, TurnFinished)
"""What a reader misses nothing of: the queue is in the state, and a turn's cost stands at its message."""


def call_id_of(event: Event) -> str | None:
    """The tool call that an event is about, if it is about one."""
    match event:
        case (
            ToolCallCreated(tool_call_id=call_id)
            | ToolApprovalRequired(approval=Approval(tool_call_id=call_id))
            | ToolApprovalResolved(tool_call_id=call_id)
            | ToolCallRunning(tool_call_id=call_id)
            | ToolCallCompleted(tool_call_id=call_id)
            | ToolResultEvicted(tool_call_id=call_id)
            | ArtifactCreated(artifact=ArtifactRef(created_by_tool_call_id=call_id))
            | ArtifactUpdated(artifact=ArtifactRef(created_by_tool_call_id=call_id))
            | SubagentStarted(subagent=SubagentRef(parent_tool_call_id=call_id))
            | SubagentWaiting(subagent=SubagentRef(parent_tool_call_id=call_id))
            | SubagentFinished(subagent=SubagentRef(parent_tool_call_id=call_id))
        ):
            return call_id or None
    return None


class _Backwards:
    """Events from the end, until there are enough items and no call is parted from its message."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reversed: list[Event] = []
        self._items = 0
        self._parted: set[str] = set()
        self.full = False

    def add(self, page: Sequence[Event]) -> None:
        """Takes in the events just before those so far; those that are too many are left out."""
        for event in reversed(page):
            self._reversed.append(event)
            if isinstance(event, MessageCreated):
                self._items += 1
                if isinstance(event.message, AssistantMessage):
                    self._parted -= {call.id for call in event.message.tool_calls}
            elif isinstance(event, RunStarted):
                self._parted.clear()  # a run's calls are its own: what is still missing is damaged or of another page
                self._items += 1
            elif (call_id := call_id_of(event)) is not None:
                self._parted.add(call_id)
            elif not isinstance(event, SILENT):
                self._items += 1
            if self._items >= self._limit and not self._parted and not isinstance(event, SILENT):
                self.full = True
                return

    def events(self) -> list[Event]:
        """What was taken in, in order."""
        return self._reversed[::-1]


class _Message:
    """A message and what is known of its calls so far."""

    def __init__(self, event: MessageCreated) -> None:
        self._event = event
        self.calls = [_Call(call) for call in getattr(event.message, "tool_calls", ())]

    def record(self) -> TranscriptMessage:
        event, message = self._event, self._event.message
        shared = TranscriptMessage(
            seq=event.seq, at=event.at, run_id=event.run_id, turn_id=event.turn_id, id=message.id, parts=message.parts
        )
        match message:
            case UserMessage():
                return shared.model_copy(update={"said": message.kind, "origin": message.origin})
            case AssistantMessage():
                return shared.model_copy(
                    update={
                        "role": "assistant",
                        "said": "answer",
                        "reasoning": message.reasoning or None,
                        "finish": message.finish,
                        "model": message.model or None,
                        "calls": tuple(call.record() for call in self.calls),
                        "usage": event.usage,
                        "duration_ms": event.duration_ms,
                        "first_token_ms": event.first_token_ms,
                    }
                )
        return shared


@dataclass(slots=True)
class _Call:
    """A call as far as it has come."""

    asked: ToolCall
    created: ToolCallCreated | None = None
    approvals: dict[str, AskedPerson] = field(default_factory=dict)
    running: ToolCallRunning | None = None
    started_at: str | None = None
    reruns: int = 0
    completed: ToolCallCompleted | None = None
    changed_arguments: JsonObject | None = None
    evicted: str | None = None
    artifacts: dict[str, ArtifactRef] = field(default_factory=dict)
    subagent: SubagentRef | None = None

    @property
    def id(self) -> str:
        return self.asked.id

    def add(self, event: Event) -> None:
        match event:
            case ToolCallCreated():
                self.created = event
            case ToolApprovalRequired(approval=approval):
                self.approvals[approval.id] = AskedPerson(approval=approval)
            case ToolApprovalResolved():
                self._resolve(event)
            case ToolCallRunning():
                self.running, self.started_at = event, self.started_at or event.at
                self.reruns += event.rerun
            case ToolCallCompleted():
                self.completed = event
            case ToolResultEvicted(content_ref=where):
                self.evicted = where
            case ArtifactCreated(artifact=artifact) | ArtifactUpdated(artifact=artifact):
                self.artifacts[artifact.id] = artifact
            case SubagentStarted(subagent=ref) | SubagentWaiting(subagent=ref) | SubagentFinished(subagent=ref):
                self.subagent = ref

    def _resolve(self, event: ToolApprovalResolved) -> None:
        waited = self.approvals.get(event.approval_id, AskedPerson(approval=Approval(id=event.approval_id)))
        update = {"outcome": event.outcome, "by": event.by, "scope": event.scope, "note": event.note, "at": event.at}
        self.approvals[event.approval_id] = waited.model_copy(update=update)
        if event.arguments is not None:
            self.changed_arguments = event.arguments

    def record(self) -> TranscriptCall:
        created, running, done = self.created, self.running, self.completed
        return TranscriptCall(
            id=self.asked.id,
            name=self.asked.name,
            written=self.asked.arguments,
            arguments=self.changed_arguments or (created.arguments if created else None),
            effect=created.effect if created else None,
            status=done.status if done else self._under_way(),
            decision=(done.decision if done else None) or (running.decision if running else None),
            approvals=tuple(self.approvals.values()),
            started_at=self.started_at,
            finished_at=done.at if done else None,
            duration_ms=done.duration_ms if done else None,
            reruns=self.reruns,
            parts=done.parts if done else (),
            origin=done.origin if done else None,
            commit=done.commit if done else None,
            failure=done.failure if done else None,
            evicted=self.evicted,
            artifacts=tuple(self.artifacts.values()),
            subagent=self.subagent,
        )

    def _under_way(self) -> Literal["pending", "waiting_approval", "running"]:
        if any(asked.outcome is None for asked in self.approvals.values()):
            return "waiting_approval"
        return "running" if self.running else "pending"
