"""How a subagent works for a run: a session of its own, waited for, stopped with it, gone on with after a crash.

The session's id follows from the tool call's, so that a call which is run again finds what it began. Who closes
this process leaves the subagent's run as an interrupted one; who stops the parent's run stops it. A subagent that waits
for a person is let go, and the call with it stays open: a decision wakes the run at the top, and the call is run again.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import anyio

from harnessd.daemon.session import Session
from harnessd.errors import HarnessdError, SessionNotFound, StorageError
from harnessd.facts.event import RunResumed, SubagentFinished, SubagentStarted, SubagentWaiting
from harnessd.facts.message import AssistantMessage, Message, TextPart, UserMessage, lowest_origin, text_of
from harnessd.facts.run import ApprovalBelow, Budget, Failure, Parent, SubagentRef, Trigger
from harnessd.facts.state import LastRun, State
from harnessd.home.layout import Home
from harnessd.home.subagents import Subagent
from harnessd.hooks.context import RunContext
from harnessd.ids import check_id, new_id
from harnessd.journal.peek import peek
from harnessd.journal.stamp import from_now
from harnessd.loop.budget import share
from harnessd.tools.delegate import DELEGATE
from harnessd.tools.tool import Outcome, StillOpen, ToolContext, failed
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

    async def wake(self, above: RunContext, call: ToolContext, subagent: Subagent, text: str) -> Outcome | StillOpen:
        """Has the subagent do the task, or go on with it; what it concluded, or how far it came and why it ended.

        The call stays open if the subagent waits for a person, or is to go on in another process.
        """
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
                await self._work(task, session, text, ref, call)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._let_go(task, session)
        except HarnessdError as error:
            return _broken(above, ref, error)
        state = session.state
        if state.active_run is not None or state.queue:
            waiting = _waiting(state)
            if not waiting and not above.pausing and not above.stopping:
                return await self.wake(above, call, subagent, text)  # it was decided while we let it go
            if waiting:
                update = {"status": "waiting", "waiting": waiting}
                above.record(SubagentWaiting(subagent=ref.model_copy(update=update)))
            return StillOpen(tuple(one.approval.id for one in waiting))
        _finish(above, ref, state)
        return _outcome(subagent, state)

    async def _work(self, task: Task, session: Session, text: str, ref: SubagentRef, call: ToolContext) -> None:
        """Waits until the subagent's run has ended or waits. A cancellation that ends the parent's run ends it too."""
        above = task.above
        above.below[task.parent.tool_call_id] = session.stop_below
        try:
            if _untouched(session.state):
                message = _message(above, text)
                trigger = Trigger(kind="delegate", message_id=message.id, name=above.state.agent_id)
                await session.begin(message, trigger)
            else:
                session.rouse()
            await _until_over(above, session, ref)
        except anyio.get_cancelled_exc_class():
            if _over(above, call):
                with anyio.CancelScope(shield=True):
                    # A run that has not begun cannot be stopped; closing the session keeps it from beginning.
                    if await session.stop_below():
                        await session.over()
                    _finish(above, ref, session.state, STOPPED)
            raise
        finally:
            del above.below[task.parent.tool_call_id]

    async def _let_go(self, task: Task, session: Session) -> None:
        # What did not reach the disk was told as the end of its run already.
        with contextlib.suppress(StorageError):
            await self.close(task, session)


async def _until_over(above: RunContext, session: Session, ref: SubagentRef) -> None:
    """Waits until the subagent's run has ended or waits. While its calls are held for answers, the run above waits."""
    while (state := await session.idle()) and session.holding:
        waiting = ref.model_copy(update={"status": "waiting", "waiting": _waiting(state)})
        above.record(SubagentWaiting(subagent=waiting))
        async with anyio.create_task_group() as telling:
            telling.start_soon(_say_again, above, waiting)
            await session.moving()
            telling.cancel_scope.cancel()
        if above.run.status == "waiting_approval":
            above.record(RunResumed(reason="approval"))
        above.stir()


async def _say_again(above: RunContext, waiting: SubagentRef) -> None:
    """What another subagent's answer lets go on does not let this one."""
    above.stir()
    if above.news is None:
        return
    with contextlib.closing(above.news(above.state.seq)) as news:
        async for event in news:
            if isinstance(event, RunResumed):
                above.record(SubagentWaiting(subagent=waiting))
            above.stir()


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
        started_at=from_now(),
        result_ref=str(journal.relative_to(task.above.home.path)),
    )


@dataclass(frozen=True, slots=True)
class WayUp:
    """The session at the top that a subagent's works for; or, not `wanted`, the one that nobody above waits for."""

    session_id: str
    wanted: bool


def way_up(home: Home, session_id: str, parent: Parent | None) -> WayUp:
    """Who is to be woken for the session `session_id` that works for `parent`; blocks.

    A subagent's session is wanted as long as the call that asked for it is open; each above it likewise. Raises
    `StorageError`.
    """
    passed = {session_id}
    while parent is not None and parent.session_id not in passed:
        above = _state_of(home, parent.session_id)
        if above is None or not _waits_for(above[1], parent):
            break
        agent_id, state = above
        session_id, parent = parent.session_id, state.parent
        passed.add(session_id)
        if agent_id == "main":
            return WayUp(session_id, wanted=True)
    return WayUp(session_id, wanted=False)


def _state_of(home: Home, session_id: str) -> tuple[str, State] | None:
    """Whose session that is and how it stands on disk; None if there is no such session."""
    agent_id = home.agent_of(check_id(session_id, "ses"))
    if agent_id is None:
        return None
    try:
        return agent_id, peek(home.journal(agent_id, session_id), home.checkpoint(agent_id, session_id))
    except SessionNotFound:
        return None


def _waits_for(above: State, parent: Parent) -> bool:
    run = above.active_run
    calls = run.calls if run is not None and run.run_id == parent.run_id else ()
    return any(entry.call.id == parent.tool_call_id and entry.status != "finished" for entry in calls)


def _waiting(state: State) -> tuple[ApprovalBelow, ...]:
    """What keeps a subagent's session, and those below it, from going on."""
    own = (
        ApprovalBelow(agent_id=state.agent_id, session_id=state.session_id, approval=approval)
        for approval in state.pending_approvals
    )
    return (*own, *(waits for ref in state.subagents if ref.status == "waiting" for waits in ref.waiting))


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


def ended(ref: SubagentRef, state: State, unended: LastRun = INTERRUPTED) -> SubagentRef:
    """How it ended, by the `state` of its session; `unended` is said of a run that did not come to its end."""
    last = state.last_run or unended
    status = {"completed": "completed", "stopped": "stopped"}.get(last.reason, "failed")
    update = {"status": status, "completed_at": from_now(), "usage": state.usage.total, "error": _failure(last)}
    return ref.model_copy(update=update | {"waiting": ()})


def _finish(above: RunContext, ref: SubagentRef, state: State, unended: LastRun = INTERRUPTED) -> None:
    """Records how it ended, once."""
    known = next((one for one in above.state.subagents if one.id == ref.id), ref)
    if known.status in {"running", "waiting"}:
        above.record(SubagentFinished(subagent=ended(ref, state, unended)))


def _broken(above: RunContext, ref: SubagentRef, error: HarnessdError) -> Outcome:
    failure = Failure(kind=type(error).__name__, message=str(error), hint=error.hint or "")
    update = {"status": "failed", "completed_at": from_now(), "error": failure}
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
