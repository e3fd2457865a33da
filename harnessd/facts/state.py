"""What is true now in one session: one frozen model, made only by `fold`."""

from typing import Literal

from pydantic import Field

from harnessd.facts.base import Record
from harnessd.facts.event import SCHEMA_VERSION
from harnessd.facts.log import Log
from harnessd.facts.message import (
    JsonObject,
    Message,
    Origin,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
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
    Question,
    Spent,
    SubagentRef,
    Todo,
    Trigger,
)


class Answer(Record):
    """What became of the last approval of a call, and the blob it was bound to."""

    approval_id: str = ""
    outcome: Literal["allowed", "denied", "expired", "cancelled"] = "cancelled"
    by: str = ""
    note: str = ""
    base: str | None = None


class QuestionAnswer(Record):
    """What a person said to a server's question; `arguments` is the answer itself, if one was given."""

    approval_id: str = ""
    question: Question = Question()
    outcome: Literal["allowed", "denied", "expired", "cancelled"] = "cancelled"
    arguments: JsonObject | None = None
    note: str = ""


class OpenCall(Record):
    """A tool call of the present turn: asked for, waiting, running or finished.

    `created` is false while only the model's message speaks of it. `answer` is set once an approval of it was
    resolved, `result` once it is finished; `answers` are those to the questions of its server, in order.
    """

    call: ToolCall = ToolCall()
    created: bool = False
    arguments: JsonObject | None = None
    effect: Literal["read", "write"] = "write"
    idempotent: bool = False
    concurrency_safe: bool = False
    idempotency_key: str = ""
    status: Literal["pending", "waiting_approval", "running", "finished"] = "pending"
    decision: Decision | None = None
    answer: Answer | None = None
    answers: tuple[QuestionAnswer, ...] = ()
    started_at: str = ""
    result: ToolMessage | None = None


class Classified(Record):
    """What a classifier answered in this run; `key` is a hash of all that it was shown."""

    key: str = ""
    answer: LayerAnswer = LayerAnswer()


class ActiveRun(Record):
    """The run that is under way. `calls` are those of the present turn.

    A turn is open from `turn.started` to `turn.finished`; `answered` says that its model request is done. With
    these two and the status of each call, whoever takes the run up again knows what is left to do.
    """

    run_id: str = ""
    turn_id: str | None = None
    status: Literal["running", "waiting_approval", "stopping", "parked"] = "running"
    started_at: str = ""
    trigger: Trigger = Trigger()
    budget: Budget = Budget()
    spent: Spent = Spent()
    pin: str = ""
    model: str = ""
    mode: Mode = "default"
    parent: Parent | None = None
    turn_number: int = 0
    turn_open: bool = False
    turn_usage: Usage = Usage()
    answered: bool = False
    answered_by: str = ""
    calls: tuple[OpenCall, ...] = ()
    actions: tuple[str, ...] = ()
    turns_without_change: int = 0
    invalid_in_a_row: int = 0
    changed_in_turn: bool = False
    classified: tuple[Classified, ...] = ()


class LastRun(Record):
    """How the run before ended."""

    run_id: str = ""
    reason: EndReason = "completed"
    detail: str = ""
    failure: Failure | None = None


class CheckpointMark(Record):
    """The last saved state."""

    seq: int = 0
    at: str = ""


class Queued(Record):
    """A message that waits for its turn; `run_id` is that of the run it will start, if that was promised.

    `stopped` says that the run was stopped before it began: it will begin and end at once. `parked` says that it
    begins when a person says so.
    """

    run_id: str | None = None
    message: UserMessage = UserMessage()
    when: Literal["queue", "steer"] = "queue"
    trigger: Trigger = Trigger()
    workspace_context: JsonObject | None = None
    stopped: bool = False
    parked: bool = False


class Toolkit(Record):
    """What the model can call here beyond the usual.

    `found` are tools found in this session, `servers` says how the MCP servers are, `allowed` are rules that a
    person added for this session.
    """

    found: tuple[str, ...] = ()
    servers: dict[str, Literal["connected", "failed"]] = Field(default_factory=dict)
    allowed: tuple[str, ...] = ()


class Totals(Record):
    """What the session has spent, and how full the context is (`context_tokens` of `context_window`)."""

    total: Usage = Usage()
    runs: int = 0
    turns: int = 0
    tool_calls: int = 0
    context_tokens: int = 0
    context_window: int | None = None
    compaction_failures: int = 0
    turns_at_consolidation: int = 0


class GraphState(Record):
    """The walk that is under way; its nodes are added when graphs are."""

    walk_id: str = ""
    graph: str = ""
    status: Literal["running", "completed", "failed", "stopped"] = "running"


class State(Record):
    """What is true in one session. Made only by `fold`.

    `context_origin` is the lowest origin of anything in `messages`: whatever the agent writes in this context
    can be no more trusted than that.
    """

    session_id: str = ""
    agent_id: str = ""
    user_id: str | None = None
    title: str = ""
    seq: int = 0
    schema_version: int = SCHEMA_VERSION
    messages: Log[Message] = Field(default_factory=Log)
    active_run: ActiveRun | None = None
    last_run: LastRun | None = None
    checkpoint: CheckpointMark | None = None
    pending_approvals: tuple[Approval, ...] = ()
    todos: tuple[Todo, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    subagents: tuple[SubagentRef, ...] = ()
    artifact_refs: tuple[ArtifactRef, ...] = ()
    workspace_context: JsonObject = Field(default_factory=dict)
    toolkit: Toolkit = Toolkit()
    usage: Totals = Totals()
    graph: GraphState | None = None
    queue: tuple[Queued, ...] = ()
    mode: Mode | None = None
    parent: Parent | None = None
    model: str = ""
    context_origin: Origin = "user"
    problems: tuple[ProblemNote, ...] = ()
