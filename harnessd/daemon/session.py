"""One session: a mailbox for controls, and one run after another for what came in."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harnessd.errors import HarnessdError
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.event import (
    Event,
    MessageQueued,
    RunStopRequested,
    StateUpdated,
    ToolApprovalResolved,
)
from harnessd.facts.message import JsonObject, TextPart, UserMessage
from harnessd.facts.run import Approval, Failure, Mode, Todo, Trigger
from harnessd.facts.state import Queued, State
from harnessd.hooks.context import RunContext
from harnessd.ids import new_id
from harnessd.journal.bus import Subscription
from harnessd.journal.ledger import Ledger
from harnessd.loop.endings import Ending, Waiting
from harnessd.loop.run import finish
from harnessd.permissions.modes import narrower

FAULT = "this is a fault of harnessd; please report it"
PAGE = 512
"""Events that are read at a time when an old decision is looked for."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The control is on disk. `run_id` is the run that it starts or is about, None if it waits in the queue."""

    run_id: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The control changed nothing. `status` is the HTTP status it stands for, `current` what stands now."""

    status: int
    message: str
    current: Event | Approval | int | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a session is given: how a run is prepared, run, and what an allowed call's rule is.

    `prepare` makes the context of a run; `run` runs it; `rule_for` names the narrowest rule for an approval;
    `write_rule` puts it into the home as the operator; `reload` reads the home anew.
    """

    prepare: Callable[[Ledger, str, Trigger], RunContext]
    run: Callable[[RunContext], Awaitable[Ending | Waiting]]
    rule_for: Callable[[Approval], str | None]
    write_rule: Callable[[str], Awaitable[None]]
    reload: Callable[[], Awaitable[None]]
    ceiling: Mode


class _Patch(BaseModel):
    """What a patch may set, read strictly: what is recorded stays, and a state that cannot hold it would drop it."""

    model_config = ConfigDict(frozen=True, strict=True)

    todos: tuple[Todo, ...] | None = Field(default=None, strict=False)
    title: str | None = None
    workspaceContext: JsonObject | None = None  # noqa: N815 - as it is on the wire
    mode: Mode | None = None


class Session:
    """Serialises controls and runs; everything it knows is in the ledger."""

    def __init__(self, ledger: Ledger, tasks: TaskGroup, wiring: Wiring) -> None:
        self._ledger = ledger
        self._tasks = tasks
        self._wiring = wiring
        self._mailbox = anyio.Lock()
        self._context: RunContext | None = None
        self._decided = False
        self._running = False
        self._quiet = anyio.Event()
        self._quiet.set()
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

    def subscribe(self, after: int = 0) -> Subscription:
        """Every event after that seq, then what comes, with deltas."""
        return self._ledger.subscribe(after)

    def journal(self) -> Iterator[Event]:
        """Every event on disk, from the first; blocks while it reads."""
        return self._ledger.journal.read()

    async def idle(self) -> State:
        """Waits until nothing runs: the run ended, waits for a person or is parked. Raises what broke the session."""
        await self._quiet.wait()
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
            await self._mended()
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
                    await self._wiring.reload()
                    return Accepted(self._run_id(), self.state.seq)
                case Continue():
                    return Refused(409, "no run is parked here", self.state.seq)

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

    def recover(self) -> None:
        """Goes on with what a former process left: an interrupted run, or messages that wait."""
        self._wake()

    async def close(self) -> None:
        """Ends what runs as an interruption: it goes on when the session is opened again."""
        async with self._mailbox:
            self._closed = True
        self._work_scope.cancel()
        await self._quiet.wait()
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
        return await self._accepted(run_id)

    async def _resume(self, control: Resume) -> Accepted | Refused:
        approval = next((one for one in self.state.pending_approvals if one.id == control.approval_id), None)
        if approval is None:
            decided = await self._decision(control.approval_id)
            if decided is None:
                return Refused(404, f"there is no approval {control.approval_id} in this session")
            return Refused(409, f"this approval was {decided.outcome} already", decided)
        if self.state.active_run is not None and self.state.active_run.status == "stopping":
            return Refused(409, "the run was stopped, and this approval with it", approval)
        allow = control.decision == "allow"
        wider = allow and control.scope != "once"
        rule = self._wiring.rule_for(approval) if wider else None
        if wider and rule is None:
            return Refused(409, "no rule can say this; allow it once", approval)
        if rule and control.scope == "always":
            await self._wiring.write_rule(rule)
        self._ledger.record(
            ToolApprovalResolved(
                run_id=approval.run_id,
                turn_id=approval.turn_id,
                approval_id=approval.id,
                tool_call_id=approval.tool_call_id,
                outcome="allowed" if allow else "denied",
                by="user",
                scope=control.scope,
                rule=rule,
                arguments=control.arguments if allow else None,
                note=control.note,
            )
        )
        self._decided = True
        return await self._accepted(approval.run_id)

    async def _stop(self, control: Stop, by: str = "user") -> Accepted | Refused:
        run = self.state.active_run
        if run is None:
            return await self._stop_before_it_began(control, by)
        if control.run_id is not None and control.run_id != run.run_id:
            return Refused(409, "that run is not under way", self.state.seq)
        if run.status != "stopping" or (control.scope == "session" and self.state.queue):
            self._ledger.record(RunStopRequested(run_id=run.run_id, turn_id=run.turn_id, scope=control.scope, by=by))
            await self._ledger.barrier()
        if self._context is not None:
            for stop in tuple(self._context.below.values()):
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
        unknown = set(control.patch) - {"todos", "title", "workspaceContext", "mode"}
        if unknown:
            return Refused(400, f"the patch may change todos, title, workspaceContext and mode, not {sorted(unknown)}")
        try:
            asked = _Patch.model_validate(control.patch)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            return Refused(400, f"{place}: {first['msg']}")
        mode = asked.mode
        if mode is not None and narrower(mode, self._wiring.ceiling) != mode:
            return Refused(403, f"the operator's ceiling is {self._wiring.ceiling}")
        self._ledger.record(StateUpdated(patch=control.patch))
        await self._ledger.barrier()
        return Accepted(self._run_id(), self.state.seq)

    async def _accepted(self, run_id: str | None) -> Accepted:
        seq = await self._ledger.barrier()
        self._wake()
        return Accepted(run_id, seq)

    def _wake(self) -> None:
        if not self._running and not self._closed and self._next() is not None:
            self._running = True
            self._broken = None
            self._work_scope = anyio.CancelScope()
            self._quiet = anyio.Event()
            self._tasks.start_soon(self._work)

    async def _work(self) -> None:
        """Runs what there is to run, one after another, then falls quiet."""
        try:
            with self._work_scope:
                while (step := self._next()) is not None:
                    await self._one_run(*step)
        except HarnessdError as error:
            self._broken = error
        except Exception as error:  # noqa: BLE001 - one of the three named places: one session
            self._broken = HarnessdError(f"the session broke: {type(error).__name__}: {error}", hint=FAULT)
        finally:
            self._running = False
            self._context = None
            self._quiet.set()

    async def _one_run(self, run_id: str, trigger: Trigger) -> None:
        context = self._wiring.prepare(self._ledger, run_id, trigger)
        if self.state.active_run is not None:
            context.resumed = "approval" if self._decided else "restart"
        self._decided = False
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
            return (run.run_id, run.trigger) if run.status in {"running", "stopping"} else None
        if self.state.queue:
            first: Queued = self.state.queue[0]
            # By its id the message is taken from the queue; one that stayed there would be answered for ever.
            return first.run_id or new_id("run"), first.trigger.model_copy(update={"message_id": first.message.id})
        return None

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


def _failure(error: Exception) -> Failure:
    """What broke, as a fact with the way out."""
    kind = type(error).__name__
    if not isinstance(error, HarnessdError):
        return Failure(kind=kind, message=str(error), hint=FAULT)
    message = f"{error.where}: {error.message}" if error.where else error.message
    return Failure(kind=kind, message=message, hint=error.hint or "")
