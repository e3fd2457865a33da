"""What does a session answer to a control?"""

from dataclasses import dataclass

from harnessd.facts.event import Event
from harnessd.facts.run import Approval
from harnessd.home.portrait import Portrait


@dataclass(frozen=True, slots=True)
class Accepted:
    """The control is on disk. `run_id` is the run that it starts or is about, None if it waits in the queue.

    `waiting_for` are the approvals that must be decided before a queued message gets its turn; `portrait` answers
    a reload.
    """

    run_id: str | None
    seq: int
    waiting_for: tuple[str, ...] = ()
    portrait: Portrait | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The control changed nothing. `status` is the HTTP status it stands for, `current` what stands now."""

    status: int
    message: str
    current: Event | Approval | int | None = None
