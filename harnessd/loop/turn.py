"""One turn: think (ask the model), act (run the calls it asked for), observe (close the turn).

Each part looks at the facts first and does only what is not done yet, so that a run which was interrupted
anywhere goes on by the same path on which it started.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import anyio

from harnessd.facts.event import MessageCreated, TurnFinished, TurnRetried, TurnStarted
from harnessd.facts.message import AssistantMessage, TextPart, Usage, UserMessage
from harnessd.facts.run import Failure
from harnessd.hooks.chain import Chain
from harnessd.hooks.context import RunContext
from harnessd.ids import new_id
from harnessd.loop.endings import Ending, Waiting, seconds_left, stop_requested
from harnessd.loop.publish import Publisher
from harnessd.models.assembler import Reply
from harnessd.models.chunk import ModelFailure
from harnessd.models.failure import way_out
from harnessd.models.models import Models
from harnessd.models.request import ModelRequest
from harnessd.models.retry import Compact, Fallback, GiveUp, Wait, plan_retry


@dataclass(frozen=True, slots=True)
class Turns:
    """What turns need beside the run itself.

    `run_calls` runs the open calls; unless all are done, it answers with the approvals that they wait for. `compact`
    makes the context shorter and says whether it gained anything; `sleep` waits seconds.
    """

    models: Models
    chain: Chain
    run_calls: Callable[[RunContext], Awaitable[tuple[str, ...] | None]]
    compact: Callable[[RunContext], Awaitable[bool]]
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    async def think(self, context: RunContext) -> Ending | None:
        """Opens a turn unless one is open; asks the model unless it has answered."""
        if not context.run.turn_open:
            with interruptible(context) as scope:
                await self.chain.run_before_model(context)
            if (cut_off := interruption(context, scope)) is not None:
                return cut_off
            tell_notes(context)
            take_in(context, steering=True)
            self._open(context)
        return None if context.run.answered else await self._ask(context)

    async def act(self, context: RunContext) -> Waiting | Ending | None:
        """Runs what the model asked for; None when every call has its result."""
        if all(entry.status == "finished" for entry in context.run.calls):
            return None
        while True:
            before = context.run.calls
            approvals: tuple[str, ...] | None = None
            with interruptible(context) as scope:
                approvals = await self.run_calls(context)
            if scope.cancelled_caught:
                return interruption(context, scope)
            if approvals is not None:
                return Waiting(approvals)
            # What a person decided while the others ran is left to run, and there is nothing to wait for.
            if all(entry.status == "finished" for entry in context.run.calls) or context.run.calls is before:
                return None

    async def observe(self, context: RunContext) -> None:
        """Closes the turn and begins to put it on disk; `_ask` waits for that before the model is told."""
        close(context)
        context.flushed = context.ledger.flush()

    def _open(self, context: RunContext) -> None:
        limits = self.models.limits_if_loaded(context.model)
        context.turn_began = time.monotonic()
        context.record(
            TurnStarted(
                turn_id=new_id("turn"),
                number=context.run.turn_number + 1,
                model=context.model,
                context_window=limits.context_window if limits else None,
            )
        )

    async def _ask(self, context: RunContext) -> Ending | None:
        """Asks until there is an answer or no plan is left; each failure and what follows from it is a fact."""
        await context.ledger.barrier(context.flushed)
        attempt, compacted, tried = 1, False, [context.model]
        scope = anyio.CancelScope()
        while True:
            answer = await self._request(context, tried[-1])
            if isinstance(answer, Reply):
                return None
            if answer.kind == "cancelled" or context.stopping:
                close(context, None if answer.kind == "cancelled" and answer.partial_text else answer.usage)
                return stop_requested(context.state, context.run) or _deadline(context)
            untried = [model for model in context.home_now.settings.fallback_models if model not in tried]
            match plan_retry(answer, attempt, untried, compacted=compacted):
                case Wait(seconds):
                    _record_retry(
                        context, answer, attempt, TurnRetried(action="wait", wait_seconds=seconds, model=tried[-1])
                    )
                    attempt += 1
                    with interruptible(context) as scope:
                        await self.sleep(seconds)
                case Fallback(model):
                    _record_retry(context, answer, attempt, TurnRetried(action="fallback", model=model))
                    attempt = 1
                    tried.append(model)
                case Compact():
                    _record_retry(context, answer, attempt, TurnRetried(action="compact", model=tried[-1]))
                    compacted = True
                    with interruptible(context) as scope:
                        await self.compact(context)
                case GiveUp():
                    close(context, answer.usage)
                    return Ending("failed", failure=_recorded(answer))
            if (cut_off := interruption(context, scope)) is not None:
                return cut_off

    async def _request(self, context: RunContext, model: str) -> Reply | ModelFailure:
        """One request. What arrives is published at once; the whole answer is recorded at the end."""
        request = ModelRequest(
            model=model,
            system=context.prompt,
            messages=context.state.messages,
            tools=context.toolbox.specs(context.state.toolkit.found),
            session_id=context.ledger.session_id,
            api_base=context.address_of(model),
        )
        publisher = Publisher(context, new_id("msg"))
        assembler = self.models.assembler(request)
        began, first = time.monotonic(), None
        with interruptible(context) as scope:
            async with aclosing(self.models.stream(request)) as stream:
                async for piece in stream:
                    first = first or time.monotonic()
                    for delta in assembler.feed(piece):
                        publisher.publish(delta)
        answer = assembler.finish()
        if scope.cancelled_caught and isinstance(answer, ModelFailure):
            answer = ModelFailure("cancelled", "interrupted", partial_text=answer.partial_text, usage=answer.usage)
        spent = MessageCreated(
            usage=answer.usage,
            duration_ms=round((time.monotonic() - began) * 1000),
            first_token_ms=round((first - began) * 1000) if first else None,
        )
        message = _message(publisher.message_id, answer, model)
        if message is not None:
            context.record(spent.model_copy(update={"message": message}))
        return answer


def take_in(context: RunContext, *, steering: bool = False, message_id: str = "") -> None:
    """Lets waiting messages enter the model's context: those that steer, and the one that began the run."""
    for entry in context.state.queue:
        if entry.message.id == message_id or (steering and entry.when == "steer"):
            context.record(MessageCreated(message=entry.message))
            context.request = None


def tell_notes(context: RunContext) -> None:
    """Tells the model what the hooks want it to know."""
    while context.notes:
        tell(context, context.notes.pop(0))


def tell(context: RunContext, text: str) -> None:
    """Tells the model something of the harness's own, as the next message of its context."""
    context.record(MessageCreated(message=UserMessage(id=new_id("msg"), kind="note", parts=(TextPart(text=text),))))


def close(context: RunContext, unbilled: Usage | None = None) -> None:
    """Records the end of the open turn and what it cost, `unbilled` included; nothing if no turn is open."""
    run = context.run
    if run.turn_open:
        took = round((time.monotonic() - context.turn_began) * 1000)
        usage = run.turn_usage + unbilled if unbilled else run.turn_usage
        context.record(TurnFinished(usage=usage, duration_ms=took, model=run.answered_by or context.model))


def _deadline(context: RunContext) -> Ending:
    return Ending("deadline", f"{context.run.budget.seconds:g} s")


def interruptible(context: RunContext, *, timed: bool = True) -> anyio.CancelScope:
    """A scope that a stop cancels, one that came before it too, and, if it is `timed`, the run's deadline."""
    left = seconds_left(context.run, context.turn_seconds) if timed else None
    scope = context.interruptible = anyio.move_on_after(left)
    if context.stopping:
        scope.cancel()
    return scope


def interruption(context: RunContext, scope: anyio.CancelScope) -> Ending | None:
    """Why no more may be begun after `scope`: the run was stopped, or its time is up."""
    if context.stopping:
        return stop_requested(context.state, context.run)
    return _deadline(context) if scope.cancelled_caught else None


def _message(message_id: str, answer: Reply | ModelFailure, model: str) -> AssistantMessage | None:
    """What the model said; what it had said when it was interrupted; None if a failure left nothing to keep."""
    if isinstance(answer, Reply):
        return AssistantMessage(
            id=message_id,
            parts=(TextPart(text=answer.text),) if answer.text else (),
            reasoning=answer.reasoning,
            tool_calls=answer.tool_calls,
            finish=answer.finish,
            model=answer.model,
        )
    if answer.kind == "cancelled" and answer.partial_text:
        return AssistantMessage(
            id=message_id, parts=(TextPart(text=answer.partial_text),), finish="cut_off", model=model
        )
    return None


def _record_retry(context: RunContext, failure: ModelFailure, attempt: int, plan: TurnRetried) -> None:
    context.record(
        plan.model_copy(
            update={
                "attempt": attempt,
                "failure": _recorded(failure),
                "usage": failure.usage or Usage(),
            }
        )
    )


def _recorded(failure: ModelFailure) -> Failure:
    """The failure as a fact, with the way out."""
    return Failure(kind=failure.kind, message=failure.message, hint=way_out(failure))
