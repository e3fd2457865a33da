"""What is being written right now: the text so far of each message, call and output that deltas make grow.

Whoever joins in the middle gets it as one delta. It is no fact: it is gone when what it becomes is recorded.
"""

from typing import Literal

from harnessd.facts.event import (
    AssistantTextDelta,
    Delta,
    Event,
    MessageCreated,
    ToolCallCompleted,
    ToolCallDelta,
)

What = Literal["text", "reasoning", "arguments", "output"]

LIMIT = 1 << 20
"""Characters that are kept in all; beyond them the oldest go, and what is left begins at a later offset."""

_LOOSE = 512
"""Pieces that are kept apart; so many are joined at once, that no piece is copied often."""

_ENDINGS = {"turn.retried", "turn.finished", "run.finished"}
"""Behind these nothing of the turn's answer is being written any more."""


class Drafts:
    """The texts that are growing in one session. Taking in a delta costs the same however long its text is."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._drafts: dict[tuple[What, str], _Draft] = {}

    def take(self, delta: Delta) -> None:
        """Takes in a piece. One from before the end takes the place of what was there; a gap begins it anew."""
        key = _key(delta)
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(delta.offset)
        self._size += draft.take(delta)
        while self._size > self._limit:
            self._forget_some()

    def settle(self, event: Event) -> None:
        """Drops what the event has made a fact, or has put an end to."""
        if not self._drafts:
            return
        if event.type in _ENDINGS:
            self.clear()
        elif isinstance(event, MessageCreated):
            self._drop([key for key, draft in self._drafts.items() if draft.last.message_id == event.message.id])
        elif isinstance(event, ToolCallCompleted):
            self._drop([key for key in self._drafts if key[1] == event.tool_call_id])

    def clear(self) -> None:
        """Nothing is being written any more."""
        self._drafts.clear()
        self._size = 0

    def so_far(self) -> tuple[Delta, ...]:
        """Each text as one delta, in the order in which they began; `offset` is above 0 only where it was cut."""
        return tuple(draft.whole() for draft in self._drafts.values())

    def text(self, owner: str, what: What = "text") -> str:
        """What is known of a message's text or reasoning, or a call's arguments or output; `owner` is its id."""
        draft = self._drafts.get((what, owner))
        return draft.whole().text if draft else ""

    def _drop(self, keys: list[tuple[What, str]]) -> None:
        for key in keys:
            self._size -= self._drafts.pop(key).size

    def _forget_some(self) -> None:
        """The oldest text gives way, piece by piece."""
        key, draft = next(iter(self._drafts.items()))
        self._size -= draft.forget_some()
        if not draft.size:
            del self._drafts[key]


class _Draft:
    """One growing text: joined blocks, then loose pieces. `size` is characters, `start` the offset of the first."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        self.last: Delta = AssistantTextDelta()
        self._blocks: list[str] = []
        self._loose: list[str] = []

    def take(self, delta: Delta) -> int:
        """Takes in a piece; by how much the text grew."""
        before = self.size
        self.last = delta
        if delta.offset != self.start + self.size:
            self._cut(delta.offset)
        self._loose.append(delta.text)
        self.size += len(delta.text)
        if len(self._loose) >= _LOOSE:
            self._blocks.append("".join(self._loose))
            self._loose.clear()
        return self.size - before

    def whole(self) -> Delta:
        return self.last.model_copy(update={"offset": self.start, "text": self._joined()})

    def forget_some(self) -> int:
        """Forgets the oldest block; how many characters that was."""
        oldest = (self._blocks or self._loose).pop(0)
        self.start += len(oldest)
        self.size -= len(oldest)
        return len(oldest)

    def _cut(self, offset: int) -> None:
        kept = self._joined()[: offset - self.start] if self.start <= offset <= self.start + self.size else ""
        self._blocks, self._loose = ([kept] if kept else []), []
        self.start, self.size = offset - len(kept), len(kept)

    def _joined(self) -> str:
        return "".join((*self._blocks, *self._loose))


def _key(delta: Delta) -> tuple[What, str]:
    if isinstance(delta, ToolCallDelta):
        return delta.stream, delta.tool_call_id
    return "text" if isinstance(delta, AssistantTextDelta) else "reasoning", delta.message_id
