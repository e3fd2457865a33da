"""Events to test with: one of every kind with every field set, and sessions as a runtime would write them."""

import random
import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from harnessd.facts.event import (
    EVENT_TYPES,
    CheckpointWritten,
    ContextCompacted,
    ContextTruncated,
    Event,
    HomeChanged,
    MessageCreated,
    MessageQueued,
    RunFinished,
    RunResumed,
    RunStarted,
    RunStopRequested,
    SessionCreated,
    StateUpdated,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    TurnFinished,
    TurnRetried,
    TurnStarted,
)
from harnessd.facts.fold import fold
from harnessd.facts.message import AssistantMessage, TextPart, ToolCall, ToolMessage, Usage, UserMessage
from harnessd.facts.run import Approval, Decision, Failure, Trigger
from harnessd.facts.state import State


def one_of_each() -> list[Event]:
    """An event of every type, every field set to something that is not its default."""
    return [full(kind, seq) for seq, kind in enumerate(EVENT_TYPES.values(), 1)]


def full(model: type[Any], seq: int = 1) -> Any:
    """`model` with every field set."""
    values = {name: _value(name, field.annotation, field.default) for name, field in model.model_fields.items()}
    if issubclass(model, Event):
        values |= {"seq": seq, "v": 1, "at": "2026-11-30T12:00:00.000Z"}
    return model(**values)


def _value(name: str, kind: Any, default: Any = PydanticUndefined) -> Any:
    while get_origin(kind) is not None and hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return arguments[-1]
    if origin in (Union, types.UnionType):
        return _value(name, next(one for one in arguments if one is not type(None)))
    if origin is tuple:
        return (_value(name, arguments[0]),)
    if origin is dict or kind is dict:
        return {"text": 'ü\n"\\ \u2028 🐈', "none": None, "deep": {"list": [1, -2.5, True, None, 2**70]}}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return full(kind)
    if kind is bool:
        return default is not True
    return {int: 7, float: 0.25, str: f'{name} ü\n"🐈'}[kind]


def session(rng: random.Random, runs: int = 3) -> list[Event]:
    """A session as a runtime would write it, unnumbered: parallel calls that end in any order, approvals, stops,
    retries, compactions, messages that wait, runs that break off and are resumed."""
    return _Writer(rng).session(runs)


def numbered(events: list[Event]) -> list[Event]:
    """The events with seq 1, 2, 3 … and an envelope."""
    envelope = {"at": "2026-11-30T12:00:00.000Z", "session_id": "ses_1", "agent_id": "main"}
    return [event.model_copy(update={"seq": seq, **envelope}) for seq, event in enumerate(events, 1)]


def folded(events: list[Event], state: State | None = None) -> State:
    """The state after the events."""
    state = state or State()
    for event in events:
        state = fold(state, event)
    return state


def fault_of(state: State) -> str | None:
    """What is wrong with the pairing of calls and results in `messages`; None if nothing is (guarantee F4).

    Every call has exactly one result, adjacent and in the order of the calls; only the calls of the open turn,
    if they are the last, may still lack some at the end. Ids are unique.
    """
    messages = list(state.messages)
    ids = [message.id for message in messages]
    if len(set(ids)) != len(ids):
        return f"ids repeat: {sorted(one for one in ids if ids.count(one) > 1)}"
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if isinstance(message, ToolMessage):
            return f"a result of {message.tool_call_id} without its call in front of it"
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if at == len(messages):
                open_calls = state.active_run.calls if state.active_run else ()
                if call.id not in {entry.call.id for entry in open_calls if entry.call.id}:
                    return f"{call.id} has no result and is not open"
                continue
            result = messages[at]
            if not isinstance(result, ToolMessage) or result.tool_call_id != call.id:
                return f"behind {call.id} stands {result.id}"
            at += 1
    return None


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.events: list[Event] = []
        self.count = 0
        self.messages: list[str] = []

    def session(self, runs: int) -> list[Event]:
        self.events.append(SessionCreated(title="A session"))
        for number in range(runs):
            self.run(f"run_{number}")
        return self.events

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"

    def say(self, message: UserMessage | AssistantMessage, **more: Any) -> None:
        self.messages.append(message.id)
        self.events.append(MessageCreated(message=message, **more))

    def run(self, run_id: str) -> None:
        rng, add = self.rng, self.events.append
        asked = UserMessage(id=self.new("msg"), parts=(TextPart(text="do it"),))
        if rng.random() < 0.3:
            add(MessageQueued(message=asked, when="queue", workspace_context={"file": "a.py"}))
        add(RunStarted(run_id=run_id, trigger=Trigger(message_id=asked.id), model="m", pin="p"))
        self.say(asked, run_id=run_id)
        for number in range(rng.randint(1, 4)):
            if rng.random() < 0.15:
                add(RunResumed(run_id=run_id))
            if rng.random() < 0.2:
                self.shorten(run_id)
            if rng.random() < 0.2:
                add(HomeChanged(run_id=run_id, pin=self.new("pin")))
                self.say(UserMessage(id=self.new("msg"), kind="note"), run_id=run_id)
            self.turn(run_id, f"turn_{run_id}_{number}", number)
        if rng.random() < 0.2:
            add(RunStopRequested(run_id=run_id, scope=rng.choice(["run", "session"])))
        if rng.random() < 0.9:
            add(RunFinished(run_id=run_id, reason=rng.choice(["completed", "stopped", "failed"])))
        if rng.random() < 0.3:
            add(CheckpointWritten(at_seq=1))
            add(
                StateUpdated(patch={"title": "T", "todos": [{"id": "t", "text": "x"}], "workspaceContext": {"a": None}})
            )

    def shorten(self, run_id: str) -> None:
        keep = self.rng.choice([*self.messages, ""])
        if self.rng.random() < 0.5:
            summary = UserMessage(id=self.new("msg"), kind="summary")
            self.events.append(ContextCompacted(run_id=run_id, summary=summary, keep_from=keep, tokens_after=9))
        else:
            self.events.append(ContextTruncated(run_id=run_id, keep_from=keep))

    def turn(self, run_id: str, turn_id: str, number: int) -> None:
        rng, add = self.rng, self.events.append
        of: dict[str, Any] = {"run_id": run_id, "turn_id": turn_id}
        usage = Usage(input_tokens=10, output_tokens=3, cost=0.25)
        add(TurnStarted(**of, number=number, context_window=1000))
        if rng.random() < 0.2:
            add(TurnRetried(**of, attempt=1, failure=Failure(kind="rate_limit"), usage=usage))
        calls = tuple(ToolCall(id=self.new("call"), name="read", arguments="{}") for _ in range(rng.randint(0, 4)))
        message = AssistantMessage(id=self.new("msg"), parts=(TextPart(text="so"),), tool_calls=calls)
        self.say(message, **of, usage=usage)
        waiting = list(calls)
        rng.shuffle(waiting)
        for call in waiting:
            add(ToolCallCreated(**of, tool_call_id=call.id, tool_name="read", arguments={}, action_hash=call.id))
            if rng.random() < 0.3:
                self.approve(of, call)
        rng.shuffle(waiting)
        for call in waiting:
            if rng.random() < 0.7:
                add(ToolCallRunning(**of, tool_call_id=call.id, decision=Decision(verdict="allow")))
        rng.shuffle(waiting)
        for call in waiting:
            status = rng.choice(["ok", "error", "invalid", "denied", "cancelled"])
            add(ToolCallCompleted(**of, tool_call_id=call.id, tool_name="read", status=status, changed=True))
        add(TurnFinished(**of, usage=usage, duration_ms=5))

    def approve(self, of: dict[str, Any], call: ToolCall) -> None:
        approval = Approval(id=self.new("apr"), tool_call_id=call.id, tool_name="read", **of)
        self.events.append(ToolApprovalRequired(**of, approval=approval))
        outcome = self.rng.choice(["allowed", "denied", "expired", "cancelled"])
        scope = self.rng.choice(["once", "session"])
        if self.rng.random() < 0.8:
            resolved = ToolApprovalResolved(
                **of, approval_id=approval.id, tool_call_id=call.id, outcome=outcome, scope=scope
            )
            self.events.append(resolved)
