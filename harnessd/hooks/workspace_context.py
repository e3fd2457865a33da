"""before_run, before_model: pins the home and turns it into the prompt.

A run begins here, because what begins a run is the pin: `run.started` names the tree that it reads. When the
home changes under a run, `home.changed` names the new pin; the model is told by a note, and the prompt that it
was given stays as it is.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import anyio
import orjson

from harnessd.facts.event import HomeChanged, RunResumed, RunStarted
from harnessd.facts.message import UserMessage, text_of
from harnessd.facts.run import Budget, Mode
from harnessd.facts.state import OpenCall
from harnessd.home.as_subagent import as_subagent
from harnessd.home.definition import Definition
from harnessd.home.frames import defused, framed, one_line
from harnessd.home.index import index_of
from harnessd.home.pin import Pinned, Pinner
from harnessd.home.problem import Problem
from harnessd.home.prompt import FILE, shown_file, user_memory_path
from harnessd.home.reader import DefinitionReader
from harnessd.home.roles import helper
from harnessd.home.settings import AgentSettings
from harnessd.hooks.context import RunContext
from harnessd.permissions.modes import narrower

NOTES_LOOKED_AT = 60
"""How many of the last messages are searched for a note that says the same already."""

PATHS_TOLD = 100
"""How many changed files a note names."""


class Limits(Protocol):
    """The operator's ceilings."""

    @property
    def mode(self) -> Mode:
        """The widest mode."""
        ...

    @property
    def budget(self) -> Budget:
        """The largest budget."""
        ...


@dataclass(frozen=True)
class WorkspaceContext:
    """Reads the home. `resolve_model` says which model answers, given what the home asks for.

    `within_trust` takes away what a home grants itself before the operator has trusted it.
    """

    pinner: Pinner
    reader: DefinitionReader
    resolve_model: Callable[[AgentSettings], Awaitable[str]]
    limits: Limits
    tightest: Callable[[Budget, Budget], Budget]
    now: Callable[[], datetime]
    within_trust: Callable[[Definition], Definition]

    async def before_run(self, context: RunContext) -> None:
        """Pins, renders the prompt and records that the run began, or that it goes on."""
        await self._read(context)
        settings = context.home_now.settings
        context.prompt = context.home_now.prompt
        context.model = context.model or await self._model(context, settings)
        self._narrow(context, settings)
        pinned = _pinned(context)
        active = context.state.active_run
        if active is None:
            context.record(
                RunStarted(
                    trigger=context.trigger,
                    model=context.model,
                    mode=context.mode,
                    budget=context.budget,
                    parent=context.parent,
                    **pinned.pin.model_dump(include={"head", "dirty", "last_good"}, by_alias=False),
                    pin=pinned.tree,
                )
            )
        else:
            if context.resumed != "continue":  # that is on record as the control which asked for it
                context.record(_resumed(context, active.calls))
            if active.pin != pinned.tree:
                _changed(context, pinned, ())
        self._report(context, ())
        scene = self._scene(context)
        if not _told_already(context, scene):
            context.notes.append(scene)

    async def before_model(self, context: RunContext) -> None:
        """Looks at the home again; an unchanged one costs a few stats."""
        before_pinned, before = _pinned(context), context.home_now
        await self._read(context)
        pinned, definition = _pinned(context), context.home_now
        if pinned is before_pinned and definition is before:
            return
        self._narrow(context, definition.settings)
        paths = _differing(before_pinned.blobs, pinned.blobs)
        if pinned.tree != before_pinned.tree:
            _changed(context, pinned, paths)
        self._report(context, before.problems)
        # What the agent wrote itself it knows from the call's result.
        others = tuple(path for path in paths if context.own_writes.get(path) != pinned.blobs.get(path, ""))
        told = _what_changed(before, definition, others)
        if told:
            context.notes.append(told)

    async def _read(self, context: RunContext) -> None:
        """The home as it is now; a subagent begins with its parent's pin."""
        if context.above is not None and context.pinned is None:
            self.take_up(context, _pinned(context.above), context.above.whole_now)
            return
        pinned = self.pinner.glance()
        if pinned is None or pinned is not context.pinned or context.definition is None:
            now, read = await anyio.to_thread.run_sync(self._look, context.state.user_id)
            if now is not context.pinned or context.definition is None:
                self.take_up(context, now, self.within_trust(read))

    def take_up(self, context: RunContext, pinned: Pinned, whole: Definition) -> None:
        """From now on the run reads that. `whole` is the home as the main agent reads it; a subagent sees its part."""
        # One whose file is gone goes on as it began.
        context.line = tuple(helper(whole, known.name) or known for known in context.line)
        context.pinned, context.whole = pinned, whole
        context.definition = as_subagent(whole, context.line) if context.line else whole

    async def _model(self, context: RunContext, settings: AgentSettings) -> str:
        """The model of the agent's header, else the parent's, else what is configured."""
        if context.above is not None and not settings.model:
            return context.above.model
        return await self.resolve_model(settings)

    def _look(self, user_id: str | None) -> tuple[Pinned, Definition]:
        """The home as it is on disk; blocks while it parses what changed."""
        pinned = self.pinner.pin()
        return pinned, self.reader.read(pinned, user_id=user_id)

    def _narrow(self, context: RunContext, settings: AgentSettings) -> None:
        """What the home asks for, within what the operator, the session and those above allow."""
        context.mode = narrower(context.asked_mode, context.above.mode if context.above else self.limits.mode)
        asked = Budget(**settings.budget.model_dump(by_alias=False))
        context.budget = self.tightest(self.tightest(asked, self.limits.budget), context.allowance)

    def _report(self, context: RunContext, known: tuple[Problem, ...]) -> None:
        """Problems that change what the agent is are facts; oddities stay with `lint` and the portrait."""
        for problem in context.home_now.problems:
            if problem.severity == "error" and problem not in known:
                context.problem(problem)

    def _scene(self, context: RunContext) -> str:
        """What changes from run to run: the date, and what the client says about the user's scene."""
        lines = [f"Today is {self.now():%A, %d %B %Y}."]
        queued = next((q for q in context.state.queue if q.message.id == context.trigger.message_id), None)
        workspace = (queued.workspace_context if queued else None) or context.state.workspace_context
        if workspace:
            lines.append(f"The user's workspace: {orjson.dumps(workspace).decode()}")
        return framed("context", "\n".join(lines))


def _resumed(context: RunContext, calls: tuple[OpenCall, ...]) -> RunResumed:
    """That it goes on, since when it did not, and which calls are run once more because that is safe."""
    again = (one for one in calls if one.status == "running" and (one.effect == "read" or one.idempotent))
    return RunResumed(
        reason=context.resumed or "restart",
        interrupted_at=context.interrupted_at,
        reruns=tuple(one.call.id for one in again),
    )


def _pinned(context: RunContext) -> Pinned:
    assert context.pinned is not None  # noqa: S101 - _read has just set it
    return context.pinned


def _changed(context: RunContext, pinned: Pinned, paths: tuple[str, ...]) -> None:
    pin = pinned.pin
    context.record(
        HomeChanged(
            pin=pinned.tree,
            head=pin.head,
            dirty=pin.dirty,
            last_good=pin.last_good,
            paths=paths,
            mode=context.mode,
            budget=context.budget,
        )
    )


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path))


def _what_changed(before: Definition, after: Definition, paths: tuple[str, ...]) -> str:
    """A note for the model: the new text of what it was told in full, the names of what it reads on demand."""
    own_memory = user_memory_path(after.user_id or "")
    # Who else talks to this agent is nobody's business here.
    paths = tuple(path for path in paths if path == own_memory or not path.startswith("users/"))
    if not paths:
        return ""
    parts = ["Your home changed while you work. From now on this holds:"]
    whole = {
        after.agents.path: (before.agents.body, after.agents.body),
        "KNOWLEDGE.md": (before.knowledge, after.knowledge),
        "MEMORY.md": (before.memory, after.memory),
        own_memory: (before.user_memory or "", after.user_memory or ""),
    }
    told = {path: new for path, (old, new) in whole.items() if old != new and path in paths}
    parts += [shown_file(path, new) or f"{path} is empty now." for path, new in told.items()]
    others = [defused(one_line(path), FILE) for path in paths if path not in whole]
    if others:
        rest = f" and {len(others) - PATHS_TOLD} more" if len(others) > PATHS_TOLD else ""
        parts.append("Changed files: " + ", ".join(others[:PATHS_TOLD]) + rest)
    known = {skill.path: skill for skill in before.skills}
    fresh = [skill for skill in after.skills if skill.path in paths and known.get(skill.path) != skill]
    if fresh:
        parts.append("Skills, new or changed:\n" + defused(index_of(fresh, "skills").text, FILE))
    return framed("context", "\n\n".join(parts))


def _told_already(context: RunContext, scene: str) -> bool:
    """Whether the last note about the scene said the same."""
    messages = context.state.messages
    for at in range(len(messages) - 1, max(-1, len(messages) - 1 - NOTES_LOOKED_AT), -1):
        message = messages[at]
        if isinstance(message, UserMessage) and message.kind == "note" and "Today is " in text_of(message):
            return text_of(message) == scene
    return False
