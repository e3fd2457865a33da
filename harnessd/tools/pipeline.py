"""How does a tool call become a result: find, validate, mark, decide, schedule, run, trim, after-hooks.

Starting a turn's calls and taking them up after a restart are one path; what is on record decides what is left
to do. Nothing about a call is held only in memory.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread

from harnessd.errors import StorageError
from harnessd.facts.event import (
    Event,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallDelta,
    ToolCallRunning,
)
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Approval, Decision
from harnessd.facts.state import OpenCall
from harnessd.ids import new_id
from harnessd.journal.stamp import from_now
from harnessd.permissions.call import GateCall
from harnessd.permissions.gate import answered
from harnessd.tools.arguments import BadSchema, Invalid, canonical, check_arguments, parse_arguments, takes_no_arguments
from harnessd.tools.gate_call import gate_call
from harnessd.tools.questions import Questions
from harnessd.tools.recorder import Recorder
from harnessd.tools.schedule import TOGETHER_AT_MOST, plan, run_batch
from harnessd.tools.tool import Asks, Effect, Outcome, Preview, StillOpen, Tool, ToolContext
from harnessd.tools.toolbox import Toolbox, UnknownTool
from harnessd.tools.trim import Evict, ResultRule, trim
from harnessd.tools.unrun import (
    denied,
    invalid,
    not_allowed_by,
    outcome_unknown,
    raised,
    stopped,
    timed_out,
    unanswered,
)


@dataclass(frozen=True)
class TurnScope:
    """The turn that the calls belong to, and the message that asked for them."""

    run_id: str
    turn_id: str
    message_id: str


@dataclass(frozen=True)
class Done:
    """Every call has its result."""


@dataclass(frozen=True)
class Waiting:
    """These approvals wait for a person, here or below a call that is still open; every other call has its result."""

    approvals: tuple[str, ...]


@dataclass(frozen=True)
class Ready:
    """A call that was found, validated and marked. `call` is its record as it stood when the turn was taken up."""

    call: OpenCall
    tool: Tool
    arguments: JsonObject
    effect: Effect
    concurrency_safe: bool
    idempotency_key: str

    @property
    def id(self) -> str:
        """The tool call's id."""
        return self.call.call.id


Decide = Callable[[GateCall], Awaitable[Decision]]
Before = Callable[[Ready, ToolContext], Awaitable[None]]
After = Callable[[Ready, ToolContext, Outcome], Awaitable[Outcome]]


async def run_calls(
    ledger: Recorder,
    turn: TurnScope,
    calls: Sequence[OpenCall],
    *,
    toolbox: Toolbox,
    decide: Decide,
    context_for: Callable[[OpenCall], ToolContext],
    before: Sequence[Before] = (),
    after: Sequence[After] = (),
    results: Mapping[str, ResultRule] | None = None,
    evict: Evict | None = None,
    stopping: Callable[[], bool] = lambda: False,
    together: int = TOGETHER_AT_MOST,
    expires_at: Callable[[], str | None] = lambda: None,
    answer_to: Callable[[str], Awaitable[None]] | None = None,
    may_ask: Callable[[], bool] = lambda: True,
) -> Done | Waiting:
    """Brings every call of the turn to its one result, or to an approval that waits for a person.

    `calls` are `state.active_run.calls`; whatever of them is done already stays as it is. `answer_to` waits until the
    question with that approval's id is answered (None: no call can be held for that); `may_ask` says whether questions
    are put to a person at all, else they are declined. Raises `StorageError` if the journal cannot be written. A
    cancellation goes through; if `stopping()` says that a stop caused it, every open call is recorded as cancelled
    before.
    """
    line = _Line(
        ledger,
        turn,
        toolbox,
        decide,
        context_for,
        before,
        after,
        results or {},
        evict,
        stopping,
        Questions(ledger, lambda event: _record(ledger, turn, event), expires_at, answer_to, may_ask),
    )
    try:
        ready: list[Ready] = []
        for call in line.unfinished(calls):
            tool = line.find(call)
            arguments = line.validate(call, tool)
            marked = line.mark(call, tool, arguments)
            if marked is not None:
                ready.append(marked)
        for batch in plan(ready):
            await run_batch(line.through, batch, together)
    except anyio.get_cancelled_exc_class():
        if stopping():
            cancel_calls(ledger, turn)
        raise
    if stopping():
        cancel_calls(ledger, turn)
    waiting = line.waiting(calls)
    if not waiting and not line.open:
        return Done()
    await ledger.barrier()
    return Waiting((*waiting, *(approval for still in line.open for approval in still.approvals)))


def cancel_calls(ledger: Recorder, turn: TurnScope) -> None:
    """Gives every open call of the turn a result that says it was stopped, and withdraws its approval."""
    run = ledger.state.active_run
    for call in run.calls if run is not None else ():
        if call.status == "finished":
            continue
        for approval in ledger.state.pending_approvals:
            if approval.tool_call_id == call.call.id:
                _record(ledger, turn, _resolved(approval.id, call.call.id, "cancelled", "the run was stopped"))
        _record(ledger, turn, _completed(call, stopped(under_way=call.status == "running")))


@dataclass(frozen=True)
class _Line:
    """The stages, with what they share."""

    ledger: Recorder
    turn: TurnScope
    toolbox: Toolbox
    ask_gate: Decide
    context_for: Callable[[OpenCall], ToolContext]
    before: Sequence[Before]
    after: Sequence[After]
    results: Mapping[str, ResultRule]
    evict: Evict | None
    stopping: Callable[[], bool]
    questions: Questions
    open: list[StillOpen] = field(default_factory=list)

    def unfinished(self, calls: Sequence[OpenCall]) -> list[OpenCall]:
        """The calls that something is left to do for; a writer that was in flight is closed here."""
        left: list[OpenCall] = []
        for call in calls:
            if call.status == "running" and call.effect != "read" and not call.idempotent:
                self.questions.withdraw(call.call.id, "the call that it belongs to was interrupted")
                self.record(_completed(call, outcome_unknown()))
            elif call.status in {"pending", "running"}:
                left.append(call)
        return left

    def find(self, call: OpenCall) -> Tool | UnknownTool:
        return self.toolbox.find(call.call.name)

    def validate(self, call: OpenCall, tool: Tool | UnknownTool) -> JsonObject | Invalid:
        """Arguments of the model or, if a person changed them, of that person."""
        if isinstance(tool, UnknownTool):
            return Invalid(tool.message, line=0)
        check = tool.check
        if isinstance(check, BadSchema):
            return Invalid(f"{tool.name} cannot be called: {check.reason}", line=0)
        if call.created and call.arguments is not None:
            return check_arguments(call.arguments, check)
        return parse_arguments(call.call.arguments, check, takes_none=takes_no_arguments(tool.input_schema))

    def mark(self, call: OpenCall, tool: Tool | UnknownTool, arguments: JsonObject | Invalid) -> Ready | None:
        """Puts the call on record with its marks; what cannot be run gets its result at once."""
        known = tool if isinstance(tool, Tool) else None
        valid = None if isinstance(arguments, Invalid) else arguments
        effect: Effect = "read" if known is None else known.effect if valid is None else known.effect_of(valid)
        key = call.idempotency_key or self.idempotency_key(call)
        if not call.created:
            self.record(
                ToolCallCreated(
                    tool_call_id=call.call.id,
                    message_id=self.turn.message_id,
                    tool_name=call.call.name,
                    arguments=valid,
                    effect=effect,
                    idempotent=known.idempotent if known else True,
                    concurrency_safe=known.concurrency_safe if known else True,
                    origin=known.origin if known else "local",
                    action_hash=_action(call, valid),
                    idempotency_key=key,
                )
            )
        if isinstance(arguments, Invalid):
            self.record(_completed(call, invalid(arguments)))
        if known is None or valid is None:
            return None
        return Ready(call, known, valid, effect, known.concurrency_safe, key)

    async def through(self, ready: Ready) -> None:
        """Decide, run, trim, after-hooks. The one place where whatever a tool raises becomes a result."""
        if self.stopping():
            return
        started = time.monotonic()
        try:
            decided = await self.decide(ready)
            if decided is None:
                return
            outcome = await self.run(ready, *decided)
            while isinstance(outcome, Asks):
                declined = self.questions.put(self.about(ready, decided[1]), outcome.questions)
                if declined is None:
                    return
                context = replace(decided[0], answers=(*decided[0].answers, *declined))
                decided = context, decided[1]
                outcome = await self.run(ready, *decided)
            if isinstance(outcome, StillOpen):
                self.open.append(outcome)
                return
            try:
                outcome = await trim(outcome, self.rule(ready.tool), self.evict, ready.id)
                for hook in self.after:
                    outcome = await hook(ready, decided[0], outcome)
            except anyio.get_cancelled_exc_class():
                self.complete(ready, outcome, started)  # its effect is known; that must not get lost
                raise
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - the named place: one tool call never ends the run
            outcome = raised(ready.tool.name, error)
        self.complete(ready, outcome, started)

    def complete(self, ready: Ready, outcome: Outcome, started: float) -> None:
        """The result, after the facts that came with it."""
        for event in outcome.events:
            self.record(event)
        self.questions.withdraw(ready.id, "the call ended before it was answered")
        self.record(_completed(ready.call, outcome, round((time.monotonic() - started) * 1000)))

    async def decide(self, ready: Ready) -> tuple[ToolContext, Decision] | None:
        """What the call may do and on whose word; None if it has its result already or waits for a person."""
        call, answer = ready.call, ready.call.answer
        if answer is not None and answer.outcome != "allowed" and call.status != "running":
            refused = None
            if call.decision is not None and answer.outcome == "denied":
                refused = answered(call.decision, "deny", answer.note or f"denied by {answer.by or 'a person'}")
            self.record(_completed(call, not_allowed_by(answer), decision=refused))
            return None
        if call.answers and call.answers[-1].outcome == "expired" and call.status != "running":
            self.record(_completed(call, unanswered()))
            return None
        context = self.context_for(call)
        asked = gate_call(ready.tool, ready.arguments, ready.effect, context)
        targets, decision = asked.targets, await self.ask_gate(asked)
        if decision.verdict == "deny":
            self.record(_completed(call, denied(decision), decision=decision))
            return None
        by_person = answer is not None and answer.outcome == "allowed"
        under_way = call.status == "running" or bool(call.answers)
        preview: Preview | Outcome | None = None
        if decision.verdict == "ask" or by_person:
            preview = await anyio.to_thread.run_sync(
                ready.tool.preview, context.decided(targets, approved=by_person, base=None), ready.arguments
            )
        if isinstance(preview, Outcome):
            self.record(_completed(call, preview, decision=decision))
            return None
        base = preview.base if preview else None
        if answer is not None and by_person and not under_way and base != answer.base:
            self.withdraw(ready, answer.approval_id)
            by_person = False
        if decision.verdict == "ask" and not by_person and not under_way:
            self.ask(ready, decision, preview)
            return None
        if answer is not None and by_person:
            decision = answered(decision, "allow", answer.note or f"allowed by {answer.by or 'a person'}")
        elif decision.verdict == "ask" and call.decision is not None:
            decision = call.decision
        context = replace(
            context,
            targets=targets,
            approved=by_person,
            base=base,
            call_id=ready.id,
            idempotency_key=ready.idempotency_key,
            delta=self.deltas(ready),
            answers=call.answers,
        )
        return context, decision

    async def run(self, ready: Ready, context: ToolContext, decision: Decision) -> Outcome | StillOpen | Asks:
        """The effect. What permits a writer's effect is on disk before it happens."""
        for hook in self.before:
            await hook(ready, context)
        again = ready.call.status == "running"
        marked = ready.effect if ready.call.created and ready.effect != ready.call.effect else None
        self.record(ToolCallRunning(tool_call_id=ready.id, decision=decision, rerun=again, effect=marked))
        if ready.effect != "read":
            await self.ledger.barrier()
            if self.stopping():
                return stopped(under_way=False)
        left = context.seconds_left()
        seconds = ready.tool.timeout if left is None else min(ready.tool.timeout, left)
        about = partial(self.about, ready, decision)
        with anyio.move_on_after(seconds) as scope, self.questions.held(ready.id, about, scope) as ask:
            return await ready.tool.run(replace(context, ask=ask), ready.arguments)
        return timed_out(ready.tool.name, seconds, ready.effect)

    def ask(self, ready: Ready, decision: Decision, preview: Preview | None) -> None:
        asked = {
            "id": new_id("apr"),
            "diff": preview.diff if preview else None,
            "base": preview.base if preview else None,
            "requested_at": from_now(),
            "expires_at": self.questions.expires_at(),
        }
        self.record(ToolApprovalRequired(approval=self.about(ready, decision).model_copy(update=asked)))

    def about(self, ready: Ready, decision: Decision) -> Approval:
        """The call, as whoever decides about it is shown."""
        return Approval(
            run_id=self.turn.run_id,
            turn_id=self.turn.turn_id,
            tool_call_id=ready.id,
            tool_name=ready.tool.name,
            arguments=ready.arguments,
            policy=decision,
        )

    def withdraw(self, ready: Ready, approval_id: str) -> None:
        """The approval was given for a file that has changed since."""
        note = "the file changed after the approval was asked for; asked anew"
        self.record(_resolved(approval_id, ready.id, "cancelled", note))

    def waiting(self, calls: Sequence[OpenCall]) -> tuple[str, ...]:
        ids = {call.call.id for call in calls}
        return tuple(one.id for one in self.ledger.state.pending_approvals if one.tool_call_id in ids)

    def rule(self, tool: Tool) -> ResultRule | None:
        return self.results.get(tool.name) or self.results.get(tool.own_name)

    def idempotency_key(self, call: OpenCall) -> str:
        """The same for every rerun of this call, different for every other call."""
        text = f"{self.ledger.state.session_id}/{self.turn.run_id}/{self.turn.turn_id}/{call.call.id}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def deltas(self, ready: Ready) -> Callable[[str], None]:
        """Sends a running tool's output to whoever watches."""
        offset = 0

        def send(text: str) -> None:
            nonlocal offset
            self.ledger.delta(
                ToolCallDelta(
                    session_id=self.ledger.state.session_id,
                    run_id=self.turn.run_id,
                    turn_id=self.turn.turn_id,
                    message_id=self.turn.message_id,
                    offset=offset,
                    text=text,
                    tool_call_id=ready.id,
                    tool_name=ready.tool.name,
                    stream="output",
                )
            )
            offset += len(text)

        return send

    def record(self, event: Event) -> None:
        _record(self.ledger, self.turn, event)


def _record(ledger: Recorder, turn: TurnScope, event: Event) -> None:
    ledger.record(event.model_copy(update={"run_id": turn.run_id, "turn_id": turn.turn_id}))


def _completed(
    call: OpenCall, outcome: Outcome, duration_ms: int = 0, decision: Decision | None = None
) -> ToolCallCompleted:
    return ToolCallCompleted(
        tool_call_id=call.call.id,
        tool_name=call.call.name,
        status=outcome.status,
        parts=outcome.parts,
        origin=outcome.origin,
        duration_ms=duration_ms,
        changed=outcome.changed,
        commit=outcome.commit,
        decision=decision,
        failure=outcome.failure,
    )


def _resolved(approval_id: str, call_id: str, outcome: Literal["cancelled"], note: str) -> ToolApprovalResolved:
    return ToolApprovalResolved(approval_id=approval_id, tool_call_id=call_id, outcome=outcome, note=note)


def _action(call: OpenCall, arguments: JsonObject | None) -> str:
    """Equal for the same tool with the same arguments, whatever the order of their keys."""
    text = call.call.arguments if arguments is None else canonical(arguments)
    return hashlib.sha256(f"{call.call.name}\0{text}".encode(errors="surrogatepass")).hexdigest()[:16]
