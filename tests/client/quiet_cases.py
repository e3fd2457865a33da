"""States of a session, and whether something is at work in each."""

from harnessd.facts.message import ToolCall, UserMessage
from harnessd.facts.run import SubagentRef
from harnessd.facts.state import ActiveRun, OpenCall, Queued, State


def run(status: str, *calls: str, **more: object) -> State:
    entries = tuple(
        OpenCall(call=ToolCall(id=f"call_{n}"), status=one)
        for n, one in enumerate(calls)  # type: ignore[arg-type]
    )
    return State(active_run=ActiveRun(run_id="run_1", status=status, calls=entries), **more)  # type: ignore[arg-type]


def queued(**more: object) -> State:
    return State(queue=(Queued(message=UserMessage(id="m"), **more),))  # type: ignore[arg-type]


WAITING_BELOW = (SubagentRef(id="sub", parent_tool_call_id="call_0", status="waiting"),)

CASES: tuple[tuple[str, State, bool], ...] = (
    ("nothing ever happened", State(), True),
    ("a message waits to be read", queued(), False),
    ("a message waits for a person", queued(parked=True), True),
    ("a parked message was stopped, which still has to be recorded", queued(parked=True, stopped=True), False),
    ("a run", run("running"), False),
    ("a run that is stopping", run("stopping"), False),
    ("a run that is parked", run("parked", "pending"), True),
    ("all waits for a person", run("waiting_approval", "waiting_approval", "finished"), True),
    ("beside what waits something runs", run("waiting_approval", "waiting_approval", "running"), False),
    ("beside what waits something is about to run", run("waiting_approval", "waiting_approval", "pending"), False),
    ("a subagent waits for a person", run("waiting_approval", "running", subagents=WAITING_BELOW), True),
    ("and beside it something runs", run("waiting_approval", "running", "running", subagents=WAITING_BELOW), False),
)
