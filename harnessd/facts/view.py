"""What a screen needs, from state alone: every client draws from this and guesses nothing."""

from typing import Literal

from harnessd.facts.base import Record
from harnessd.facts.message import AssistantMessage, CallStatus, Part, Usage
from harnessd.facts.run import Approval, ApprovalBelow, Layer, ProblemNote, SubagentRef, Todo, Verdict
from harnessd.facts.state import OpenCall, State

PROJECTED_MESSAGES = 50


class ToolBadge(Record):
    """A call of the present turn as it stands, with the layer that decided about it."""

    tool_call_id: str = ""
    tool_name: str = ""
    status: Literal["pending", "waiting_approval", "running"] | CallStatus = "pending"
    verdict: Verdict | None = None
    layer: Layer | None = None


class ApprovalBanner(Record):
    """The approvals that wait for a person, oldest first; `below` are those of subagents, decided in their sessions."""

    count: int = 0
    approvals: tuple[Approval, ...] = ()
    below: tuple[ApprovalBelow, ...] = ()


class SubagentGroup(Record):
    """The delegates of one turn."""

    parent_turn_id: str = ""
    subagents: tuple[SubagentRef, ...] = ()


class ProjectedCall(Record):
    """A tool call inside a message, with the status of its result."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    status: Literal["pending", "waiting_approval", "running"] | CallStatus = "pending"
    parts: tuple[Part, ...] = ()


class ProjectedMessage(Record):
    """A message as it is shown: results stand inside the call that they answer."""

    id: str = ""
    role: Literal["user", "assistant"] = "user"
    kind: Literal["input", "note", "summary", "answer"] = "input"
    parts: tuple[Part, ...] = ()
    reasoning: str = ""
    calls: tuple[ProjectedCall, ...] = ()


class MessageProjection(Record):
    """The last messages of the context; `omitted` older ones are served in pages."""

    messages: tuple[ProjectedMessage, ...] = ()
    omitted: int = 0
    queued: tuple[ProjectedMessage, ...] = ()


class Meter(Record):
    """How much of something is used; `share` is between 0 and 1, None when the limit is not known."""

    used: float = 0.0
    limit: float | None = None
    share: float | None = None


class CostMeter(Record):
    """What the session has spent, and the present run of its budget."""

    total: Usage = Usage()
    run: Usage | None = None
    budget: Meter = Meter()


class View(Record):
    """Everything a screen shows of one session."""

    session_id: str = ""
    agent_id: str = ""
    title: str = ""
    seq: int = 0
    run_id: str | None = None
    run_status: Literal["idle", "running", "waiting_approval", "stopping", "parked"] = "idle"
    is_busy: bool = False
    can_stop: bool = False
    waiting_for_first_token: bool = False
    approval_banner: ApprovalBanner = ApprovalBanner()
    tool_badges: tuple[ToolBadge, ...] = ()
    subagent_groups: tuple[SubagentGroup, ...] = ()
    message_projection: MessageProjection = MessageProjection()
    todo_list: tuple[Todo, ...] = ()
    context_meter: Meter = Meter()
    cost_meter: CostMeter = CostMeter()
    problems: tuple[ProblemNote, ...] = ()


def view(state: State) -> View:
    """What a screen shows of `state`. Pure: equal states give equal views."""
    run = state.active_run
    parked = next((entry for entry in state.queue[:1] if entry.parked and not entry.stopped), None) if not run else None
    below = tuple(waits for ref in state.subagents if ref.status == "waiting" for waits in ref.waiting)
    return View(
        session_id=state.session_id,
        agent_id=state.agent_id,
        title=state.title,
        seq=state.seq,
        run_id=run.run_id if run else parked.run_id if parked else None,
        run_status=run.status if run else "parked" if parked else "idle",
        is_busy=run is not None and run.status in {"running", "stopping"},
        can_stop=run.status != "stopping" if run else parked is not None,
        waiting_for_first_token=run is not None
        and run.status == "running"
        and run.turn_id is not None
        and not run.answered,
        approval_banner=ApprovalBanner(
            count=len(state.pending_approvals) + len(below), approvals=state.pending_approvals, below=below
        ),
        tool_badges=tuple(_badge(entry) for entry in run.calls) if run else (),
        subagent_groups=_groups(state.subagents),
        message_projection=_projection(state),
        todo_list=state.todos,
        context_meter=_meter(state.usage.context_tokens, state.usage.context_window),
        cost_meter=CostMeter(
            total=state.usage.total,
            run=run.spent.usage if run else None,
            budget=_meter(run.spent.usage.cost or 0.0, run.budget.cost) if run else Meter(),
        ),
        problems=state.problems,
    )


def _badge(entry: OpenCall) -> ToolBadge:
    return ToolBadge(
        tool_call_id=entry.call.id,
        tool_name=entry.call.name,
        status=_status(entry),
        verdict=entry.decision.verdict if entry.decision else None,
        layer=entry.decision.layer if entry.decision else None,
    )


def _status(entry: OpenCall) -> Literal["pending", "waiting_approval", "running"] | CallStatus:
    if entry.status == "finished":
        return entry.result.status if entry.result else "outcome_unknown"
    return entry.status


def _groups(subagents: tuple[SubagentRef, ...]) -> tuple[SubagentGroup, ...]:
    groups: dict[str, list[SubagentRef]] = {}
    for ref in subagents:
        groups.setdefault(ref.parent_turn_id, []).append(ref)
    return tuple(SubagentGroup(parent_turn_id=turn, subagents=tuple(refs)) for turn, refs in groups.items())


def _projection(state: State) -> MessageProjection:
    """The last messages, beginning with one that is no tool result."""
    messages = state.messages
    start = max(0, len(messages) - PROJECTED_MESSAGES)
    while start > 0 and messages[start].role == "tool":
        start -= 1
    open_calls = {entry.call.id: entry for entry in state.active_run.calls} if state.active_run else {}
    results = {message.tool_call_id: message for message in messages[start:] if message.role == "tool"}
    shown: list[ProjectedMessage] = []
    for message in messages[start:]:
        if message.role == "user":
            shown.append(ProjectedMessage(id=message.id, kind=message.kind, parts=message.parts))
        elif message.role == "assistant":
            calls: list[ProjectedCall] = []
            for call in message.tool_calls:
                result = results.get(call.id)
                entry = open_calls.get(call.id)
                calls.append(
                    ProjectedCall(
                        id=call.id,
                        name=call.name,
                        arguments=call.arguments,
                        status=result.status if result else _status(entry) if entry else "pending",
                        parts=result.parts if result else (),
                    )
                )
            shown.append(_answer(message, tuple(calls)))
    queued = tuple(
        ProjectedMessage(id=entry.message.id, kind=entry.message.kind, parts=entry.message.parts)
        for entry in state.queue
    )
    return MessageProjection(messages=tuple(shown), omitted=start, queued=queued)


def _answer(message: AssistantMessage, calls: tuple[ProjectedCall, ...]) -> ProjectedMessage:
    return ProjectedMessage(
        id=message.id,
        role="assistant",
        kind="answer",
        parts=message.parts,
        reasoning=message.reasoning,
        calls=calls,
    )


def _meter(used: float, limit: float | None) -> Meter:
    return Meter(used=used, limit=limit, share=min(1.0, used / limit) if limit else None)
