"""What a run may spend, what woke it, how it ended: the records that events and state share."""

from typing import Literal

from pydantic import Field

from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject, Usage

EndReason = Literal[
    "completed",
    "max_turns",
    "token_budget",
    "cost_budget",
    "deadline",
    "no_progress",
    "repeated_action",
    "stopped",
    "failed",
]
Mode = Literal["plan", "default", "acceptEdits", "auto", "dontAsk", "bypassPermissions"]
Verdict = Literal["allow", "deny", "ask"]
Layer = Literal["rules", "mode", "arguments", "hooks", "classifier", "person"]


class Budget(Record):
    """What a run may spend at most; None is no limit. `tokens` counts input and output, `cost` is US dollars."""

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


class Spent(Record):
    """What a run has spent so far; `delegated` is the part of `usage` that its subagents spent."""

    turns: int = 0
    usage: Usage = Usage()
    delegated: Usage = Usage()
    seconds: float = 0.0


class Trigger(Record):
    """What woke a run, and which message it answers."""

    kind: Literal["user", "schedule", "delegate", "graph", "webhook"] = "user"
    message_id: str = ""
    name: str = ""


class Parent(Record):
    """The run, turn and call that a subagent works for."""

    session_id: str = ""
    run_id: str = ""
    turn_id: str = ""
    tool_call_id: str = ""


class Failure(Record):
    """Why something failed: a short kind for programs, a sentence for people, and the way out where there is one."""

    kind: str = ""
    message: str = ""
    hint: str = ""


class LayerAnswer(Record):
    """What one layer of the gate said, and why. `safety` marks an ask that no allow rule lifts."""

    layer: Layer = "mode"
    verdict: Verdict | Literal["none"] = "none"
    reason: str = ""
    rule: str | None = None
    safety: bool = False


class Decision(Record):
    """What the gate decided about one call, which layer decided, and what every layer answered."""

    verdict: Verdict = "ask"
    layer: Layer = "mode"
    reason: str = ""
    rule: str | None = None
    answers: tuple[LayerAnswer, ...] = ()


class Question(Record):
    """What an MCP server wants of a person before it goes on with a call.

    The answer is an object that fits `answer_schema`; with a `url` there is none: the person goes there. `way` says how
    the server hears of it: the call waits and lives (`held`), it is made once more with the answers, `request_id` and
    `request_state` being the server's own words (`resend`), or it is made anew after the visit (`again`). `round`
    counts the times that the call asked, from 1.
    """

    server: str = ""
    message: str = ""
    answer_schema: JsonObject | None = None
    url: str | None = None
    way: Literal["held", "resend", "again"] = "held"
    round: int = 1
    request_id: str = ""
    request_state: str | None = None

    @property
    def blanks(self) -> tuple[tuple[str, JsonObject, bool], ...]:
        """What is to be filled in: a name, the schema of its value, and whether it must be."""
        schema = self.answer_schema or {}
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            return ()
        must = {one for one in required if isinstance(one, str)} if isinstance(required, list) else set()
        return tuple(
            (name, about if isinstance(about, dict) else {}, name in must) for name, about in properties.items()
        )


class Approval(Record):
    """An `ask` that waits for a person. `base` is the blob that `diff` was made from; times are RFC 3339.

    With a `question` the call itself was allowed already; what waits is the answer to its server.
    """

    id: str = ""
    run_id: str = ""
    turn_id: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    arguments: JsonObject = Field(default_factory=dict)
    policy: Decision = Decision()
    diff: str | None = None
    base: str | None = None
    question: Question | None = None
    requested_at: str = ""
    expires_at: str | None = None


class Todo(Record):
    """One thing to do."""

    id: str = ""
    text: str = ""
    status: Literal["open", "active", "done", "dropped"] = "open"


class Conclusion(Record):
    """Something established; a retracted one stays visible with the reason."""

    id: str = ""
    text: str = ""
    retracted: bool = False
    reason: str = ""


class ArtifactRef(Record):
    """A produced file. `content_ref` is its path below the home, `sha256` its content's hash."""

    id: str = ""
    type: str = "file"
    title: str = ""
    status: Literal["draft", "ready", "failed"] = "ready"
    owner_run_id: str = ""
    created_by_tool_call_id: str = ""
    content_ref: str = ""
    media_type: str = "application/octet-stream"
    size: int = 0
    sha256: str = ""


class ApprovalBelow(Record):
    """An approval that was asked for in the session of a subagent, however deep, and is decided there."""

    agent_id: str = ""
    session_id: str = ""
    approval: Approval = Approval()


class SubagentRef(Record):
    """A delegate: whom it works for, where its own session is, how it stands.

    `waiting` are the approvals that keep it, or its own subagents, from going on. `usage` is all that its session
    spent, its own subagents included; `result_ref` is its journal, a path below the home.
    """

    id: str = ""
    parent_run_id: str = ""
    parent_turn_id: str = ""
    parent_tool_call_id: str = ""
    agent_id: str = ""
    session_id: str = ""
    title: str = ""
    status: Literal["running", "waiting", "completed", "failed", "stopped"] = "running"
    waiting: tuple[ApprovalBelow, ...] = ()
    started_at: str = ""
    completed_at: str | None = None
    result_ref: str | None = None
    error: Failure | None = None
    usage: Usage = Usage()


class ProblemNote(Record):
    """Something odd that changes what the agent is or can do, as a screen shows it."""

    path: str = ""
    line: int = 0
    code: str = ""
    severity: Literal["notice", "warning", "error"] = "warning"
    message: str = ""
    fix: str = ""
