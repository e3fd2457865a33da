"""Which commands run in the background, for which session, and how do they end?

A job belongs to its session: it ends by itself, when it is stopped, when its time is over, when a run of the session
is stopped and when the session is let go. It lives in this process alone; after a restart it is gone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup, TaskStatus

from harnessd.ids import new_id
from harnessd.sandbox.bubblewrap import Sandbox, Unavailable
from harnessd.tools.output import Cleaner, Kept
from harnessd.tools.shell import follow

AT_ONCE = 8
"""Jobs of one session that may run at the same time."""

ENDED_KEPT = 32
"""Jobs of one home that ended and can still be looked at."""

HEAD, TAIL = 20_000, 180_000
"""Characters of a job's output that are kept between two looks: of the beginning and of the end."""


@dataclass(eq=False)
class Job:
    """One command in the background. `sandbox` is what it was begun in, whatever the home grants by now.

    `ended` says how it ended, empty while it runs; `told`: the model knows that.
    """

    id: str
    session_id: str
    command: str
    sandbox: Sandbox
    began: float = field(default_factory=time.monotonic)
    took: float = 0.0
    status: int | None = None
    ended: str = ""
    told: bool = False
    output: Kept = field(default_factory=lambda: Kept(HEAD, TAIL))
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)

    @property
    def seconds(self) -> float:
        """How long it has been running, or ran."""
        return self.took if self.ended else time.monotonic() - self.began


@dataclass(frozen=True, slots=True)
class TooMany:
    """The session has so many jobs already; nothing was started."""

    running: tuple[str, ...]


class Jobs:
    """The jobs of one home. `tasks` is where they live, beyond the call and the run that began them."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._jobs: dict[str, Job] = {}

    async def start(
        self, session_id: str, sandbox: Sandbox, command: str, line: Sequence[str], *, seconds: float
    ) -> Job | TooMany | Unavailable:
        """Begins `line`, which may run that many seconds; `command` is what it is called. Returns once it runs."""
        running = tuple(job.id for job in self._living(session_id))
        if len(running) >= AT_ONCE:
            return TooMany(running)
        job = Job(new_id("job"), session_id, command, sandbox)
        self._jobs[job.id] = job
        refused: Unavailable | None = await self._tasks.start(self._live, job, line, seconds)
        if refused is not None:
            del self._jobs[job.id]
            return refused
        return job

    def find(self, session_id: str, job_id: str) -> Job | None:
        """The session's job of that id, running or ended."""
        job = self._jobs.get(job_id)
        return job if job is not None and job.session_id == session_id else None

    def of(self, session_id: str) -> tuple[Job, ...]:
        """All that are known of a session, in the order of their beginning."""
        return tuple(job for job in self._jobs.values() if job.session_id == session_id)

    def running(self, session_id: str) -> bool:
        """Whether any of the session's jobs runs."""
        return any(self._living(session_id))

    async def stop(self, job: Job) -> None:
        """Ends a job; returns when nothing of it is alive."""
        job.scope.cancel()
        await job.over.wait()

    def stop_all(self, session_id: str) -> bool:
        """Begins to end all jobs of a session, without waiting; whether there were any."""
        living = self._living(session_id)
        for job in living:
            job.scope.cancel()
        return bool(living)

    async def close(self, session_id: str) -> None:
        """Ends all jobs of a session; returns when nothing of them is alive."""
        for job in self._living(session_id):
            await self.stop(job)

    def forget(self, session_id: str) -> None:
        """Drops what is kept of a session's jobs that ended."""
        for job in self.of(session_id):
            if job.ended:
                del self._jobs[job.id]

    def _living(self, session_id: str) -> tuple[Job, ...]:
        return tuple(job for job in self.of(session_id) if not job.ended)

    async def _live(
        self,
        job: Job,
        line: Sequence[str],
        seconds: float,
        *,
        task_status: TaskStatus[Unavailable | None],
    ) -> None:
        """One job from its start to its end, whatever that is; says at once if it could not be started."""
        cleaner, ended, began = Cleaner(), "stopped", False
        try:
            with job.scope:
                async with job.sandbox.start(line) as started:
                    if isinstance(started, Unavailable):
                        began = True
                        task_status.started(started)
                        return
                    began = True
                    task_status.started(None)
                    await started.close_input()
                    with anyio.move_on_after(seconds) as time_over:
                        job.status = await follow(started, lambda data: job.output.add(cleaner.feed(data)))
                ended = f"its time of {seconds:g} s was over" if time_over.cancelled_caught else f"exit {job.status}"
        except Exception as error:  # noqa: BLE001 - the named place of one tool call, which goes on after its result
            ended = f"{type(error).__name__}: {error}"
        finally:
            job.output.add(cleaner.feed(b"", last=True))
            job.took, job.ended = job.seconds, ended
            job.over.set()
            self._drop_old()
        if not began:
            task_status.started(
                Unavailable(f"the command was not begun ({ended})", "see what is missing: harnessd doctor")
            )

    def _drop_old(self) -> None:
        """Of the jobs that ended, the oldest make room."""
        ended = [job for job in self._jobs.values() if job.ended]
        for job in ended[: max(0, len(ended) - ENDED_KEPT)]:
            del self._jobs[job.id]
