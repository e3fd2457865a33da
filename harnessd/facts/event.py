"""What happened: the closed union of events, one frozen record each, in the past tense.

An event is built without its envelope and gets it (`seq`, `at`, `sessionId`, `agentId`) when it is recorded.
Events are written strictly and read leniently: unknown fields are kept, missing ones defaulted, and a type or
shape that this version does not know comes back as `UnknownEvent`, which writes itself as it was read.
"""

from typing import Any, Literal

from pydantic import Field, ValidationError

from harnessd.facts.base import Record
from harnessd.facts.message import CallStatus, JsonObject, Message, Origin, Part, Usage, UserMessage
from harnessd.facts.run import (
    Approval,
    ArtifactRef,
    Budget,
    Conclusion,
    Decision,
    EndReason,
    Failure,
    LayerAnswer,
    Mode,
    Parent,
    ProblemNote,
    SubagentRef,
    Todo,
    Trigger,
)

SCHEMA_VERSION = 1


class Event(Record):
    """The envelope. `at` is RFC 3339 in UTC with milliseconds; `seq` counts from 1 in its session, 0 is unrecorded."""

    seq: int = 0
    v: int = SCHEMA_VERSION
    at: str = ""
    type: str = ""
    session_id: str = ""
    agent_id: str = ""
    run_id: str | None = None
    turn_id: str | None = None


# --- session


class SessionCreated(Event):
    """A line of conversation began; `model` is the one that it was begun with, in place of the home's own."""

    type: Literal["session.created"] = "session.created"
    title: str = ""
    user_id: str | None = None
    parent: Parent | None = None
    model: str = ""
    harness_version: str = ""


class StateUpdated(Event):
    """A client changed title, todos, workspaceContext or mode: `patch` is a JSON merge patch (RFC 7396) of these."""

    type: Literal["state.updated"] = "state.updated"
    patch: JsonObject = Field(default_factory=dict)


class MessageQueued(Event):
    """A message waits: until the present run ends (`queue`) or until the next model call (`steer`)."""

    type: Literal["message.queued"] = "message.queued"
    message: UserMessage = UserMessage()
    when: Literal["queue", "steer"] = "queue"
    trigger: Trigger = Trigger()
    workspace_context: JsonObject | None = None


class CheckpointWritten(Event):
    """The state as of `at_seq` was saved beside the journal."""

    type: Literal["checkpoint.written"] = "checkpoint.written"
    at_seq: int = 0


class SessionRedacted(Event):
    """The operator took something out of the journal; this stands in its place."""

    type: Literal["session.redacted"] = "session.redacted"
    reason: str = ""
    seqs: tuple[int, ...] = ()


# --- run


class RunStarted(Event):
    """The agent woke. `pin` is the git tree of the definition files it reads; `last_good` names the files for which
    an older blob was used; `dirty` is git's own comparison with `head`."""

    type: Literal["run.started"] = "run.started"
    trigger: Trigger = Trigger()
    model: str = ""
    mode: Mode = "default"
    budget: Budget = Budget()
    pin: str = ""
    head: str | None = None
    dirty: bool = False
    last_good: tuple[str, ...] = ()
    parent: Parent | None = None


class RunResumed(Event):
    """A run went on after an interruption, a pause or a restart, as the same run and turn."""

    type: Literal["run.resumed"] = "run.resumed"
    reason: Literal["restart", "approval", "continue"] = "restart"
    interrupted_at: str = ""
    reruns: tuple[str, ...] = ()


class RunParked(Event):
    """A run that was interrupted waits for a person instead of going on by itself, and why.

    `interrupted_at` is the time of the last fact before. The run may not have begun yet: then its message waits.
    """

    type: Literal["run.parked"] = "run.parked"
    reason: Literal["too_old", "safe_mode"] = "too_old"
    interrupted_at: str = ""


class RunStopRequested(Event):
    """Somebody asked the run to stop; from here no further tool call starts."""

    type: Literal["run.stop_requested"] = "run.stop_requested"
    scope: Literal["run", "session"] = "run"
    by: str = ""


class RunFinished(Event):
    """The run ended for a named reason; `queued` messages wait for another (None: it was not told)."""

    type: Literal["run.finished"] = "run.finished"
    reason: EndReason = "completed"
    detail: str = ""
    failure: Failure | None = None
    turns: int = 0
    usage: Usage = Usage()
    duration_ms: int = 0
    queued: int | None = None


# --- turn


class TurnStarted(Event):
    """A model request is about to be made."""

    type: Literal["turn.started"] = "turn.started"
    number: int = 0
    model: str = ""
    context_window: int | None = None


class TurnRetried(Event):
    """The model failed and is asked again: after a wait, with another model, or with a shorter context."""

    type: Literal["turn.retried"] = "turn.retried"
    attempt: int = 0
    failure: Failure = Failure()
    action: Literal["wait", "fallback", "compact", "repair"] = "wait"
    wait_seconds: float = 0.0
    model: str = ""
    usage: Usage = Usage()


class TurnFinished(Event):
    """The turn's model request and all its calls are done."""

    type: Literal["turn.finished"] = "turn.finished"
    usage: Usage = Usage()
    duration_ms: int = 0
    first_token_ms: int | None = None
    model: str = ""


# --- message


class MessageCreated(Event):
    """A message entered the model's context: a user's, a note of the harness, or what the model said.

    Tool results are not messages of their own: `tool.call.completed` is the one record of a result. What the
    model said carries what it cost, so that a crash before the end of the turn loses no spending.
    """

    type: Literal["message.created"] = "message.created"
    message: Message = UserMessage()
    usage: Usage | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None


# --- tool


class ToolCallCreated(Event):
    """A call was accepted into the pipeline. `arguments` are parsed and valid, or None if they never became so.

    `action_hash` is equal for equal tool and arguments; `idempotency_key` stays the same over reruns.
    """

    type: Literal["tool.call.created"] = "tool.call.created"
    tool_call_id: str = ""
    message_id: str = ""
    tool_name: str = ""
    arguments: JsonObject | None = None
    effect: Literal["read", "write"] = "write"
    idempotent: bool = False
    concurrency_safe: bool = False
    origin: Origin = "local"
    action_hash: str = ""
    idempotency_key: str = ""


class ToolCallClassified(Event):
    """In mode `auto` a model was asked about the call, and this is its answer. `key` is a hash of all it was shown."""

    type: Literal["tool.call.classified"] = "tool.call.classified"
    tool_call_id: str = ""
    key: str = ""
    answer: LayerAnswer = LayerAnswer()
    model: str = ""
    usage: Usage = Usage()


class ToolApprovalRequired(Event):
    """The gate said ask, or the call's server has a question: the call waits for a person."""

    type: Literal["tool.approval_required"] = "tool.approval_required"
    approval: Approval = Approval()


class ToolApprovalResolved(Event):
    """An approval was decided, or ran out, or was withdrawn: three different things.

    `rule` is the allow rule that the decision adds to the session when its scope is wider than this one call.
    `arguments` are those that a person gave the call or, for a question, the answer to it.
    """

    type: Literal["tool.approval_resolved"] = "tool.approval_resolved"
    approval_id: str = ""
    tool_call_id: str = ""
    outcome: Literal["allowed", "denied", "expired", "cancelled"] = "cancelled"
    by: str = ""
    scope: Literal["once", "session", "always"] = "once"
    rule: str | None = None
    arguments: JsonObject | None = None
    note: str = ""


class ToolCallRunning(Event):
    """The gate allowed the call and it starts now. For a writer this is durable before the effect.

    `effect` marks it as it starts: a person may have changed arguments that decide it. None: as it was created.
    """

    type: Literal["tool.call.running"] = "tool.call.running"
    tool_call_id: str = ""
    decision: Decision = Decision()
    rerun: bool = False
    effect: Literal["read", "write"] | None = None


class ToolCallCompleted(Event):
    """The call's one result. `changed` says whether it brought something new; `commit` names its change of the home."""

    type: Literal["tool.call.completed"] = "tool.call.completed"
    tool_call_id: str = ""
    tool_name: str = ""
    status: CallStatus = "ok"
    parts: tuple[Part, ...] = ()
    origin: Origin = "local"
    duration_ms: int = 0
    changed: bool = False
    commit: str | None = None
    decision: Decision | None = None
    failure: Failure | None = None


class ToolResultEvicted(Event):
    """A result too large for the context went to a file; `size` is bytes, `content_ref` a path below the home."""

    type: Literal["tool.result.evicted"] = "tool.result.evicted"
    tool_call_id: str = ""
    content_ref: str = ""
    size: int = 0
    sha256: str = ""


# --- product


class ArtifactCreated(Event):
    """A file was produced."""

    type: Literal["artifact.created"] = "artifact.created"
    artifact: ArtifactRef = ArtifactRef()


class ArtifactUpdated(Event):
    """A produced file changed."""

    type: Literal["artifact.updated"] = "artifact.updated"
    artifact: ArtifactRef = ArtifactRef()


# --- helpers


class SubagentStarted(Event):
    """A task was delegated."""

    type: Literal["subagent.started"] = "subagent.started"
    subagent: SubagentRef = SubagentRef()


class SubagentWaiting(Event):
    """A delegate waits for a person, and so the call that asked for it does; `subagent.waiting` says for what."""

    type: Literal["subagent.waiting"] = "subagent.waiting"
    subagent: SubagentRef = SubagentRef()


class SubagentFinished(Event):
    """A delegate came back, failed or was stopped. What it spent counts here as spent by the run that delegated."""

    type: Literal["subagent.finished"] = "subagent.finished"
    subagent: SubagentRef = SubagentRef()


# --- plan


class TodoUpdated(Event):
    """The list of things to do is now this."""

    type: Literal["todo.updated"] = "todo.updated"
    todos: tuple[Todo, ...] = ()


class ConclusionAdded(Event):
    """Something was established."""

    type: Literal["conclusion.added"] = "conclusion.added"
    conclusion: Conclusion = Conclusion()


class ConclusionRetracted(Event):
    """Something established was overturned."""

    type: Literal["conclusion.retracted"] = "conclusion.retracted"
    conclusion_id: str = ""
    reason: str = ""


# --- context


class ContextCompacted(Event):
    """Older messages gave way to a summary; those from `keep_from` on (a message id) stay. Token counts are guesses."""

    type: Literal["context.compacted"] = "context.compacted"
    summary: UserMessage = UserMessage(kind="summary")
    keep_from: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    usage: Usage = Usage()


class ContextCompactionFailed(Event):
    """A summary could not be made or gained nothing; `failures` counts those in a row."""

    type: Literal["context.compaction_failed"] = "context.compaction_failed"
    reason: str = ""
    failures: int = 0
    usage: Usage = Usage()


class ContextTruncated(Event):
    """The oldest messages were dropped without a summary; those from `keep_from` on stay."""

    type: Literal["context.truncated"] = "context.truncated"
    keep_from: str = ""
    dropped: int = 0


# --- home


class HomeChanged(Event):
    """The definition files changed during a run; from here it reads `pin`, in this mode and budget."""

    type: Literal["home.changed"] = "home.changed"
    mode: Mode | None = None
    budget: Budget | None = None
    pin: str = ""
    head: str | None = None
    dirty: bool = False
    last_good: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class HomeProblem(Event):
    """Something in the home is odd and changes what the agent is."""

    type: Literal["home.problem"] = "home.problem"
    problem: ProblemNote = ProblemNote()


class MemoryConsolidated(Event):
    """The upkeep of memory ended in one of its outcomes."""

    type: Literal["memory.consolidated"] = "memory.consolidated"
    outcome: Literal["merged", "nothing_new", "waiting_for_review", "conflict", "refused"] = "nothing_new"
    commit: str | None = None
    detail: str = ""
    usage: Usage = Usage()


class McpConnected(Event):
    """A server answered; `tools` are the names it offers, as the model sees them."""

    type: Literal["mcp.connected"] = "mcp.connected"
    server: str = ""
    protocol: str = ""
    tools: tuple[str, ...] = ()
    duration_ms: int = 0


class McpFailed(Event):
    """A server could not be used; only its own tools are missing."""

    type: Literal["mcp.failed"] = "mcp.failed"
    server: str = ""
    failure: Failure = Failure()


# --- graph


class GraphStarted(Event):
    """A walk through a graph began."""

    type: Literal["graph.started"] = "graph.started"
    graph: str = ""
    walk_id: str = ""
    input: JsonObject = Field(default_factory=dict)


class GraphNodeStarted(Event):
    """A node began; `key` tells the items of a map apart."""

    type: Literal["graph.node.started"] = "graph.node.started"
    walk_id: str = ""
    node: str = ""
    key: str = ""
    attempt: int = 1


class GraphNodeFinished(Event):
    """A node ended and wrote these fields."""

    type: Literal["graph.node.finished"] = "graph.node.finished"
    walk_id: str = ""
    node: str = ""
    key: str = ""
    writes: JsonObject = Field(default_factory=dict)
    usage: Usage = Usage()
    duration_ms: int = 0


class GraphNodeFailed(Event):
    """A node failed; what follows was declared: retry, fallback or the end of its branch."""

    type: Literal["graph.node.failed"] = "graph.node.failed"
    walk_id: str = ""
    node: str = ""
    key: str = ""
    attempt: int = 1
    failure: Failure = Failure()


class GraphNodeSkipped(Event):
    """A node was left out, and why."""

    type: Literal["graph.node.skipped"] = "graph.node.skipped"
    walk_id: str = ""
    node: str = ""
    key: str = ""
    reason: str = ""


class GraphEdgeTaken(Event):
    """The walk went from one node to another because of this condition (empty: the default edge)."""

    type: Literal["graph.edge.taken"] = "graph.edge.taken"
    walk_id: str = ""
    source: str = ""
    target: str = ""
    condition: str = ""


class GraphFinished(Event):
    """The walk ended."""

    type: Literal["graph.finished"] = "graph.finished"
    walk_id: str = ""
    status: Literal["completed", "failed", "stopped"] = "completed"
    output: JsonObject = Field(default_factory=dict)
    usage: Usage = Usage()


class UnknownEvent(Event):
    """An event of a type or shape that this version does not know, carried along unchanged in `raw`."""

    raw: JsonObject = Field(default_factory=dict)


def _concrete(base: type[Event]) -> dict[str, type[Event]]:
    return {cls.model_fields["type"].default: cls for cls in base.__subclasses__() if cls is not UnknownEvent}


EVENT_TYPES: dict[str, type[Event]] = _concrete(Event)
"""Every event this version writes, by its dotted name."""


class _Delta(Record):
    """A streamed piece of text: on the bus, never in the journal. `offset` counts characters of the whole so far."""

    type: str = ""
    session_id: str = ""
    run_id: str = ""
    turn_id: str = ""
    message_id: str = ""
    offset: int = 0
    text: str = ""


class AssistantTextDelta(_Delta):
    """A piece of what the model says."""

    type: Literal["assistant.text.delta"] = "assistant.text.delta"


class AssistantReasoningDelta(_Delta):
    """A piece of the model's reasoning."""

    type: Literal["assistant.reasoning.delta"] = "assistant.reasoning.delta"


class ToolCallDelta(_Delta):
    """A piece of a call's arguments as the model writes them, or of a running tool's output."""

    type: Literal["tool.call.delta"] = "tool.call.delta"
    tool_call_id: str = ""
    tool_name: str = ""
    stream: Literal["arguments", "output"] = "arguments"


Delta = AssistantTextDelta | AssistantReasoningDelta | ToolCallDelta


def read_event(data: dict[str, Any]) -> Event:
    """The event in `data` (one parsed journal line without its `crc`). Never raises on what a newer version wrote."""
    name = data.get("type")
    kind = EVENT_TYPES.get(name, UnknownEvent) if isinstance(name, str) else UnknownEvent
    if kind is not UnknownEvent:
        try:
            return kind.model_validate(data)
        except ValidationError:
            pass
    envelope = {key: data[key] for key, of in _ENVELOPE.items() if isinstance(data.get(key), of)}
    return UnknownEvent(**envelope, raw=data)


_ENVELOPE: dict[str, type] = {
    "seq": int,
    "v": int,
    "at": str,
    "type": str,
    "sessionId": str,
    "agentId": str,
    "runId": str,
    "turnId": str,
}


def write_event(event: Event) -> dict[str, Any]:
    """The event as JSON-ready data, camelCase, absent values left out; `read_event` gives an equal event back."""
    if isinstance(event, UnknownEvent):
        return dict(event.raw) | {"seq": event.seq}
    return event.model_dump(mode="json", exclude_none=True)
