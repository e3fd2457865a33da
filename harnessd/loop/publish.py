"""How an answer is published while it grows: deltas with offsets, on the bus and never in the journal."""

from harnessd.facts.event import AssistantReasoningDelta, AssistantTextDelta, Delta, ToolCallDelta
from harnessd.hooks.context import RunContext
from harnessd.models import chunk as chunks


class Publisher:
    """Publishes the pieces of one message."""

    def __init__(self, context: RunContext, message_id: str) -> None:
        self.message_id = message_id
        self._ledger = context.ledger
        self._where = {
            "session_id": context.ledger.session_id,
            "run_id": context.run_id,
            "turn_id": context.run.turn_id or "",
            "message_id": message_id,
        }
        self._text = 0
        self._reasoning = 0
        self._calls: dict[str, tuple[str, int]] = {}

    def publish(self, delta: chunks.Delta) -> None:
        """Puts the next piece on the bus."""
        match delta:
            case chunks.TextDelta(text):
                self._put(AssistantTextDelta(offset=self._text, text=text))
                self._text += len(text)
            case chunks.ReasoningDelta(text):
                self._put(AssistantReasoningDelta(offset=self._reasoning, text=text))
                self._reasoning += len(text)
            case chunks.ToolCallDelta(id=call, name=name, arguments=text):
                known, offset = self._calls.get(call, ("", 0))
                self._put(ToolCallDelta(offset=offset, text=text, tool_call_id=call, tool_name=known + name))
                self._calls[call] = (known + name, offset + len(text))

    def _put(self, delta: Delta) -> None:
        self._ledger.delta(delta.model_copy(update=self._where))
