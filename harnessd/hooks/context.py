"""What one run works with: filled by the hooks before it begins, renewed before each turn."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

import anyio

from harnessd.facts.event import Event, HomeProblem, McpConnected, McpFailed
from harnessd.facts.run import Budget, Mode, Parent, ProblemNote, SubagentRef, Trigger
from harnessd.facts.state import ActiveRun, State
from harnessd.home.definition import Definition
from harnessd.home.layout import Home
from harnessd.home.pin import Pinned
from harnessd.home.problem import Problem
from harnessd.home.settings import AgentSettings
from harnessd.home.subagents import Subagent
from harnessd.home.tools_file import ToolsFile
from harnessd.journal.bus import Subscription
from harnessd.permissions.paths import Roots
from harnessd.permissions.rules import RuleSet, denied_whole
from harnessd.tools.patience import paused
from harnessd.tools.recorder import Recorder
from harnessd.tools.seen import Seen
from harnessd.tools.tool import Tool
from harnessd.tools.toolbox import Toolbox


class SessionRecord(Recorder, Protocol):
    """What a run needs of its session's record; `journal.ledger.Ledger` is the one that is used."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    def flush(self) -> int:
        """Begins to put what is recorded on disk, and returns the last seq of it."""
        ...

    async def barrier(self, seq: int | None = None) -> int:
        """Returns once everything up to `seq` (None: all that is recorded) is on disk."""
        ...

    async def checkpoint(self) -> None:
        """Saves the state as of now."""
        ...


@dataclass(slots=True)
class RunContext:
    """One run's working set. Only hooks change it; the loop and the tools read it.

    Everything that must survive the process is a fact in `ledger`; this is what can be made again from the
    home. `definition` is None until the home was read. `notes` are what the model has to be told before its next
    turn. `api_base` is the operator's address for `api_models`, for the run's own model if there are none.
    `resumed` says why the run goes on, None that it begins, and `interrupted_at` since when it did not. `pausing` asks
    it to wait after the present turn, `end_below` ends a subagent that outlived the run. `interruptible` is the scope
    that a stop or a deadline cancels. `tools_from` is what the offered tools were made from, `servers_told` what is on
    record of the servers, `own_writes` the blob of each file that this run wrote itself, `request` the user's own
    words, `seen` which versions of files the session read, `flushed` the seq that must be on disk before the model is
    told more, `stir` says that what the run waits for may have changed, `news` gives every event after a seq as it
    comes (None: there will be none).

    `given_model` is the one that was asked for with the run, in place of the home's own.

    A subagent's run has the run that it works for in `above`, in `line` the subagents from the main agent's delegate
    down to itself, and in `allowance` what it may spend of its parent's budget. `below` are the subagents at work for
    this run, each with what stops it; `permitted` the tools that those above and the agent's own header leave to it,
    `whole` the home as the main agent reads it.
    """

    home: Home
    ledger: SessionRecord
    run_id: str
    trigger: Trigger
    resumed: Literal["restart", "approval", "continue"] | None = None
    interrupted_at: str = ""
    pausing: bool = False
    end_below: Callable[[SubagentRef], Awaitable[SubagentRef]] | None = None
    parent: Parent | None = None
    above: "RunContext | None" = None
    line: tuple[Subagent, ...] = ()
    allowance: Budget = field(default_factory=Budget)
    below: dict[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    permitted: frozenset[str] = frozenset()
    helpers_from: Definition | None = None
    pinned: Pinned | None = None
    definition: Definition | None = None
    whole: Definition | None = None
    prompt: str = ""
    model: str = ""
    given_model: str = ""
    api_base: str | None = None
    api_models: frozenset[str] = frozenset()
    mode: Mode = "default"
    budget: Budget = field(default_factory=Budget)
    rules: tuple[RuleSet, ...] = ()
    tools_from: tuple[ToolsFile, tuple[AgentSettings, ...], tuple[Tool, ...]] | None = None
    servers_told: dict[str, McpConnected | McpFailed] = field(default_factory=dict)
    roots: tuple[AgentSettings, Roots] | None = None
    own_writes: dict[str, str] = field(default_factory=dict)
    request: str | None = None
    seen: Seen = field(default_factory=Seen)
    notes: list[str] = field(default_factory=list)
    interruptible: anyio.CancelScope | None = None
    sent_back: int = 0
    flushed: int = 0
    stir: Callable[[], None] = lambda: None
    news: Callable[[int], Subscription] | None = None
    turn_began: float = field(default_factory=time.monotonic)
    _offered: dict[str, tuple[Tool, ...]] = field(default_factory=dict)
    _asking: int = 0
    _toolbox: tuple[tuple[RuleSet, ...], Toolbox] | None = None

    @property
    def turn_seconds(self) -> float:
        """How long the open turn has been worked on in this process; 0 between turns."""
        return time.monotonic() - self.turn_began if self.run.turn_open else 0.0

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """The run's time does not pass while the block runs: a person is asked, and calls wait for the answer."""
        self._asking += 1
        began, scope = time.monotonic(), self.interruptible
        if self._asking > 1 or scope is None:
            try:
                yield
            finally:
                self._asking -= 1
            return
        with paused(scope):
            try:
                yield
            finally:
                self._asking -= 1
                self.turn_began += time.monotonic() - began

    @property
    def stopping(self) -> bool:
        """Whether the run is under way and was asked to stop."""
        run = self.ledger.state.active_run
        return run is not None and run.status == "stopping"

    def address_of(self, model: str) -> str | None:
        """The operator's address for `model`: it is that of the operator's own model and of no other."""
        return self.api_base if model in (self.api_models or {self.model}) else None

    @property
    def state(self) -> State:
        """What is true in the session now."""
        return self.ledger.state

    @property
    def run(self) -> ActiveRun:
        """The run itself, as the facts tell it."""
        run = self.ledger.state.active_run
        assert run is not None, "called outside a run"  # noqa: S101
        return run

    @property
    def home_now(self) -> Definition:
        """The home as this turn reads it."""
        assert self.definition is not None, "called before the home was read"  # noqa: S101
        return self.definition

    @property
    def whole_now(self) -> Definition:
        """The home as the main agent reads it: what the operator trusts or not."""
        assert self.whole is not None, "called before the home was read"  # noqa: S101
        return self.whole

    @property
    def asked_mode(self) -> Mode:
        """The mode that the session or the agent's header asks for; a subagent that asks for none has its parent's."""
        above = self.above.asked_mode if self.above else "default"
        return self.state.mode or self.home_now.settings.mode or above

    @property
    def toolbox(self) -> Toolbox:
        """What can be called now: everything on offer but the tools that a rule denies whole."""
        if self._toolbox is None or self._toolbox[0] is not self.rules:
            rules = self.rules
            tools = [tool for group in self._offered.values() for tool in group]
            self._toolbox = (rules, Toolbox(tools, hidden=lambda tool: denied_whole(rules, tool)))
        return self._toolbox[1]

    def offer(self, group: str, tools: tuple[Tool, ...]) -> None:
        """Puts a hook's tools on offer in place of those that it offered before."""
        if self._offered.get(group) != tools:
            self._offered[group] = tools
            self._toolbox = None

    def problem(self, problem: Problem) -> None:
        """Records something odd that changes what the agent is or can do, once in a run."""
        note = ProblemNote(**{name: getattr(problem, name) for name in ProblemNote.model_fields})
        if note not in self.state.problems:
            self.record(HomeProblem(problem=note))

    def record(self, event: Event) -> Event:
        """Records a fact of this run and, unless it names another, of its present turn."""
        active = self.ledger.state.active_run
        turn_id = event.turn_id or (active.turn_id if active else None)
        return self.ledger.record(event.model_copy(update={"run_id": self.run_id, "turn_id": turn_id}))
