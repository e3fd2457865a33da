"""How the calls of a turn, and what was asked about them, follow from the events.

Results of calls that finish out of order wait in `active_run.calls` until those before them are in `messages`.
"""

from collections.abc import Callable
from typing import Any

from harnessd.facts.event import (
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallClassified,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
)
from harnessd.facts.message import TextPart, ToolCall, ToolMessage, Usage, lowest_origin
from harnessd.facts.run import Question
from harnessd.facts.state import ActiveRun, Answer, Classified, OpenCall, QuestionAnswer, State

ACTIONS_REMEMBERED = 12
CLASSIFIED_REMEMBERED = 100

Changes = dict[str, Any]


def close_calls(state: State) -> Changes:
    """Gives each call of the turn that has no result yet a result that says so, in order.

    The runtime always records a result before it goes on. Only a journal that lost a record gets here.
    """
    run = state.active_run
    if run is None or all(entry.result is not None for entry in run.calls):
        return {}
    already = len(_leading_results(run.calls))
    results = [entry.result or unanswered(entry.call) for entry in run.calls[already:]]
    closed = {entry.call.id for entry in run.calls}
    status = "running" if run.status == "waiting_approval" else run.status
    return {
        "messages": state.messages.append(*results),
        "active_run": run.model_copy(update={"calls": (), "status": status}),
        "pending_approvals": tuple(a for a in state.pending_approvals if a.tool_call_id not in closed),
    }


def unanswered(call: ToolCall) -> ToolMessage:
    """The result of a call whose own is lost."""
    text = "No result of this call is on record. It may or may not have taken effect; check before repeating it."
    return ToolMessage(
        id=f"msg_{call.id.removeprefix('call_')}",
        tool_call_id=call.id,
        tool_name=call.name,
        status="outcome_unknown",
        parts=(TextPart(text=text),),
    )


def _call_created(state: State, event: ToolCallCreated) -> Changes:
    run = state.active_run
    if run is None:
        return {}
    changes = _on_call(
        state,
        event.tool_call_id,
        created=True,
        arguments=event.arguments,
        effect=event.effect,
        idempotent=event.idempotent,
        concurrency_safe=event.concurrency_safe,
        idempotency_key=event.idempotency_key,
    )
    if changes and event.action_hash:
        run = changes["active_run"]
        actions = (*run.actions, event.action_hash)[-ACTIONS_REMEMBERED:]
        changes["active_run"] = run.model_copy(update={"actions": actions})
    changes["usage"] = state.usage.model_copy(update={"tool_calls": state.usage.tool_calls + 1})
    return changes


def _call_classified(state: State, event: ToolCallClassified) -> Changes:
    """It cost something, and the run need not ask the same again; a classifier that failed is asked anew."""
    usage = state.usage.model_copy(update={"total": state.usage.total + event.usage})
    changes = spent_beside_turns(state.active_run, event.usage)
    run = changes.get("active_run")
    if run is not None and not event.answer.safety:
        known = (*run.classified, Classified(key=event.key, answer=event.answer))[-CLASSIFIED_REMEMBERED:]
        changes["active_run"] = run.model_copy(update={"classified": known})
    return changes | {"usage": usage}


def _approval_required(state: State, event: ToolApprovalRequired) -> Changes:
    approval = event.approval
    update: Changes = {"status": "waiting_approval"}
    if approval.question is None:
        update |= {"decision": approval.policy, "answer": None}
    elif approval.question.way == "held":
        update = {}  # the call is still under way
    changes = _on_call(state, approval.tool_call_id, **update)
    changes["pending_approvals"] = (*state.pending_approvals, approval)
    run = changes.get("active_run", state.active_run)
    if run is not None and run.status == "running":
        changes["active_run"] = run.model_copy(update={"status": "waiting_approval"})
    return changes


def _approval_resolved(state: State, event: ToolApprovalResolved) -> Changes:
    asked = next((approval for approval in state.pending_approvals if approval.id == event.approval_id), None)
    if asked is not None and asked.question is not None:
        changes = _question_answered(state, event, asked.question)
    elif asked is None and _under_way(state, event.tool_call_id):
        changes = {}  # what was asked is lost; a call that is under way must not begin anew
    else:
        answer = Answer(
            approval_id=event.approval_id,
            outcome=event.outcome,
            by=event.by,
            note=event.note,
            base=asked.base if asked else None,
        )
        update: Changes = {"status": "pending", "answer": answer}
        if event.outcome == "allowed" and event.arguments is not None:
            update["arguments"] = event.arguments
        changes = _on_call(state, event.tool_call_id, **update)
    rule = event.rule if event.outcome == "allowed" and event.scope == "session" else None
    if rule is not None and rule not in state.toolkit.allowed:
        changes["toolkit"] = state.toolkit.model_copy(update={"allowed": (*state.toolkit.allowed, rule)})
    pending = tuple(approval for approval in state.pending_approvals if approval.id != event.approval_id)
    changes["pending_approvals"] = pending
    run = changes.get("active_run", state.active_run)
    if run is not None and run.status == "waiting_approval" and not pending:
        changes["active_run"] = run.model_copy(update={"status": "running"})
    return changes


def _under_way(state: State, call_id: str) -> bool:
    calls = state.active_run.calls if state.active_run else ()
    return any(entry.call.id == call_id and entry.status == "running" for entry in calls)


def _question_answered(state: State, event: ToolApprovalResolved, question: Question) -> Changes:
    """The call goes on once none of its questions is open; one that is held has been under way all the time."""
    answer = QuestionAnswer(
        approval_id=event.approval_id,
        question=question,
        outcome=event.outcome,
        arguments=event.arguments if event.outcome == "allowed" else None,
        note=event.note,
    )
    call_id, run = event.tool_call_id, state.active_run
    call = next((entry for entry in run.calls if entry.call.id == call_id), None) if run else None
    if call is None:
        return {}
    update: Changes = {"answers": (*call.answers, answer)}
    others = any(one.tool_call_id == call_id and one.id != event.approval_id for one in state.pending_approvals)
    if call.status == "waiting_approval" and not others:
        update["status"] = "pending"
    return _on_call(state, call_id, **update)


def _call_running(state: State, event: ToolCallRunning) -> Changes:
    marked = {} if event.effect is None else {"effect": event.effect}
    return _on_call(state, event.tool_call_id, status="running", decision=event.decision, started_at=event.at, **marked)


def _call_completed(state: State, event: ToolCallCompleted) -> Changes:
    run = state.active_run
    if run is None:
        return {}
    result = ToolMessage(
        id=f"msg_{event.tool_call_id.removeprefix('call_')}",
        tool_call_id=event.tool_call_id,
        tool_name=event.tool_name,
        status=event.status,
        parts=event.parts,
        origin=event.origin,
    )
    decided = {} if event.decision is None else {"decision": event.decision}
    calls = _with_open(run.calls, event.tool_call_id, {"status": "finished", "result": result, **decided})
    if calls is run.calls:
        return {}
    invalid = run.invalid_in_a_row + 1 if event.status == "invalid" else 0
    pending = tuple(a for a in state.pending_approvals if a.tool_call_id != event.tool_call_id)
    updated = run.model_copy(
        update={
            "calls": calls,
            "invalid_in_a_row": invalid,
            "changed_in_turn": run.changed_in_turn or event.changed,
        }
    )
    if len(pending) != len(state.pending_approvals) and not pending and run.status == "waiting_approval":
        # Only a journal that lost the decision gets here; nothing else would let the run go on.
        updated = updated.model_copy(update={"status": "running"})
    changes: Changes = {
        "active_run": updated,
        "messages": state.messages.append(*_newly_in_order(run.calls, updated.calls)),
        "context_origin": lowest_origin(state.context_origin, event.origin),
    }
    if len(pending) != len(state.pending_approvals):
        changes["pending_approvals"] = pending
    return changes


def _on_call(state: State, call_id: str, **update: Any) -> Changes:
    """The open call `call_id` with `update`; nothing if there is none or it is finished."""
    run = state.active_run
    if run is None:
        return {}
    return {"active_run": run.model_copy(update={"calls": _with_open(run.calls, call_id, update)})}


def _with_open(calls: tuple[OpenCall, ...], call_id: str, update: Changes) -> tuple[OpenCall, ...]:
    """The calls with `update` in the one of that id; the very same if there is none or it is finished."""
    meant = [at for at, entry in enumerate(calls) if entry.call.id == call_id and entry.status != "finished"]
    if not meant:
        return calls
    changed = list(calls)
    for at in meant:
        changed[at] = calls[at].model_copy(update=update)
    return tuple(changed)


def _newly_in_order(before: tuple[OpenCall, ...], after: tuple[OpenCall, ...]) -> list[ToolMessage]:
    """The results that now follow one another without a gap and did not before."""
    first_open = next((at for at, entry in enumerate(before) if entry.result is None), len(before))
    return _leading_results(after[first_open:])


def _leading_results(calls: tuple[OpenCall, ...]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for entry in calls:
        if entry.result is None:
            break
        results.append(entry.result)
    return results


def spent_beside_turns(run: ActiveRun | None, usage: Usage) -> Changes:
    """What the run spent on its context or a classifier: it counts against its budget like the turns do."""
    if run is None:
        return {}
    spent = run.spent.model_copy(update={"usage": run.spent.usage + usage})
    return {"active_run": run.model_copy(update={"spent": spent})}


CALL_FOLDS: dict[str, Callable[[State, Any], Changes]] = {
    "tool.call.created": _call_created,
    "tool.call.classified": _call_classified,
    "tool.approval_required": _approval_required,
    "tool.approval_resolved": _approval_resolved,
    "tool.call.running": _call_running,
    "tool.call.completed": _call_completed,
}
"""By the type of the event, what it changes."""
