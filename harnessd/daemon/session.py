"""One session: a mailbox for controls, and one run after another for what came in."""

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from harnessd.daemon.answer import Accepted, Refused
from harnessd.daemon.patch import check_patch
from harnessd.errors import HarnessdError
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.event import (
    Event,
    MessageQueued,
    RunParked,
    RunResumed,
    RunStopRequested,
    StateUpdated,
    ToolApprovalResolved,
)
from harnessd.facts.message import JsonObject, TextPart, UserMessage
from harnessd.facts.run import Approval, Failure, Mode, Question, SubagentRef, Trigger
from harnessd.facts.state import ActiveRun, Queued, State
from harnessd.home.portrait import Portrait
from harnessd.hooks.context import RunContext
from harnessd.ids import new_id
from harnessd.journal.bus import Subscription
from harnessd.journal.ledger import Ledger
from harnessd.journal.standing import standing_of
from harnessd.loop.endings import Ending, Waiting
from harnessd.loop.run import finish
from harnessd.tools.arguments import Invalid
from harnessd.tools.jobs import Jobs

FAULT = "this is a fault of harnessd; please report it"
OVER = "the run that it works for is over"
PAGE = 512
"""Events that are read at a time when an old decision is looked for."""


Prepare = Callable[[Ledger, str, Trigger], RunContext]


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a session is given: how a run is prepared, run, and what an allowed call's rule is.

    `prepare` makes the context of a run; `run` runs it; `rule_for` names the narrowest rule for an approval;
    `write_rule` puts it into the home as the operator; `check_answer` looks at what a person says to a server's
    question; `reload` reads the home anew. `end_below` ends a subagent whose
    run is over and tells how it stands then. `rouse` wakes the run at the top that a subagent's session works for.
    `forget` drops what is kept for the session outside it, once it is closed. `jobs` are the home's commands in the
    background.
    """

    prepare: Prepare
    run: Callable[[RunContext], Awaitable[Ending | Waiting]]
    rule_for: Callable[[Approval], str | None]
    write_rule: Callable[[str], Awaitable[None]]
    check_answer: Callable[[Question, JsonObject | None], JsonObject | Invalid | None]
    reload: Callable[[], Awaitable[Portrait]]
    end_below: Callable[[SubagentRef], Awaitable[SubagentRef]]
    rouse: Callable[["Session"], Coroutine[None, None, None]]
    forget: Callable[[str], None]
    jobs: Jobs
    ceiling: Mode


class Session:
    """Serialises controls and runs; everything it knows is in the ledger.

    A subagent's session works only while it is employed, by the call of the run that it works for. What is decided in
    it at another time wakes the run at the top, and that comes down to it by the way on which it started.
    """

    def __init__(self, ledger: Ledger, tasks: TaskGroup, wiring: Wiring) -> None:
        self._ledger = ledger
        self._tasks = tasks
        self._wiring = wiring
        # By the folder and not by the first record alone: a helper whose record was damaged gains no power by that.
        self._is_below = ledger.agent_id != "main" or ledger.state.parent is not None
        self._prepare = None if self._is_below else wiring.prepare
        self._resume_within = math.inf
        self._safe = False
        self._left = False
        self._roused = False
        self._continued = False
        self._pausing = False
        self.quiet_since = time.monotonic()
        self._mailbox = anyio.Lock()
        self._context: RunContext | None = None
        self._decided = False
        self._running = False
        self._quiet = anyio.Event()
        self._quiet.set()
        self._stirred = anyio.Event()
        self._work_scope = anyio.CancelScope()
        self._closed = False
        self._broken: HarnessdError | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._ledger.session_id

    @property
    def state(self) -> State:
        """What is true now."""
        return self._ledger.state

    @property
    def agent_id(self) -> str:
        """Whose session it is: `main`, or the subagent's name."""
        return self._ledger.agent_id

    @property
    def quiet(self) -> bool:
        """Whether nothing runs at this moment."""
        return not self._running

    @property
    def has_jobs(self) -> bool:
        """Whether one of its commands in the background runs; they end when it is closed."""
        return self._wiring.jobs.running(self.session_id)

    @property
    def parked(self) -> bool:
        """Whether the run that is next waits for a person to say that it may go on."""
        run, queue = self.state.active_run, self.state.queue
        return run.status == "parked" if run else bool(queue) and queue[0].parked and not queue[0].stopped

    @property
    def closed(self) -> bool:
        """Whether it takes no more controls; open it again."""
        return self._closed

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The approvals that wait for a person, those of subagents included."""
        below = (waits for ref in self.state.subagents if ref.status == "waiting" for waits in ref.waiting)
        return (*(one.id for one in self.state.pending_approvals), *(one.approval.id for one in below))

    async def snapshot(self) -> State:
        """The state, once all of it is on disk: before that nobody outside is told. Raises `StorageError`."""
        state = self.state
        await self._ledger.barrier(state.seq)
        return state

    def subscribe(self, after: int = 0) -> Subscription:
        """Every event after that seq, then what comes, with deltas."""
        return self._ledger.subscribe(after)

    async def page(self, before: int | None, count: int) -> list[Event]:
        """The last `count` events on disk below seq `before` (None: of all), in order."""
        return await self._ledger.page(before, count)

    def journal(self) -> Iterator[Event]:
        """Every event on disk, from the first; blocks while it reads."""
        return self._ledger.journal.read()

    async def rest(self) -> None:
        """Waits until nothing runs, whatever came of it."""
        await self._quiet.wait()

    @property
    def holding(self) -> bool:
        """Whether all that runs are calls whose servers wait for a person's answer."""
        run, state = self.state.active_run, self.state
        if self.quiet or run is None or run.status != "waiting_approval":
            return False
        asked = {one.tool_call_id for one in state.pending_approvals}
        below = {ref.parent_tool_call_id for ref in state.subagents if ref.status == "waiting"}
        left = [one for one in run.calls if one.status != "finished"]
        # A call that the gate asks about is not under way: a run with none but such is about to fall quiet.
        return all(one.call.id in asked | below for one in left) and any(one.status == "running" for one in left)

    async def idle(self) -> State:
        """Waits until nothing runs: the run ended, waits for a person or is parked. Raises what broke the session.

        A run whose calls are held until a person answers waits like any other, though it is in this process.
        """
        while not self.quiet and not self.holding:
            await self._stirred.wait()
        return self._as_it_is()

    async def over(self) -> State:
        """The same, but waits for the answers to held calls too."""
        await self._quiet.wait()
        return self._as_it_is()

    async def moving(self) -> None:
        """Waits until it is not so that all that runs waits for answers to held calls."""
        while self.holding:
            await self._stirred.wait()

    def _as_it_is(self) -> State:
        if self._broken is not None:
            raise self._broken
        return self.state

    async def control(self, control: Invoke | Resume | Continue | Stop | UpdateState | Reload) -> Accepted | Refused:
        """Carries out one control; what it changed is on disk before this returns.

        Raises `StorageError` if the journal cannot be written, `HistoryError` if the home refuses a rule.
        """
        async with self._mailbox:
            if self._closed:
                return Refused(503, "the session is closed; open it again", self.state.seq)
            if self._pausing:
                return Refused(503, "the daemon is stopping", self.state.seq)
            await self._mended()
            if self._is_below and isinstance(control, Invoke | UpdateState):
                said = f"this session is the subagent {self.agent_id}'s; it takes up nothing but its task"
                return Refused(409, said, self.state.seq)
            match control:
                case Invoke():
                    return await self._invoke(control)
                case Resume():
                    return await self._resume(control)
                case Stop():
                    return await self._stop(control)
                case UpdateState():
                    return await self._update(control)
                case Reload():
                    portrait = await self._wiring.reload()
                    return Accepted(self._run_id(), self.state.seq, portrait=portrait)
                case Continue():
                    return await self._continue(control)

    async def begin(self, message: UserMessage, trigger: Trigger) -> None:
        """Begins a run for a message that comes from inside: a subagent's task."""
        async with self._mailbox:
            run_id = new_id("run")
            self._ledger.record(MessageQueued(run_id=run_id, message=message, trigger=trigger))
            await self._accepted(run_id)

    async def stop_below(self) -> bool:
        """Stops the run, since the one that it works for was stopped; whether there was one to stop."""
        async with self._mailbox:
            return isinstance(await self._stop(Stop(), by="parent"), Accepted)

    async def end_below(self) -> State:
        """Ends a run that nobody works on any more, since the one that it works for is over; how it stands then."""
        async with self._mailbox:
            run = self.state.active_run
            if run is not None and not self._running:
                if run.status != "stopping":
                    self._ledger.record(RunStopRequested(run_id=run.run_id, turn_id=run.turn_id, by="parent"))
                await finish(self._bare_context(run.run_id, run.trigger), Ending("stopped", OVER))
            if self.state.queue and not self._running:
                self._ledger.record(RunStopRequested(scope="session", by="parent"))
                await self._ledger.barrier()
        return self.state

    def employ(self, prepare: Prepare) -> None:
        """Lets a subagent's session work: `prepare` makes the context of its run."""
        self._prepare = prepare

    async def dismiss(self) -> None:
        """Ends a subagent's work here; a run that is not over goes on when it is employed again."""
        self._prepare = None
        self._work_scope.cancel()
        await self._quiet.wait()
        await self._wiring.jobs.close(self.session_id)

    async def take_up(self, *, resume_within: float, safe: bool) -> None:
        """Looks at what a former process left: an approval that has run out, a run that may not go on by itself.

        `resume_within` is seconds; `safe` lets nothing go on. Called once, when the session was opened. Raises
        `StorageError` if what it found cannot be put on record.
        """
        self._resume_within, self._safe = resume_within, safe
        expired = self._expire()
        lost = self._take_back()
        # A run that waited was not interrupted: that its approval has run out lets it go on, however old it is.
        if self._park(None if expired else self._ledger.opening.last_at) or expired or lost:
            await self._ledger.barrier()
        if expired:
            self._wake()

    def _take_back(self) -> bool:
        """Withdraws questions of calls that were held and may not be made again; whether there were any."""
        run = self.state.active_run
        calls = run.calls if run is not None else ()
        lost = {one.call.id for one in calls if one.status == "running" and one.effect != "read" and not one.idempotent}
        over = [one for one in self.state.pending_approvals if one.question is not None and one.tool_call_id in lost]
        for one in over:
            note = "the call that it belongs to was interrupted"
            self._resolve(one, ToolApprovalResolved(outcome="cancelled", note=note))
        return bool(over)

    def _park(self, since: str | None) -> bool:
        """Records that the run, interrupted `since` then, may not go on by itself, if that is so."""
        run, queue = self.state.active_run, self.state.queue
        if self._is_below or self._may_go_on(since) or (run is None and not queue):
            return False
        parked = run.status == "parked" if run else queue[0].parked
        due = (run.status == "running" or self._cut_off) if run else not queue[0].stopped
        if parked or not due:
            return False
        self._record_parked(run.run_id if run else queue[0].run_id or new_id("run"), since)
        return True

    def _record_parked(self, run_id: str, since: str | None) -> None:
        reason: Literal["safe_mode", "too_old"] = "safe_mode" if self._safe else "too_old"
        self._ledger.record(RunParked(run_id=run_id, reason=reason, interrupted_at=since or ""))

    def _may_go_on(self, since: str | None) -> bool:
        """Whether what was interrupted `since` then may go on by itself."""
        return not self._safe and (since is None or _age(since) <= self._resume_within)

    def recover(self, below_since: str | None = None) -> None:
        """Goes on with what a former process left: an interrupted run, or messages that wait.

        `below_since` is when a subagent of the run, however deep, was interrupted (RFC 3339): a run that waits for it
        does not know that. It is woken or, if that is too long ago, parked.
        """
        run = self.state.active_run
        if self._running:
            self._roused = self._roused or below_since is not None
        elif run is not None and run.status == "waiting_approval" and (below_since is not None or self._cut_off):
            since = below_since or self._ledger.opening.last_at
            self._left = self._may_go_on(since)
            if not self._left and not self.state.pending_approvals:  # else a person's decision lets it go on
                self._record_parked(run.run_id, since)
        self._wake()

    def rouse(self) -> None:
        """Goes on although it waits: a subagent of its run, however deep, has something to do again."""
        self._roused = True
        self._wake()

    async def expire(self) -> None:
        """Lets approvals whose time is over run out; their calls are not made, and the run goes on."""
        async with self._mailbox:
            if not self._closed and self._expire():
                await self._accepted(self._run_id())

    def pause(self) -> None:
        """Takes no more controls, and lets what runs come to the end of its turn; it goes on in another process."""
        self._pausing = True
        if self._context is not None:
            self._context.pausing = True
        if self.holding:
            self._work_scope.cancel()  # nobody may answer in time; what is asked stands on record

    async def checkpoint(self) -> None:
        """Saves the state beside the journal. Raises `StorageError`."""
        await self._ledger.checkpoint()

    async def close(self) -> None:
        """Ends what runs as an interruption: it goes on when the session is opened again."""
        async with self._mailbox:
            self._closed = True
        self._work_scope.cancel()
        self._wiring.jobs.stop_all(self.session_id)
        await self._quiet.wait()
        await self._wiring.jobs.close(self.session_id)
        self._wiring.forget(self.session_id)
        await self._ledger.close()

    async def _mended(self) -> None:
        """A journal that could not be written is tried again; raises `StorageError` if it still can't be."""
        if self._ledger.journal.broken is not None:
            await self._ledger.barrier()

    async def _invoke(self, control: Invoke) -> Accepted | Refused:
        state = self.state
        if control.expected_seq is not None and control.expected_seq != state.seq:
            return Refused(409, f"the session is at seq {state.seq}, not {control.expected_seq}", state.seq)
        busy = state.active_run is not None or bool(state.queue)
        if busy and control.when_busy == "reject":
            return Refused(409, "the session is busy", state.seq)
        parts = (TextPart(text=control.input),) if isinstance(control.input, str) else control.input
        message = UserMessage(id=new_id("msg"), parts=parts)
        run_id = None if busy else new_id("run")
        steer = busy and control.when_busy == "steer"
        self._ledger.record(
            MessageQueued(
                run_id=run_id,
                message=message,
                when="steer" if steer else "queue",
                trigger=Trigger(kind="user", message_id=message.id),
                workspace_context=control.workspace_context,
            )
        )
        return await self._accepted(run_id, self.waiting_for if busy else ())

    async def _resume(self, control: Resume) -> Accepted | Refused:
        if self._expire():
            await self._accepted(self._run_id())
        approval = next((one for one in self.state.pending_approvals if one.id == control.approval_id), None)
        if approval is None:
            decided = await self._decision(control.approval_id)
            if decided is None:
                return Refused(404, f"there is no approval {control.approval_id} in this session")
            said = "has expired" if decided.outcome == "expired" else f"was {decided.outcome} already"
            return Refused(409, f"this approval {said}", decided)
        if self.state.active_run is not None and self.state.active_run.status == "stopping":
            return Refused(409, "the run was stopped, and this approval with it", approval)
        allow = control.decision == "allow"
        arguments = control.arguments if allow else None
        if approval.question is not None and allow:
            if control.scope != "once":
                return Refused(400, f"scope: a question is answered once, not for {control.scope}", approval)
            checked = await anyio.to_thread.run_sync(self._wiring.check_answer, approval.question, arguments)
            if isinstance(checked, Invalid):
                return Refused(400, checked.message, approval)
            arguments = checked
            if approval not in self.state.pending_approvals:
                return await self._resume(control)  # it was decided while the answer was looked at
        wider = allow and control.scope != "once"
        if wider and arguments is not None:
            said = f"scope: a call with changed arguments is allowed once, not for {control.scope}"
            return Refused(400, said, approval)
        rule = self._wiring.rule_for(approval) if wider else None
        if wider and rule is None:
            return Refused(409, "no rule can say this; allow it once", approval)
        if rule and control.scope == "always":
            await self._wiring.write_rule(rule)
        outcomes: dict[str, Literal["allowed", "denied", "cancelled"]] = {"allow": "allowed", "deny": "denied"}
        decided = ToolApprovalResolved(
            outcome=outcomes.get(control.decision, "cancelled"),
            by="user",
            scope=control.scope,
            rule=rule,
            arguments=arguments,
            note=control.note,
        )
        self._resolve(approval, decided)
        self._decided = True
        return await self._accepted(approval.run_id)

    async def _continue(self, control: Continue) -> Accepted | Refused:
        """Lets a run that is parked, or was interrupted, go on or begin."""
        run, first = self.state.active_run, self.state.queue[0] if self.state.queue else None
        if run is not None:
            parked = run.run_id if run.status == "parked" else None
        else:
            parked = first.run_id if first is not None and first.parked else None
        step = None if self._running else self._next()
        if step is not None and step[0] == control.run_id:
            return await self._accepted(control.run_id)  # interrupted, and nobody took it up yet
        if parked is None or parked != control.run_id:
            return Refused(409, "that run is not parked here", self.state.seq)
        turn_id = run.turn_id if run else None
        self._ledger.record(RunResumed(run_id=parked, turn_id=turn_id, reason="continue"))
        self._continued = run is not None
        return await self._accepted(parked)

    async def _stop(self, control: Stop, by: str = "user") -> Accepted | Refused:
        run = self.state.active_run
        meant = control.run_id is None or (run is not None and control.run_id == run.run_id)
        jobs_stopped = meant and self._wiring.jobs.stop_all(self.session_id)
        if run is None:
            answer = await self._stop_before_it_began(control, by)
            return Accepted(None, self.state.seq) if jobs_stopped and isinstance(answer, Refused) else answer
        if control.run_id is not None and control.run_id != run.run_id:
            return Refused(409, "that run is not under way", self.state.seq)
        if run.status != "stopping" or (control.scope == "session" and self.state.queue):
            self._ledger.record(RunStopRequested(run_id=run.run_id, turn_id=run.turn_id, scope=control.scope, by=by))
            await self._ledger.barrier()
        if self._context is not None:
            for stop in tuple(self._context.below.values()):
                # One that cannot write its journal keeps none of the others, nor this run, from ending.
                with contextlib.suppress(HarnessdError):
                    await stop()
            if self._context is not None and self._context.interruptible is not None:
                self._context.interruptible.cancel()
        return await self._accepted(run.run_id)

    async def _stop_before_it_began(self, control: Stop, by: str) -> Accepted | Refused:
        """Stops the run that the first message was promised, or that is being prepared; else only the queue goes."""
        first = self.state.queue[0] if self.state.queue else None
        begun = self._context.run_id if self._context is not None else None
        run_id = (first.run_id or begun) if first is not None else None
        if run_id is not None and control.run_id in {None, run_id}:
            self._ledger.record(RunStopRequested(run_id=run_id, scope=control.scope, by=by))
            return await self._accepted(run_id)
        if first is not None and control.run_id is None and control.scope == "session":
            self._ledger.record(RunStopRequested(scope="session", by=by))
            return await self._accepted(None)
        return Refused(409, "that run is not under way", self.state.seq)

    async def _update(self, control: UpdateState) -> Accepted | Refused:
        if control.expected_seq is not None and control.expected_seq != self.state.seq:
            return Refused(409, f"the session is at seq {self.state.seq}, not {control.expected_seq}", self.state.seq)
        refused = check_patch(control.patch, self._wiring.ceiling)
        if refused is not None:
            return refused
        self._ledger.record(StateUpdated(patch=control.patch))
        await self._ledger.barrier()
        return Accepted(self._run_id(), self.state.seq)

    async def _accepted(self, run_id: str | None, waiting_for: tuple[str, ...] = ()) -> Accepted:
        seq = await self._ledger.barrier()
        self._wake()
        return Accepted(run_id, seq, waiting_for)

    def _expire(self) -> bool:
        """Records which approvals have run out; whether there were any."""
        now = datetime.now(UTC)
        over = [one for one in self.state.pending_approvals if (end := runs_out(one)) is not None and end <= now]
        for one in over:
            self._resolve(one, ToolApprovalResolved(outcome="expired", by="clock"))
        self._decided = self._decided or bool(over)
        return bool(over)

    def _resolve(self, approval: Approval, how: ToolApprovalResolved) -> None:
        ids = {"approval_id": approval.id, "tool_call_id": approval.tool_call_id}
        of = {"run_id": approval.run_id, "turn_id": approval.turn_id}
        self._ledger.record(how.model_copy(update=ids | of))

    def _wake(self) -> None:
        if self._running or self._closed or self._pausing or self._next() is None:
            return
        if self._prepare is None:
            self._tasks.start_soon(self._wiring.rouse, self)
        else:
            self._running = True
            self._broken = None
            self._work_scope = anyio.CancelScope()
            self._quiet = anyio.Event()
            self._tasks.start_soon(self._work)

    async def _work(self) -> None:
        """Runs what there is to run, one after another, then falls quiet."""
        try:
            with self._work_scope:
                while not self._pausing and (step := self._next()) is not None:
                    await self._one_run(*step)
        except HarnessdError as error:
            self._broken = error
        except Exception as error:  # noqa: BLE001 - one of the three named places: one session
            self._broken = HarnessdError(f"the session broke: {type(error).__name__}: {error}", hint=FAULT)
        finally:
            self._running = False
            self._context = None
            self.quiet_since = time.monotonic()
            self._quiet.set()
            self._stir()

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = anyio.Event()

    async def _one_run(self, run_id: str, trigger: Trigger) -> None:
        assert self._prepare is not None  # noqa: S101 - nobody works before that
        context = self._prepare(self._ledger, run_id, trigger)
        context.end_below = self._wiring.end_below
        context.pausing, context.stir, context.news = self._pausing, self._stir, self.subscribe
        if self.state.active_run is not None:
            context.resumed = "approval" if self._decided or self._roused else "restart"
            context.interrupted_at = self._ledger.opening.last_at if context.resumed == "restart" else ""
        if self._continued:
            context.resumed = "continue"
        self._decided = self._roused = self._continued = self._left = False
        self._context = context
        try:
            await self._wiring.run(context)
        except Exception as error:  # noqa: BLE001 - one of the three named places: one session
            await self._fail(context, error)
        finally:
            self._context = None

    async def _fail(self, context: RunContext, error: Exception) -> None:
        """The run ends as failed with a reason that a person can act on; a disk that refuses breaks the session."""
        if self.state.active_run is None:
            if isinstance(error, HarnessdError):
                raise error
            raise HarnessdError(f"the run could not begin: {type(error).__name__}: {error}") from error
        await finish(context, Ending("failed", failure=_failure(error)))

    def _next(self) -> tuple[str, Trigger] | None:
        """The run to work on: the active one unless it waits for a person, else one for the first queued message."""
        run = self.state.active_run
        if run is not None:
            return (run.run_id, run.trigger) if self._due(run) else None
        if self.state.queue and not (self.state.queue[0].parked and not self.state.queue[0].stopped):
            first: Queued = self.state.queue[0]
            # By its id the message is taken from the queue; one that stayed there would be answered for ever.
            return first.run_id or new_id("run"), first.trigger.model_copy(update={"message_id": first.message.id})
        return None

    def _due(self, run: ActiveRun) -> bool:
        """Whether there is something to do in the run, though it may wait for a person all the same."""
        if run.status != "waiting_approval":
            return run.status in {"running", "stopping"}
        below = any(ref.status == "waiting" for ref in self.state.subagents)
        decided = self._decided and not self.state.pending_approvals
        return self._left or (self._roused and below) or ((self._roused or decided) and self._cut_off)

    @property
    def _cut_off(self) -> bool:
        """Whether the run counts as one that waits, and some of its calls neither are done nor wait."""
        run = self.state.active_run
        waits = run is not None and run.status == "waiting_approval"
        return waits and standing_of(self.state).word == "unfinished"

    def _bare_context(self, run_id: str, trigger: Trigger) -> RunContext:
        """Enough of a context to end a run with."""
        context = self._wiring.prepare(self._ledger, run_id, trigger)
        context.end_below = self._wiring.end_below
        return context

    def _run_id(self) -> str | None:
        run = self.state.active_run
        return run.run_id if run else None

    async def _decision(self, approval_id: str) -> ToolApprovalResolved | None:
        """What was decided, looked for from the journal's end, a page at a time."""
        await self._ledger.barrier()
        before: int | None = None
        while page := await self._ledger.page(before, PAGE):
            for event in reversed(page):
                if isinstance(event, ToolApprovalResolved) and event.approval_id == approval_id:
                    return event
            before = page[0].seq
        return None


def runs_out(approval: Approval) -> datetime | None:
    """When the approval runs out; None if it never does, or if what its journal says cannot be read as a time."""
    return _moment(approval.expires_at) if approval.expires_at else None


def _age(at: str) -> float:
    """Seconds since that moment; 0 for one that cannot be read or lies ahead."""
    moment = _moment(at)
    return max(0.0, (datetime.now(UTC) - moment).total_seconds()) if moment else 0.0


def _moment(at: str) -> datetime | None:
    """The RFC 3339 time as a moment; UTC where it says nothing else; None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _failure(error: Exception) -> Failure:
    """What broke, as a fact with the way out."""
    kind = type(error).__name__
    if not isinstance(error, HarnessdError):
        return Failure(kind=kind, message=str(error), hint=FAULT)
    message = f"{error.where}: {error.message}" if error.where else error.message
    return Failure(kind=kind, message=message, hint=error.hint or "")
