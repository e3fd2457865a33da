"""before_run, before_model: which commands in the background ended, for the model to be told."""

from dataclasses import dataclass

from harnessd.hooks.context import RunContext
from harnessd.tools.jobs import Jobs


@dataclass(frozen=True)
class EndedJobs:
    """Tells of each job once, and not of one whose end the model has seen by itself."""

    jobs: Jobs

    async def take_up(self, context: RunContext) -> None:
        """Puts it among the notes that come before the next turn."""
        for job in self.jobs.of(context.state.session_id):
            if job.ended and not job.told:
                job.told = True
                context.notes.append(f"The background job {job.id} ended: {job.ended}. A look tells what it printed.")
