"""What was said and done, told afterwards: turns, calls with who decided about them, what it cost."""

from collections.abc import Iterable, Iterator

from harnessd.cli.harmless import harmless
from harnessd.cli.output import Style
from harnessd.cli.render import (
    WHY_WIDTH,
    approval_text,
    decision_text,
    ending,
    result_line,
    started_text,
    told,
    usage_text,
)
from harnessd.cli.when import moment
from harnessd.facts.event import (
    Event,
    MessageCreated,
    RunFinished,
    RunStarted,
    SessionCreated,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from harnessd.facts.message import AssistantMessage, JsonObject, TextPart, UserMessage, text_of
from harnessd.facts.run import Decision

RESULT_LINES = 12


def transcript(events: Iterable[Event], style: Style, *, whole: bool = False) -> Iterator[str]:
    """The lines of a transcript. `whole`: results in full length, and the notes of the harness to the model."""
    arguments: dict[str, JsonObject | None] = {}
    decisions: dict[str, Decision] = {}
    questions: set[str] = set()
    for event in events:
        match event:
            case SessionCreated():
                yield style.bold(f"session {event.session_id}") + style.dim(f"  {event.agent_id}, {moment(event.at)}")
            case RunStarted():
                yield ""
                yield style.bold("run ") + style.dim(started_text(event))
            case TurnStarted(number=number, model=model):
                yield style.dim(f"  turn {number}  {model}")
            case MessageCreated(message=UserMessage() as message):
                if message.kind == "input" or whole:
                    yield from _said("you" if message.kind == "input" else message.kind, text_of(message), style)
            case MessageCreated(message=AssistantMessage() as message):
                yield from _said(event.agent_id or "agent", text_of(message), style)
            case ToolCallCreated():
                arguments[event.tool_call_id] = event.arguments
            case ToolCallRunning():
                decisions[event.tool_call_id] = event.decision
            case ToolApprovalRequired(approval=approval):
                if approval.question is not None:
                    questions.add(approval.id)
                yield approval_text(approval, style)
            case ToolApprovalResolved(tool_call_id=call):
                if event.arguments is not None and event.approval_id not in questions:
                    arguments[call] = event.arguments
                yield from filter(None, [told(event, style)])
            case ToolCallCompleted(tool_call_id=call):
                yield result_line(event, arguments.pop(call, None), style)
                decision = event.decision or decisions.pop(call, None)
                if decision is not None:
                    yield style.dim(f"    {decision_text(decision)}")
                yield from _result(event, style, whole)
            case TurnFinished(usage=usage, duration_ms=duration):
                yield style.dim(f"  {duration / 1000:.1f} s, {usage_text(usage)}")
            case RunFinished():
                yield (
                    style.good("completed")
                    if event.reason == "completed" and not event.detail
                    else ending(event, style)
                )
                yield style.dim(f"{event.turns} turns, {event.duration_ms / 1000:.1f} s, {usage_text(event.usage)}")
            case UnknownEvent(type=kind):
                yield style.dim(f"  ({harmless(kind)}, written by a newer version)")
            case _:
                text = told(event, style)
                if text:
                    yield text


def _said(who: str, text: str, style: Style) -> Iterator[str]:
    if text.strip():
        yield style.bold(f"{harmless(who)}:") + f" {harmless(text).strip()}"


def _result(event: ToolCallCompleted, style: Style, whole: bool) -> Iterator[str]:
    text = harmless("\n".join(part.text for part in event.parts if isinstance(part, TextPart))).strip()
    lines = text.splitlines()
    if event.status != "ok" and len(lines) == 1 and len(text) <= WHY_WIDTH:
        return  # the line above says it
    shown = lines if whole else lines[:RESULT_LINES]
    for line in shown:
        yield style.dim(f"    | {line}")
    if len(lines) > len(shown):
        yield style.dim(f"    | … {len(lines) - len(shown)} more lines; --whole shows them")
