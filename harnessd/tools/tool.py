"""What a tool is, what it is given, and what it gives back."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from harnessd.facts.event import Event
from harnessd.facts.message import CallStatus, JsonObject, Origin, Part, TextPart
from harnessd.facts.run import ArtifactRef, Failure, Question
from harnessd.facts.state import QuestionAnswer
from harnessd.home.definition import Definition
from harnessd.home.door import Author, Cause, Door
from harnessd.home.layout import Home
from harnessd.permissions.call import Target
from harnessd.permissions.paths import Roots
from harnessd.tools.arguments import BadSchema, Validate, compile_schema
from harnessd.tools.seen import Seen

Kind = Literal["builtin", "script", "mcp"]
Effect = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Produced:
    """A file that a call brought along with its text; it is kept as an artifact and referred to in the result.

    `name` and `media_type` are what its maker says, which need not be true. Its reference goes before the part `at`.
    """

    name: str
    data: bytes
    media_type: str = "application/octet-stream"
    title: str = ""
    at: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a call gave. `changed`: it brought something new. `events` are recorded with the result, `files` kept.

    `commit` names the change of the home and `wrote` its path and the blob now on disk; `origin` is where the
    text came from: what the harness itself says is the agent's own.
    """

    status: CallStatus = "ok"
    parts: tuple[Part, ...] = ()
    changed: bool = False
    commit: str | None = None
    origin: Origin = "agent"
    failure: Failure | None = None
    events: tuple[Event, ...] = ()
    wrote: tuple[str, str] | None = None
    files: tuple[Produced, ...] = ()


@dataclass(frozen=True)
class StillOpen:
    """The call has no result yet: what it began waits elsewhere, for `approvals`. It is run again when that goes on."""

    approvals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asks:
    """The call has no result yet: a person is asked first. Then it is run again, with the answers in its context."""

    questions: tuple[Question, ...]


class NobodyToAsk(Exception):
    """A question came up where none can be: outside a call, or after it."""


async def ask_nobody(question: Question) -> QuestionAnswer:
    """For calls that nobody stands by; raises `NobodyToAsk`."""
    raise NobodyToAsk("nobody can be asked here")


def succeeded(text: str, *, changed: bool = False, commit: str | None = None, origin: Origin = "agent") -> Outcome:
    """A result that is one text."""
    return Outcome("ok", (TextPart(text=text),), changed=changed, commit=commit, origin=origin)


def failed(kind: str, message: str, *, status: CallStatus = "error", origin: Origin = "agent") -> Outcome:
    """An expected failure; `message` is for the model and for people, `kind` for programs."""
    return Outcome(status, (TextPart(text=message),), origin=origin, failure=Failure(kind=kind, message=message))


@dataclass(frozen=True)
class Preview:
    """What a call would change: the diff for a person, and the blob it was made from (None: a new file)."""

    diff: str
    base: str | None


@dataclass(frozen=True)
class ToolContext:
    """What a call is given. `cause` goes into commits; `deadline` is in `time.monotonic` seconds.

    `origin` is the lowest one in what the model has seen. `definition` is the home as it stands now. `seen`
    remembers which version of a file this session read. `found` are the tools found in it, `artifacts` what it
    produced so far. `targets` are the places that the gate decided about; a tool touches no others. `approved` says
    that a person allowed this call, `base` which blob that approval was bound to. `answers` are those that a person
    gave to earlier questions of this call; `ask` puts one while the call waits and lives.
    """

    home: Home
    session_id: str
    agent_id: str
    run_id: str
    turn_id: str
    call_id: str
    author: Author
    cause: Cause
    door: Door
    roots: Roots
    definition: Definition
    seen: Seen
    user_id: str | None = None
    origin: Origin = "remote"
    found: tuple[str, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    idempotency_key: str = ""
    deadline: float | None = None
    delta: Callable[[str], None] = field(default=lambda _: None)
    targets: tuple[Target, ...] = ()
    approved: bool = False
    base: str | None = None
    answers: tuple[QuestionAnswer, ...] = ()
    ask: "Ask" = ask_nobody

    def decided(self, targets: tuple[Target, ...], *, approved: bool, base: str | None) -> "ToolContext":
        """The same, bound to what was decided."""
        return replace(self, targets=targets, approved=approved, base=base)

    def seconds_left(self) -> float | None:
        """Seconds until the run's deadline; None if it has none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


Ask = Callable[[Question], Awaitable[QuestionAnswer]]
Run = Callable[[ToolContext, JsonObject], Awaitable[Outcome | StillOpen | Asks]]
Targets = Callable[[ToolContext, JsonObject], tuple[Target, ...]]
EffectFor = Callable[[JsonObject], Effect]
MakePreview = Callable[[ToolContext, JsonObject], Preview | Outcome | None]
"""An `Outcome` says that the call would fail, so nobody needs to be asked."""


def no_targets(context: ToolContext, arguments: JsonObject) -> tuple[Target, ...]:
    """For tools that touch no file of the home or of a working folder."""
    return ()


def no_preview(context: ToolContext, arguments: JsonObject) -> Preview | None:
    """For tools whose effect cannot be shown beforehand."""
    return None


@dataclass(frozen=True, eq=False)
class Tool:
    """Something the model can call.

    `name` is as offered, `own_name` as its maker calls it. `input_schema` is never altered. An unmarked tool is a
    writer, not idempotent and not concurrency-safe. `effect_for` marks each call by its arguments where they decide
    whether it only reads; without it `effect` holds for all. `timeout` is in seconds. `targets` may look at a few paths
    (it is called on the event loop, since a thread's hand-over would cost more), `preview` may read files (it is called
    in a thread). `server` names the MCP server it comes from.
    """

    name: str
    own_name: str
    kind: Kind
    description: str
    input_schema: JsonObject
    run: Run
    effect: Effect = "write"
    effect_for: EffectFor | None = None
    idempotent: bool = False
    concurrency_safe: bool = False
    origin: Origin = "local"
    timeout: float = 60.0
    server: str | None = None
    targets: Targets = no_targets
    preview: MakePreview = no_preview

    def effect_of(self, arguments: JsonObject) -> Effect:
        """Whether a call with these arguments, which fit the schema, only reads."""
        return self.effect if self.effect_for is None else self.effect_for(arguments)

    @cached_property
    def check(self) -> Validate | BadSchema:
        """The compiled schema, made at the first call: it takes longer than a turn."""
        return compile_schema(self.input_schema)
