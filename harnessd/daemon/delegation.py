"""How a subagent works for a run: a session of its own, waited for, stopped with it, gone on with after a crash.

The session's id follows from the tool call's, so that a call which is run again finds what it began. Who closes
this process leaves the subagent's run as an interrupted one; who stops the parent's run stops it.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import anyio

from harnessd.daemon.session import Session
from harnessd.errors import HarnessdError, StorageError
from harnessd.facts.event import SubagentFinished, SubagentStarted
from harnessd.facts.message import AssistantMessage, Message, TextPart, UserMessage, lowest_origin, text_of
from harnessd.facts.run import Budget, Failure, Parent, SubagentRef, Trigger
from harnessd.facts.state import LastRun, State
from harnessd.home.subagents import Subagent
from harnessd.hooks.context import RunContext
from harnessd.ids import check_id, new_id
from harnessd.loop.budget import share
from harnessd.tools.delegate import DELEGATE
from harnessd.tools.tool import Outcome, ToolContext, failed
from harnessd.tools.unrun import stopped

TITLE_LENGTH = 80
INTERRUPTED = LastRun(
    reason="failed", failure=Failure(kind="interrupted", message="its session was closed while it worked")
)
STOPPED = LastRun(reason="stopped", detail="the run that it worked for ended")


@dataclass(frozen=True)
class Task:
    """What a subagent is to do for the run `above`; `parent` is the call that asked for it."""

    above: RunContext
    parent: Parent
    subagent: Subagent
    session_id: str
    title: str
    allowance: Budget

    def bind(self, context: RunContext) -> None:
        """Makes `context` that of a run below `above`."""
        context.above = self.above
        context.parent = self.parent
        context.line = (*self.above.line, self.subagent)
        context.allowance = self.allowance


@dataclass(frozen=True)
class Delegation:
    """Wakes subagents. `open` opens the session of a task, `close` lets it go."""

    open: Callable[[Task], Awaitable[Session]]
    close: Callable[[Task, Session], Awaitable[None]]

    async def wake(self, above: RunContext, call: ToolContext, subagent: Subagent, text: str) -> Outcome:
        """Has the subagent do the task, or go on with it; what it concluded, or how far it came and why it ended."""
        task = _task(above, call, subagent, text)
        ref = _ref(above, task)
        if ref is None:
            ref = _started(task)
            above.record(SubagentStarted(subagent=ref))
            # Without this on disk a crash would lose the call's id, and another call would begin the work anew.
            await above.ledger.barrier()
        try:
            with anyio.CancelScope(shield=True):  # an opened session must not get lost
                session = await self.open(task)
            try:
                if above.run.status == "stopping":
                    return stopped(under_way=False)
                state = await self._work(task, session, text, ref, call)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._let_go(task, session)
        except HarnessdError as error:
            return _broken(above, ref, error)
        _finish(above, ref, state)
        return _outcome(subagent, state)

    async def _work(self, task: Task, session: Session, text: str, ref: SubagentRef, call: ToolContext) -> State:
        """Waits until the subagent's run has ended. A cancellation that ends the parent's run ends it as well."""
        above = task.above
        above.below[task.parent.tool_call_id] = session.stop_below
        try:
            if _untouched(session.state):
                message = _message(above, text)
                trigger = Trigger(kind="delegate", message_id=message.id, name=above.state.agent_id)
                await session.begin(message, trigger)
            else:
                session.recover()
            return await session.idle()
        except anyio.get_cancelled_exc_class():
            if _over(above, call):
                with anyio.CancelScope(shield=True):
                    # A run that has not begun cannot be stopped; closing the session keeps it from beginning.
                    if await session.stop_below():
                        await session.idle()
                    _finish(above, ref, session.state, STOPPED)
            raise
        finally:
            del above.below[task.parent.tool_call_id]

    async def _let_go(self, task: Task, session: Session) -> None:
        # What did not reach the disk was told as the end of its run already.
        with contextlib.suppress(StorageError):
            await self.close(task, session)


def _task(above: RunContext, call: ToolContext, subagent: Subagent, text: str) -> Task:
    session_id = check_id(f"ses_{call.call_id.removeprefix('call_')}", "ses")
    line = " ".join(text.split())
    run = above.run
    spent = run.spent.model_copy(update={"usage": run.spent.usage + run.turn_usage})
    at_work = sum(one.call.name == DELEGATE and one.status != "finished" for one in run.calls)
    return Task(
        above=above,
        parent=Parent(session_id=call.session_id, run_id=call.run_id, turn_id=call.turn_id, tool_call_id=call.call_id),
        subagent=subagent,
        session_id=session_id,
        title=line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…",
        allowance=share(run.budget, spent, max(1, at_work), call.seconds_left()),
    )


def _ref(above: RunContext, task: Task) -> SubagentRef | None:
    """What is on record of this task, if the call was run before."""
    return next((ref for ref in above.state.subagents if ref.session_id == task.session_id), None)


def _started(task: Task) -> SubagentRef:
    journal = task.above.home.journal(task.subagent.name, task.session_id)
    return SubagentRef(
        id=f"sub_{task.session_id.removeprefix('ses_')}",
        parent_run_id=task.parent.run_id,
        parent_turn_id=task.parent.turn_id,
        parent_tool_call_id=task.parent.tool_call_id,
        agent_id=task.subagent.name,
        session_id=task.session_id,
        title=task.title,
        status="running",
        started_at=_now(),
        result_ref=str(journal.relative_to(task.above.home.path)),
    )


def _untouched(state: State) -> bool:
    return state.active_run is None and state.last_run is None and not state.queue


def _message(above: RunContext, text: str) -> UserMessage:
    """The task: the parent agent's own words, and no more trustworthy than what it has seen."""
    origin = lowest_origin("agent", above.state.context_origin)
    return UserMessage(id=new_id("msg"), parts=(TextPart(text=text),), origin=origin)


def _over(above: RunContext, call: ToolContext) -> bool:
    """Whether the parent's run ends here, by a stop or its deadline; else the process or the session closes."""
    scope, left = above.interruptible, call.seconds_left()
    cancelled = scope is not None and scope.cancel_called
    return above.run.status == "stopping" or cancelled or (left is not None and left <= 0)


def _finish(above: RunContext, ref: SubagentRef, state: State, unended: LastRun = INTERRUPTED) -> None:
    """Records how it ended, once; `unended` is said of a run that did not come to its end."""
    known = next((one for one in above.state.subagents if one.id == ref.id), ref)
    if known.status != "running":
        return
    last = state.last_run or unended
    status = {"completed": "completed", "stopped": "stopped"}.get(last.reason, "failed")
    update = {"status": status, "completed_at": _now(), "usage": state.usage.total, "error": _failure(last)}
    above.record(SubagentFinished(subagent=ref.model_copy(update=update)))


def _broken(above: RunContext, ref: SubagentRef, error: HarnessdError) -> Outcome:
    failure = Failure(kind=type(error).__name__, message=str(error), hint=error.hint or "")
    update = {"status": "failed", "completed_at": _now(), "error": failure}
    above.record(SubagentFinished(subagent=ref.model_copy(update=update)))
    return failed(failure.kind, f"{ref.agent_id} could not do the task: {error.message}")


def _outcome(subagent: Subagent, state: State) -> Outcome:
    """The conclusion, whose origin is the lowest of all that the subagent saw."""
    origin = lowest_origin("agent", state.context_origin)
    said = _last_words(state)
    last = (None if state.active_run else state.last_run) or INTERRUPTED
    if last.reason == "completed":
        text = said or f"{subagent.name} ended without an answer."
        return Outcome("ok", (TextPart(text=text),), changed=True, origin=origin)
    why = last.failure.message if last.failure else last.detail
    text = f"{subagent.name} did not finish: {last.reason}" + (f" ({why})" if why else "") + "."
    text += f" What it said last:\n\n{said}" if said else " It had said nothing yet."
    text += "\n\nWhat it did up to there stays done."
    return replace(failed(last.reason, text, origin=origin), changed=True)


def _last_words(state: State) -> str:
    """The last text of the subagent in this session."""
    messages: list[Message] = list(state.messages)
    spoken = (text_of(one).strip() for one in reversed(messages) if isinstance(one, AssistantMessage))
    return next((text for text in spoken if text), "")


def _failure(last: LastRun) -> Failure | None:
    if last.reason == "completed":
        return None
    return last.failure or Failure(kind=last.reason, message=last.detail or last.reason)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
