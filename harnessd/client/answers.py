"""What the daemon answers, as frozen records; what a newer one adds is kept."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Approval
from harnessd.facts.state import State
from harnessd.facts.view import View


class Snapshot(Record):
    """A session as of `seq`: all of it is on the daemon's disk."""

    state: State = Field(default_factory=State)
    view: View = Field(default_factory=View)
    seq: int = 0


class Agent(Record):
    """An agent in the list of all, and how many approvals wait for a person."""

    name: str = ""
    waiting: int = 0


class AgentPortrait(Record):
    """An agent as its home describes it; the rest of the daemon's answer is in `model_extra`."""

    agent: str = ""
    title: str = ""
    description: str = ""
    model: str | None = None
    pin: str = ""
    head: str | None = None
    dirty: bool = False
    sessions: int = 0
    waiting: int = 0


class SessionEntry(Record):
    """A session in the list of an agent's: `status` is that of its run, or why its last one ended; `waiting` counts
    approvals; `reason` says why it can't be read. Times are RFC 3339."""

    session_id: str = ""
    agent_id: str = "main"
    title: str = ""
    status: str = ""
    waiting: int = 0
    started_at: str = ""
    last_at: str = ""
    last_seq: int = 0
    user_id: str | None = None
    reason: str | None = None


class SessionPage(Record):
    """Some sessions, newest first; those `before` the session `next` come after them, if there are any."""

    sessions: tuple[SessionEntry, ...] = ()
    next: str | None = None


class TranscriptPage(Record):
    """Some of a session's history as messages, oldest first; `before` is the seq to ask the page before this with."""

    messages: tuple[JsonObject, ...] = ()
    before: int | None = None


class WaitingApproval(Record):
    """An approval that waits for a person, and the session in which it is decided."""

    home: str = ""
    agent_id: str = ""
    session_id: str = ""
    title: str = ""
    user_id: str | None = None
    approval: Approval = Approval()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The control is on disk. `run_id` is the run that it starts or is about, None if it waits in the queue;
    `waiting_for` says for what."""

    run_id: str | None
    seq: int
    waiting_for: tuple[str, ...] = ()
    portrait: AgentPortrait | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The control changed nothing. `status` is the HTTP status, `current` what stands now: a decision on record
    (an event), an approval, or a seq."""

    status: int
    message: str
    current: Any = None
    hint: str | None = None
