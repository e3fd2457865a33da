"""What waits for a person when a run falls quiet, and how is it decided?"""

import shlex

from harnessd.cli.output import Output
from harnessd.facts.state import State


def tell_waiting(agent: str, state: State, out: Output) -> None:
    """Names each approval that waits with the commands that decide it; nothing if none does."""
    if out.as_json:
        return  # the events say it
    for approval in state.pending_approvals:
        out.note(f"waiting for you: {out.side.bold(approval.id)}")
        out.note(f"  harnessd approve {shlex.quote(agent)} {approval.id}")
        out.note(f"  harnessd deny {shlex.quote(agent)} {approval.id}")
    if state.queue:
        out.note(f"{len(state.queue)} message(s) wait in the queue until this run has ended")
    run = state.active_run
    if run is not None and not state.pending_approvals:
        out.note(f"the run {run.run_id} is {run.status.replace('_', ' ')}; it waits in session {state.session_id}")
