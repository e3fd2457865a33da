"""Which exit code tells how it ended?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harnessd.facts.state import State

COMPLETED, USAGE, WAITING, LIMIT, FAILED, STOPPED = 0, 2, 3, 4, 5, 130

_BY_REASON = {"completed": COMPLETED, "failed": FAILED, "stopped": STOPPED}


def exit_code(state: "State") -> int:
    """The code for a session that fell quiet: something waits for a person, or how the last run ended."""
    if state.pending_approvals or state.active_run is not None:
        return WAITING
    return COMPLETED if state.last_run is None else _BY_REASON.get(state.last_run.reason, LIMIT)
