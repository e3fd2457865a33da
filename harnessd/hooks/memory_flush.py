"""after_run: the journal is closed to its last byte before anything is built on it."""

from harnessd.hooks.context import RunContext


async def after_run(context: RunContext) -> None:
    """Waits until every fact of the run is on disk."""
    await context.ledger.barrier()
