"""before_model: when the context is nearly full, its older part gives way to a summary."""

from importlib.resources import files

from harnessd.facts.event import ContextCompacted, ContextCompactionFailed, ContextTruncated
from harnessd.facts.message import AssistantMessage, Message, TextPart, Usage, UserMessage, text_of
from harnessd.facts.state import State
from harnessd.hooks.context import RunContext
from harnessd.ids import new_id
from harnessd.models.assembler import Reply
from harnessd.models.chunk import ModelFailure
from harnessd.models.models import Models
from harnessd.models.request import ModelRequest

FULL = 0.8
"""The share of the window from which the context counts as nearly full."""

KEPT_SHARE = 0.25
"""The share of the messages' text that stays as it is."""

GAINED = 0.75
"""The share of its length that the context may have after a summary that was worth it."""

MOST_FAILURES = 3
"""Failed summaries in a row after which the oldest messages are dropped without one."""

CHARACTERS_PER_TOKEN = 4


class Compaction:
    """Shortens the context; never parts a tool call from its result."""

    def __init__(self, models: Models, small_model: str | None = None) -> None:
        self._models = models
        self._small_model = small_model

    async def before_model(self, context: RunContext) -> None:
        """Compacts if the context is nearly full; between turns only, since no open call may lose its place."""
        usage = context.state.usage
        if context.run.turn_open or not usage.context_window:
            return
        if usage.context_tokens > FULL * usage.context_window:
            await self._once(context)

    async def compact(self, context: RunContext) -> bool:
        """Makes the context shorter now, since it does not fit; says whether anything was gained.

        Summaries that fail are tried again, at most three in a row; then the oldest messages are dropped.
        """
        while not await self._once(context):
            if _cut(context.state) is None:
                return False
        return True

    async def _once(self, context: RunContext) -> bool:
        """Summarises the older messages, or drops them after too many failures; says whether anything was gained."""
        state = context.state
        keep_from = _cut(state)
        if keep_from is None:
            return False
        if state.usage.compaction_failures >= MOST_FAILURES:
            _truncate(context, keep_from)
            return True
        answer = await self._summarise(context, keep_from)
        before = _tokens(list(state.messages))
        kept = list(state.messages)[keep_from:]
        if isinstance(answer, Reply) and answer.text.strip():
            summary = _summary(state, answer.text)
            after = _tokens([summary, *kept])
            if after <= GAINED * before:
                context.record(
                    ContextCompacted(
                        summary=summary,
                        keep_from=state.messages[keep_from].id,
                        tokens_before=before,
                        tokens_after=after,
                        usage=answer.usage,
                    )
                )
                return True
            reason = "the summary was hardly shorter than what it stood for"
        else:
            reason = answer.message if isinstance(answer, ModelFailure) else "the summary was empty"
        failures = state.usage.compaction_failures + 1
        context.record(ContextCompactionFailed(reason=reason, failures=failures, usage=answer.usage or Usage()))
        if failures >= MOST_FAILURES:
            _truncate(context, keep_from)
            return True
        return False

    async def _summarise(self, context: RunContext, keep_from: int) -> Reply | ModelFailure:
        settings = context.home_now.settings
        told = "\n\n".join(_spoken(message) for message in list(context.state.messages)[:keep_from])
        model = settings.small_model or self._small_model or context.model
        request = ModelRequest(
            model=model,
            system=files("harnessd.hooks").joinpath("prompts/compaction.md").read_text("utf-8"),
            messages=(UserMessage(id=new_id("msg"), parts=(TextPart(text=told),)),),
            purpose="summary",
            api_base=context.address_of(model),
        )
        return await self._models.answer(request)


def _cut(state: State) -> int | None:
    """Where what stays begins: a message that is no tool result, with something before it; None if there is none."""
    messages = list(state.messages)
    budget = KEPT_SHARE * sum(_length(message) for message in messages)
    cut, kept = None, 0
    for at in range(len(messages) - 1, 0, -1):
        kept += _length(messages[at])
        if messages[at].role != "tool":
            cut = at
            if kept >= budget:
                break
    return cut


def _truncate(context: RunContext, keep_from: int) -> None:
    context.record(ContextTruncated(keep_from=context.state.messages[keep_from].id, dropped=keep_from))


def _summary(state: State, text: str) -> UserMessage:
    """The summary as a message; what must survive to the letter is added from state, not from the model."""
    verbatim = [f"- [{todo.status}] {todo.text}" for todo in state.todos]
    waiting = [f"- {one.id}: {one.tool_name} ({one.tool_call_id})" for one in state.pending_approvals]
    helpers = [f"- {ref.id}: {ref.agent_id}, {ref.status}: {ref.title}" for ref in state.subagents]
    products = [f"- {ref.id}: {ref.title} ({ref.content_ref})" for ref in state.artifact_refs]
    sections = [("Todos", verbatim), ("Waiting approvals", waiting), ("Subagents", helpers), ("Artifacts", products)]
    added = "".join(f"\n\n## {title}\n" + "\n".join(lines) for title, lines in sections if lines)
    return UserMessage(
        id=new_id("msg"),
        kind="summary",
        parts=(TextPart(text=f"Summary of the conversation so far:\n\n{text.strip()}{added}"),),
        origin=state.context_origin,
    )


def _spoken(message: Message) -> str:
    text = text_of(message)
    if isinstance(message, AssistantMessage):
        calls = "".join(f"\n[calls {call.name} {call.arguments[:500]}]" for call in message.tool_calls)
        return f"AGENT: {text}{calls}"
    return f"{message.role.upper()}: {text}"


def _length(message: Message) -> int:
    calls = sum(len(call.arguments) for call in message.tool_calls) if isinstance(message, AssistantMessage) else 0
    return len(text_of(message)) + calls + 16


def _tokens(messages: list[Message]) -> int:
    return sum(_length(message) for message in messages) // CHARACTERS_PER_TOKEN
