"""after_run: saves the state beside the journal, so that the session opens fast next time.

Restoring, the other half, is `Ledger.open`: checkpoint plus the journal's tail.
"""

from harnessd.hooks.context import RunContext

EVENTS_BETWEEN = 200
"""A checkpoint is written when that many events have come since the last: its cost stays small beside theirs."""


async def after_run(context: RunContext) -> None:
    """Writes a checkpoint if enough has happened since the last one."""
    last = context.state.checkpoint.seq if context.state.checkpoint else 0
    if context.state.seq - last >= EVENTS_BETWEEN:
        await context.ledger.checkpoint()
