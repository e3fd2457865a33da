"""One run: think, act, observe, until there is a reason to end or a person is needed."""

from dataclasses import replace

from harnessd.facts.event import RunFinished, SubagentFinished, ToolApprovalResolved, ToolCallCompleted
from harnessd.facts.message import TextPart
from harnessd.facts.state import OpenCall
from harnessd.hooks.context import RunContext
from harnessd.loop.endings import Ending, Waiting, reason_to_end
from harnessd.loop.turn import Turns, close, interruptible, interruption, take_in, tell, tell_notes

CHECKS_BEFORE_FINISH = 3
"""How often failing checks send the agent back to work; what fails after that is told with the end of the run."""


async def run(context: RunContext, turns: Turns) -> Ending | Waiting:
    """Runs, or goes on with, the run that `context` is about; what is done already is not done again."""
    with interruptible(context, timed=False):
        await turns.chain.run_before_run(context)
    if not context.run.turn_open:
        # A message would come between the open turn's calls and their results; it waits for the next turn.
        tell_notes(context)
        take_in(context, message_id=context.run.trigger.message_id)
    while (ending := await _reason_to_end(context, turns)) is None:
        halt = await turns.think(context) or await turns.act(context)
        if isinstance(halt, Waiting):
            return halt
        if halt is not None:
            ending = halt
            break
        await turns.observe(context)
        if context.pausing:
            return Waiting(())
    await finish(context, ending)
    await turns.chain.run_after_run(context)
    return ending


async def finish(context: RunContext, ending: Ending) -> None:
    """Closes what is open, so that every call has its one result, and records why the run ended."""
    for ref in context.state.subagents:
        if ref.parent_run_id == context.run_id and ref.status in {"running", "waiting"} and context.end_below:
            context.record(SubagentFinished(subagent=await context.end_below(ref)))
    for approval in context.state.pending_approvals:
        context.record(
            ToolApprovalResolved(
                approval_id=approval.id, tool_call_id=approval.tool_call_id, outcome="cancelled", by=ending.reason
            )
        )
    for entry in context.run.calls:
        if entry.status != "finished":
            context.record(_never_finished(entry, ending))
    close(context)
    spent = context.run.spent
    context.record(
        RunFinished(
            reason=ending.reason,
            detail=ending.detail,
            failure=ending.failure,
            turns=spent.turns,
            usage=spent.usage,
            duration_ms=round(spent.seconds * 1000),
            queued=len(context.state.queue),
        )
    )
    await context.ledger.barrier()


async def _reason_to_end(context: RunContext, turns: Turns) -> Ending | None:
    """The reason to end, unless the agent calls it done and a check disagrees: then it goes back to work."""
    ending = reason_to_end(context.state)
    if ending is None or ending.reason != "completed":
        return ending
    findings = None
    with interruptible(context) as scope:
        findings = await turns.chain.run_before_finish(context)
    if scope.cancelled_caught:
        return interruption(context, scope)
    if findings is None:
        return ending
    if context.sent_back >= CHECKS_BEFORE_FINISH:
        first = findings.partition("\n")[0].rstrip(":")
        return replace(ending, detail="; ".join(filter(None, (ending.detail, first))))
    context.sent_back += 1
    tell(context, f"You are not done yet. {findings}")
    return None


def _never_finished(entry: OpenCall, ending: Ending) -> ToolCallCompleted:
    """The result of a call that the run's end cut off: a writer that was running may have taken effect."""
    unknown = entry.status == "running" and entry.effect == "write" and not entry.idempotent
    told = "the run ended while it was running; check before repeating it" if unknown else "the run ended before it"
    return ToolCallCompleted(
        tool_call_id=entry.call.id,
        tool_name=entry.call.name,
        status="outcome_unknown" if unknown else "cancelled",
        parts=(TextPart(text=f"No result: {told} ({ending.reason})."),),
    )
