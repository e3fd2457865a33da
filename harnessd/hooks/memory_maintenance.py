"""after_run: when it is due, what was said becomes facts in MEMORY.md, as one commit.

The plain form only ever adds entries, so it cannot lose one, and it goes through the home's one door like any
other change. It is off unless the home's header says `memory: {every: <turns>}`.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import anyio

from harnessd.facts.event import MemoryConsolidated
from harnessd.facts.message import Message, TextPart, Usage, UserMessage, text_of
from harnessd.home.change import Change, PutFile
from harnessd.home.door import Author, Cause, Committed, Conflicted, Door, NeedsApproval, Refused
from harnessd.home.layout import MEMORY
from harnessd.home.memory import add_entry, find_duplicate
from harnessd.home.tree import blob_id
from harnessd.hooks.context import RunContext
from harnessd.ids import new_id
from harnessd.models.assembler import Reply
from harnessd.models.chunk import ModelFailure
from harnessd.models.models import Models
from harnessd.models.request import ModelRequest
from harnessd.tools.tool import Tool

Consolidated = Literal["merged", "nothing_new", "waiting_for_review", "conflict", "refused"]

MOST_FACTS = 20
LONGEST_FACT = 500
SHOWN = 40_000
"""Characters of the conversation that are looked at, the latest ones."""


@dataclass(frozen=True)
class MemoryMaintenance:
    """Harvests facts from a session once it has grown by the turns that the home asks for."""

    models: Models
    door: Door

    async def after_run(self, context: RunContext) -> None:
        """Looks whether it is due; nothing due, no model call."""
        if context.definition is None:
            return  # stopped before the home was read
        memory, usage = context.home_now.settings.memory, context.state.usage
        if not memory.enabled or memory.every is None or not _may_remember(context):
            return
        if usage.turns - usage.turns_at_consolidation < memory.every:
            return
        user_id = context.state.user_id
        path = MEMORY if user_id is None else f"users/{user_id}/{MEMORY}"
        known = (context.home_now.memory if user_id is None else context.home_now.user_memory) or ""
        answer = await self._ask(context, known)
        if not isinstance(answer, Reply):
            self._record(context, "refused", f"the model failed: {answer.message}", answer.usage)
            return
        facts = [fact for fact in _facts(answer.text) if find_duplicate(known, fact) is None]
        await self._write(context, path, facts, answer.usage)

    async def _write(self, context: RunContext, path: str, facts: list[str], usage: Usage) -> None:
        """All the facts as one commit. A person's edit in the meantime wins; the facts come up again next time."""
        state = context.state
        raw = await anyio.to_thread.run_sync(_bytes_of, context.home.path / path)
        text = (raw or b"").decode("utf-8")
        for fact in facts:
            text = add_entry(text, fact)
        new = text.encode()
        if new == (raw or b""):
            self._record(context, "nothing_new", "", usage)
            return
        cause = Cause(
            agent=state.agent_id,
            session=state.session_id,
            run=context.run_id,
            pin=context.pinned.tree if context.pinned else "",
            model=context.model,
            origin=state.context_origin,
        )
        author = Author(kind="agent", name=context.home.name, email=f"{context.home.name}@harnessd")
        change = Change(path, PutFile(new), None if raw is None else blob_id(raw))
        answer = await self.door.commit(change, author, cause, allow_tier="auto", user_id=state.user_id)
        match answer:
            case Committed(commit=commit):
                self._record(context, "merged", f"{len(facts)} facts", usage, commit)
            case NeedsApproval():
                self._record(context, "waiting_for_review", "; ".join(facts), usage)
            case Conflicted(message=message):
                self._record(context, "conflict", message, usage)
            case Refused(message=message):
                self._record(context, "refused", message, usage)

    async def _ask(self, context: RunContext, known: str) -> Reply | ModelFailure:
        settings = context.home_now.settings
        spoken = "\n\n".join(_spoken(message) for message in list(context.state.messages) if _said(message))
        text = f"<memory>\n{known}\n</memory>\n\n<sessions>\n{spoken[-SHOWN:]}\n</sessions>"
        model = settings.small_model or context.model
        request = ModelRequest(
            model=model,
            system=files("harnessd.hooks").joinpath("prompts/maintenance.md").read_text("utf-8"),
            messages=(UserMessage(id=new_id("msg"), parts=(TextPart(text=text),)),),
            purpose="maintenance",
            api_base=context.address_of(model),
        )
        return await self.models.answer(request)

    def _record(
        self, context: RunContext, outcome: Consolidated, detail: str, usage: Usage | None, commit: str | None = None
    ) -> None:
        context.record(MemoryConsolidated(outcome=outcome, detail=detail, commit=commit, usage=usage or Usage()))


def _may_remember(context: RunContext) -> bool:
    """Whether the agent itself might keep a fact here: not in mode `plan`, nor where `remember` is denied."""
    return context.mode != "plan" and isinstance(context.toolbox.find("remember"), Tool)


def _facts(answer: str) -> list[str]:
    """The facts in the model's answer: its list items, the first twenty that have a fact's length."""
    lines = (line.strip() for line in answer.splitlines())
    items = (line[2:].strip() for line in lines if line.startswith("- "))
    return [item for item in items if 3 <= len(item) <= LONGEST_FACT][:MOST_FACTS]


def _said(message: Message) -> bool:
    """Whether a person or the agent said it; notes, summaries and results are not harvested."""
    return message.role == "assistant" or (message.role == "user" and message.kind == "input")


def _spoken(message: Message) -> str:
    return f"{message.role.upper()}: {text_of(message)}"


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
