"""How what is true follows from the events: `fold(state, event)`.

`fold` is pure and its cost does not depend on the length of the session. It also keeps one promise that no
journal can break, however it was cut, damaged or interleaved: in `messages` every tool call has exactly one
result, right behind the message that asked for it and in the order of the calls (guarantee F4); see `fold_calls`.
"""

from collections.abc import Callable
from typing import Any, get_args

from pydantic import ValidationError

from harnessd.facts.event import (
    ArtifactCreated,
    ArtifactUpdated,
    CheckpointWritten,
    ConclusionAdded,
    ConclusionRetracted,
    ContextCompacted,
    ContextCompactionFailed,
    ContextTruncated,
    Event,
    HomeChanged,
    HomeProblem,
    McpConnected,
    McpFailed,
    MemoryConsolidated,
    MessageCreated,
    MessageQueued,
    RunFinished,
    RunParked,
    RunResumed,
    RunStarted,
    RunStopRequested,
    SessionCreated,
    StateUpdated,
    SubagentFinished,
    SubagentStarted,
    SubagentWaiting,
    TodoUpdated,
    TurnFinished,
    TurnRetried,
    TurnStarted,
    UnknownEvent,
)
from harnessd.facts.fold_calls import CALL_FOLDS, Changes, close_calls, spent_beside_turns, unanswered
from harnessd.facts.log import Log
from harnessd.facts.message import (
    Message,
    ToolMessage,
    Usage,
    UserMessage,
    lowest_origin,
)
from harnessd.facts.run import (
    Mode,
    Spent,
    Todo,
)
from harnessd.facts.state import (
    ActiveRun,
    CheckpointMark,
    LastRun,
    OpenCall,
    Queued,
    State,
)

PROBLEMS_REMEMBERED = 50
HEADROOM = 0.5
"""Below this share of the window the context has room again, and summaries are tried again."""


def fold(state: State, event: Event) -> State:
    """What is true after `event`. Pure; an event of an unknown type changes nothing but `seq`."""
    step = _FOLDS.get(event.type)
    changes: dict[str, Any] = step(state, event) if step and not isinstance(event, UnknownEvent) else {}
    changes["seq"] = event.seq
    if not state.session_id and "session_id" not in changes:
        # The first record is lost. Every other says as well whose session it is.
        changes |= {"session_id": event.session_id, "agent_id": event.agent_id}
    return state.model_copy(update=changes)


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` changed by a JSON merge patch (RFC 7396): null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _session_created(state: State, event: SessionCreated) -> Changes:
    return {
        "session_id": event.session_id,
        "agent_id": event.agent_id,
        "user_id": event.user_id,
        "title": event.title,
        "parent": event.parent,
        "model": event.model,
    }


def _state_updated(state: State, event: StateUpdated) -> Changes:
    changes: Changes = {}
    patch = event.patch
    if "title" in patch:
        changes["title"] = str(patch["title"] or "")
    if "workspaceContext" in patch:
        changes["workspace_context"] = merge_patch(state.workspace_context, patch["workspaceContext"] or {})
    if patch.get("mode", "") in (None, *get_args(Mode)):
        changes["mode"] = patch["mode"]
    if isinstance(patch.get("todos"), list):
        changes["todos"] = tuple(todo for todo in map(_todo, patch["todos"]) if todo is not None)
    if isinstance(patch.get("toolkit"), dict):
        # What was found stays found, in the order in which it was: two calls of one turn may each find something.
        found = dict.fromkeys((*state.toolkit.found, *map(str, patch["toolkit"].get("found", []))))
        changes["toolkit"] = state.toolkit.model_copy(update={"found": tuple(found)})
    return changes


def _todo(value: Any) -> Todo | None:
    """A todo as a client wrote it; None if a later version's shape is not ours."""
    try:
        return Todo.model_validate(value)
    except ValidationError:
        return None


def _message_queued(state: State, event: MessageQueued) -> Changes:
    queued = Queued(
        run_id=event.run_id,
        message=event.message,
        when=event.when,
        trigger=event.trigger,
        workspace_context=event.workspace_context,
    )
    return {"queue": (*state.queue, queued)}


def _checkpoint_written(state: State, event: CheckpointWritten) -> Changes:
    return {"checkpoint": CheckpointMark(seq=event.at_seq, at=event.at)}


def _run_started(state: State, event: RunStarted) -> Changes:
    entry = next((one for one in state.queue if one.message.id == event.trigger.message_id), None)
    run = ActiveRun(
        run_id=event.run_id or "",
        status="stopping" if entry is not None and entry.stopped else "running",
        started_at=event.at,
        trigger=event.trigger,
        budget=event.budget,
        pin=event.pin,
        model=event.model,
        mode=event.mode,
        parent=event.parent,
    )
    usage = state.usage.model_copy(update={"runs": state.usage.runs + 1})
    changes = {"active_run": run, "usage": usage, "problems": (), "pending_approvals": ()}
    # The parent is named twice, so that a damaged first record does not make a subagent's session one of its own.
    return close_calls(state) | changes | {"parent": state.parent or event.parent}


def _run_resumed(state: State, event: RunResumed) -> Changes:
    """It goes on, and so do the subagents that it waited for; what still waits will say so again."""
    run = state.active_run
    if run is None:
        return {"queue": _first_parked(state, parked=False)}
    if run.status == "stopping":
        return {}
    changes = _on_run(state, status="waiting_approval" if state.pending_approvals else "running")
    if any(ref.status == "waiting" for ref in state.subagents):
        changes["subagents"] = tuple(
            ref.model_copy(update={"status": "running", "waiting": ()}) if ref.status == "waiting" else ref
            for ref in state.subagents
        )
    return changes


def _run_parked(state: State, event: RunParked) -> Changes:
    if state.active_run is None:
        return {"queue": _first_parked(state, parked=True, run_id=event.run_id)}
    return _on_run(state, status="parked") if state.active_run.status != "stopping" else {}


def _first_parked(state: State, *, parked: bool, run_id: str | None = None) -> tuple[Queued, ...]:
    """The queue, with its first message kept from beginning a run, or free to."""
    if not state.queue or state.queue[0].parked is parked:
        return state.queue
    first = state.queue[0]
    return (first.model_copy(update={"parked": parked, "run_id": first.run_id or run_id}), *state.queue[1:])


def _run_stop_requested(state: State, event: RunStopRequested) -> Changes:
    """A run that has not begun is that of the first message, which enters all the same: the run begins and ends."""
    run, queue = state.active_run, state.queue
    changes = _on_run(state, status="stopping")
    if run is None and event.run_id and queue:
        queue = (queue[0].model_copy(update={"stopped": True}), *queue[1:])
    if run is None and event.scope == "session" and event.by == "parent":
        queue = ()  # not even one that was stopped begins: nobody is left to work on it
    elif event.scope == "session":
        trigger = run.trigger.message_id if run is not None else ""
        queue = tuple(entry for entry in queue if entry.stopped or entry.message.id == trigger)
    changes["queue"] = queue
    return changes


def _run_finished(state: State, event: RunFinished) -> Changes:
    last = LastRun(run_id=event.run_id or "", reason=event.reason, detail=event.detail, failure=event.failure)
    return close_calls(state) | {"active_run": None, "last_run": last, "pending_approvals": ()}


def _turn_started(state: State, event: TurnStarted) -> Changes:
    changes = close_calls(state)
    run = changes.get("active_run", state.active_run)
    if run is None:
        return changes
    changes["active_run"] = run.model_copy(
        update={
            "turn_id": event.turn_id,
            "turn_number": event.number,
            "turn_open": True,
            "turn_usage": Usage(),
            "answered": False,
            "answered_by": "",
            "calls": (),
            "changed_in_turn": False,
        }
    )
    if event.context_window is not None:
        changes["usage"] = state.usage.model_copy(update={"context_window": event.context_window})
    return changes


def _turn_retried(state: State, event: TurnRetried) -> Changes:
    run = state.active_run
    return _on_run(state, turn_usage=run.turn_usage + event.usage) if run else {}


def _turn_finished(state: State, event: TurnFinished) -> Changes:
    totals = state.usage.model_copy(
        update={
            "total": state.usage.total + event.usage,
            "turns": state.usage.turns + 1,
            "context_tokens": event.usage.input_tokens + event.usage.output_tokens or state.usage.context_tokens,
        }
    )
    if totals.compaction_failures and totals.context_tokens < (totals.context_window or 0) * HEADROOM:
        totals = totals.model_copy(update={"compaction_failures": 0})
    changes: Changes = {"usage": totals}
    run = state.active_run
    if run is not None:
        spent = Spent(
            turns=run.spent.turns + 1,
            usage=run.spent.usage + event.usage,
            delegated=run.spent.delegated,
            seconds=run.spent.seconds + event.duration_ms / 1000,
        )
        changes["active_run"] = run.model_copy(
            update={
                "spent": spent,
                "turn_open": False,
                "turns_without_change": 0 if run.changed_in_turn else run.turns_without_change + 1,
            }
        )
    return changes


def _message_created(state: State, event: MessageCreated) -> Changes:
    message = event.message
    changes = close_calls(state)
    messages: Log[Message] = changes.get("messages", state.messages)
    if isinstance(message, ToolMessage):
        return changes
    changes["messages"] = messages.append(message)
    if isinstance(message, UserMessage):
        changes["context_origin"] = lowest_origin(state.context_origin, message.origin)
        queued = next((entry for entry in state.queue if entry.message.id == message.id), None)
        if queued is not None:
            changes["queue"] = tuple(entry for entry in state.queue if entry is not queued)
            if queued.workspace_context:
                changes["workspace_context"] = merge_patch(state.workspace_context, queued.workspace_context)
        return changes
    run = changes.get("active_run", state.active_run)
    if run is None:
        # A damaged journal may have lost the run's beginning; the calls still get their results.
        if message.tool_calls:
            results = (unanswered(call) for call in message.tool_calls)
            changes["messages"] = changes["messages"].append(*results)
        return changes
    changes["active_run"] = run.model_copy(
        update={
            "answered": True,
            "answered_by": message.model,
            "calls": tuple(OpenCall(call=call) for call in message.tool_calls),
            "turn_usage": run.turn_usage + (event.usage or Usage()),
        }
    )
    return changes


def _todo_updated(state: State, event: TodoUpdated) -> Changes:
    return {"todos": event.todos}


def _conclusion_added(state: State, event: ConclusionAdded) -> Changes:
    return {"conclusions": (*state.conclusions, event.conclusion)}


def _conclusion_retracted(state: State, event: ConclusionRetracted) -> Changes:
    return {
        "conclusions": tuple(
            one.model_copy(update={"retracted": True, "reason": event.reason}) if one.id == event.conclusion_id else one
            for one in state.conclusions
        )
    }


def _artifact(state: State, event: ArtifactCreated | ArtifactUpdated) -> Changes:
    others = tuple(ref for ref in state.artifact_refs if ref.id != event.artifact.id)
    return {"artifact_refs": (*others, event.artifact)}


def _subagent_started(state: State, event: SubagentStarted) -> Changes:
    others = tuple(ref for ref in state.subagents if ref.id != event.subagent.id)
    return {"subagents": (*others, event.subagent)}


def _subagent_waiting(state: State, event: SubagentWaiting) -> Changes:
    """The run waits with it. Other calls of the turn may still be at work, as with an approval of its own."""
    others = tuple(ref for ref in state.subagents if ref.id != event.subagent.id)
    changes: Changes = {"subagents": (*others, event.subagent)}
    run = state.active_run
    if run is not None and run.status == "running":
        changes["active_run"] = run.model_copy(update={"status": "waiting_approval"})
    return changes


def _subagent_finished(state: State, event: SubagentFinished) -> Changes:
    """What a subagent spent is spent by the run that it works for; it is counted at its first end."""
    ref = event.subagent
    known = next((one for one in state.subagents if one.id == ref.id), None)
    changes: Changes = {"subagents": (*(one for one in state.subagents if one.id != ref.id), ref)}
    if known is not None and known.status not in {"running", "waiting"}:
        return changes
    changes["usage"] = state.usage.model_copy(update={"total": state.usage.total + ref.usage})
    run = state.active_run
    if run is not None and run.run_id == ref.parent_run_id:
        spent = {"usage": run.spent.usage + ref.usage, "delegated": run.spent.delegated + ref.usage}
        changes["active_run"] = run.model_copy(update={"spent": run.spent.model_copy(update=spent)})
    return changes


def _context_compacted(state: State, event: ContextCompacted) -> Changes:
    changes = close_calls(state)
    kept = _from_message(changes.get("messages", state.messages), event.keep_from)
    totals = state.usage.model_copy(
        update={
            "total": state.usage.total + event.usage,
            "context_tokens": event.tokens_after,
            "compaction_failures": 0,
        }
    )
    changes |= {"messages": Log([event.summary, *kept]), "usage": totals}
    return changes | spent_beside_turns(changes.get("active_run", state.active_run), event.usage)


def _compaction_failed(state: State, event: ContextCompactionFailed) -> Changes:
    totals = state.usage.model_copy(
        update={"total": state.usage.total + event.usage, "compaction_failures": event.failures}
    )
    return {"usage": totals, **spent_beside_turns(state.active_run, event.usage)}


def _context_truncated(state: State, event: ContextTruncated) -> Changes:
    changes = close_calls(state)
    messages = changes.get("messages", state.messages)
    kept = _from_message(messages, event.keep_from)
    # A guess until the next turn measures it; without it a model that fails would have ever more cut away.
    tokens = state.usage.context_tokens * len(kept) // max(1, len(messages))
    usage = state.usage.model_copy(update={"context_tokens": tokens})
    return changes | {"messages": Log(kept), "usage": usage}


def _home_changed(state: State, event: HomeChanged) -> Changes:
    run = state.active_run
    if run is None:
        return {}
    budget, mode = event.budget or run.budget, event.mode or run.mode
    return _on_run(state, pin=event.pin, budget=budget, mode=mode) | {"problems": ()}


def _home_problem(state: State, event: HomeProblem) -> Changes:
    return {"problems": (*state.problems, event.problem)[-PROBLEMS_REMEMBERED:]}


def _memory_consolidated(state: State, event: MemoryConsolidated) -> Changes:
    totals = {"total": state.usage.total + event.usage, "turns_at_consolidation": state.usage.turns}
    return {"usage": state.usage.model_copy(update=totals)}


def _server(state: State, event: McpConnected | McpFailed) -> Changes:
    status = "connected" if isinstance(event, McpConnected) else "failed"
    servers = state.toolkit.servers | {event.server: status}
    return {"toolkit": state.toolkit.model_copy(update={"servers": servers})}


def _on_run(state: State, **update: Any) -> Changes:
    return {"active_run": state.active_run.model_copy(update=update)} if state.active_run else {}


def _from_message(messages: Log[Message], message_id: str) -> list[Message]:
    """The messages from `message_id` on, never beginning with a result whose call was cut off.

    None if it is empty; all if the journal lost that message, since too much can be cut again and too little not.
    """
    if not message_id:
        return []
    start = next((at for at, message in enumerate(messages) if message.id == message_id), 0)
    while start < len(messages) and isinstance(messages[start], ToolMessage):
        start += 1
    return messages[start:]


_FOLDS: dict[str, Callable[[State, Any], Changes]] = {
    "session.created": _session_created,
    "state.updated": _state_updated,
    "message.queued": _message_queued,
    "checkpoint.written": _checkpoint_written,
    "run.started": _run_started,
    "run.resumed": _run_resumed,
    "run.parked": _run_parked,
    "run.stop_requested": _run_stop_requested,
    "run.finished": _run_finished,
    "turn.started": _turn_started,
    "turn.retried": _turn_retried,
    "turn.finished": _turn_finished,
    "message.created": _message_created,
    **CALL_FOLDS,
    "artifact.created": _artifact,
    "artifact.updated": _artifact,
    "subagent.started": _subagent_started,
    "subagent.waiting": _subagent_waiting,
    "subagent.finished": _subagent_finished,
    "todo.updated": _todo_updated,
    "conclusion.added": _conclusion_added,
    "conclusion.retracted": _conclusion_retracted,
    "context.compacted": _context_compacted,
    "context.compaction_failed": _compaction_failed,
    "context.truncated": _context_truncated,
    "home.changed": _home_changed,
    "home.problem": _home_problem,
    "memory.consolidated": _memory_consolidated,
    "mcp.connected": _server,
    "mcp.failed": _server,
}
