"""What waits for a person when a run falls quiet, and how is it decided?"""

import shlex

from harnessd.cli.output import Output
from harnessd.cli.question import HELD, options
from harnessd.cli.reach import Accepted
from harnessd.cli.render import approval_text, call_text
from harnessd.cli.standing import Standing
from harnessd.facts.state import State
from harnessd.facts.view import view


def tell_waiting(agent: str, state: State, out: Output) -> None:
    """Names each approval that waits with the commands that decide it; nothing if none does."""
    if out.as_json:
        return  # the events say it
    seen = view(state)
    below = tuple(one.approval for one in seen.approval_banner.below)
    for approval in below:
        out.note(approval_text(approval, out.side))  # asked for in a session that is not on the screen
    for approval in (*seen.approval_banner.approvals, *below):
        out.note(f"waiting for you: {out.side.bold(approval.id)}")
        asked = approval.question
        out.note(f"  harnessd approve {shlex.quote(agent)} {approval.id}{options(asked) if asked else ''}")
        out.note(f"  harnessd deny {shlex.quote(agent)} {approval.id}")
        if asked is not None and asked.way == "held":
            out.note(f"  {HELD}")
    if seen.run_status == "parked":
        out.note(f"the run {seen.run_id} is parked: it was interrupted and goes on when you say so")
        out.note(f"  harnessd approve {shlex.quote(agent)} {seen.run_id}")
    elif state.queue:
        out.note(f"{len(state.queue)} message(s) wait in the queue until this run has ended")
    elif seen.run_id and not seen.approval_banner.count:
        said = seen.run_status.replace("_", " ")
        out.note(f"the run {seen.run_id} is {said}; it waits in session {state.session_id}")


def tell_queued(answer: Accepted, state: State, when_busy: str, out: Output) -> None:
    """Says that a message waits, and shows the approvals that it waits for; nothing if it is read at once."""
    if answer.run_id is not None or out.as_json:
        return
    banner = view(state).approval_banner
    asked = (*banner.approvals, *(one.approval for one in banner.below))
    standing_before = [approval for approval in asked if approval.id in answer.waiting_for]
    if standing_before:
        out.note(out.side.odd("the message waits until this is decided:"))
        for approval in standing_before:
            out.note(approval_text(approval, out.side))
    elif when_busy == "steer":
        out.note(out.side.odd("something runs; the message enters before its next turn"))
    else:
        out.note(out.side.odd("something runs; the message waits its turn"))


def tell_way_on(agent: str, how: Standing, out: Output) -> None:
    """What a person can do about a session that waits or is parked, as lines below its own."""
    for approval in how.approvals:
        call, asked = call_text(approval.tool_name, approval.arguments), approval.question
        way = f"harnessd approve {shlex.quote(agent)} {approval.id}{options(asked) if asked else ''}"
        out.line(f"  {out.style.odd('?')} {call}  {way}")
    if how.status == "parked":
        out.line(f"  {out.style.odd('?')} it goes on with: harnessd approve {shlex.quote(agent)} {how.run_id}")
