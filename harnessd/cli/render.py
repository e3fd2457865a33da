"""How is a fact told to a person? One short line where that is enough."""

from collections.abc import Mapping

import orjson

from harnessd.cli.harmless import harmless, one_line
from harnessd.cli.output import Style
from harnessd.cli.question import question_text
from harnessd.cli.when import moment
from harnessd.facts.event import (
    ContextCompacted,
    ContextCompactionFailed,
    ContextTruncated,
    Event,
    HomeChanged,
    HomeProblem,
    McpFailed,
    MemoryConsolidated,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolApprovalResolved,
    ToolCallCompleted,
    TurnRetried,
)
from harnessd.facts.message import TextPart, Usage
from harnessd.facts.run import Approval, Decision, ProblemNote

WHY_WIDTH = 300
"""Wide enough for the reason of a failed call and the way out, which comes last."""

_MARK = {
    "ok": "✓",
    "denied": "✗",
    "error": "✗",
    "invalid": "✗",
    "timeout": "✗",
    "cancelled": "■",
    "outcome_unknown": "?",
}
_SHOWN_FIRST = ("path", "command", "name", "agent", "text", "query", "url")
_ENDED = {
    "max_turns": "the turn limit is reached",
    "token_budget": "the token budget is spent",
    "cost_budget": "the cost budget is spent",
    "deadline": "the deadline has passed",
    "no_progress": "several turns brought nothing new",
    "repeated_action": "the same action was repeated",
    "stopped": "stopped",
    "failed": "failed",
    "completed": "completed",
}


def told(event: Event, style: Style) -> str | None:
    """What happened beside the conversation, as a line or a few; None if a person need not be told."""
    match event:
        case TurnRetried(failure=failure, action=action, wait_seconds=wait, model=model):
            how = {
                "wait": f"asked again in {wait:.0f} s",
                "fallback": f"{model} is asked",
                "compact": "the context is cut",
            }
            said = f"the model failed ({one_line(failure.message or failure.kind)}); "
            return style.odd(said + how.get(action, "it is asked again"))
        case HomeProblem(problem=problem):
            of_server = problem.severity == "error" and problem.code.startswith("mcp-")  # `mcp.failed` told it
            return None if of_server else problem_line(problem, style)
        case HomeChanged(paths=paths):
            return style.dim(
                f"the home changed: {', '.join(paths)}" if paths else "the home changed since this run began"
            )
        case McpFailed(server=server, failure=failure):
            hint = f"\n  {one_line(failure.hint)}" if failure.hint else ""
            return style.odd(f"the MCP server {one_line(server)} cannot be used: {one_line(failure.message)}{hint}")
        case ContextCompacted():
            return style.dim(f"older messages were summarised ({event.tokens_before} → {event.tokens_after} tokens)")
        case ContextCompactionFailed(reason=reason):
            return style.odd(f"the summary of older messages failed: {one_line(reason)}")
        case ContextTruncated(dropped=dropped):
            return style.odd(f"the {dropped} oldest messages were dropped without a summary")
        case MemoryConsolidated(outcome=outcome, detail=detail) if outcome != "nothing_new":
            return style.dim(f"memory upkeep: {outcome.replace('_', ' ')} {one_line(detail)}".rstrip())
        case RunResumed(reason="restart"):
            return style.odd("this run was interrupted and goes on")
        case ToolApprovalResolved(outcome=outcome, by=by, scope=scope):
            wider = f", for {'this session' if scope == 'session' else 'good'}" if scope != "once" else ""
            wider += f": {one_line(event.rule)}" if wider and event.rule else ""
            return style.dim(f"approval {event.approval_id}: {outcome}{f' by {by}' if by else ''}{wider}")
        case RunFinished(reason=reason) if reason != "completed" or event.detail:
            return ending(event, style)
    return None


def ending(event: RunFinished, style: Style) -> str:
    """Why a run ended, with what a person can do about it."""
    said = _ENDED.get(event.reason, event.reason)
    failure = event.failure
    detail = harmless(failure.message if failure else event.detail).strip()
    text = f"the run ended: {said}" + (f": {detail}" if detail else "")
    if failure and failure.hint:
        text += f"\n  {harmless(failure.hint)}"
    return style.odd(text) if event.reason in {"stopped", "completed"} else style.bad(text)


def result_line(event: ToolCallCompleted, arguments: Mapping[str, object] | None, style: Style) -> str:
    """A finished call on one line: what, how it went, how long, and the commit it made; why, if it failed."""
    mark = _MARK.get(event.status, "?")
    shown = style.good(mark) if event.status == "ok" else style.bad(mark)
    line = f"  {shown} {call_text(event.tool_name, arguments)}"
    if event.commit:
        line += style.place(f"  commit {event.commit[:10]}")
    if event.duration_ms >= 1000:
        line += style.dim(f"  {event.duration_ms / 1000:.1f} s")
    if event.status != "ok":
        first = next((part.text for part in event.parts if isinstance(part, TextPart)), "")
        said = event.failure.message if event.failure and event.failure.kind != "tool_error" else ""
        why = said or first  # of a tool that reports an error, its own words
        line += f"\n    {style.bad(event.status.replace('_', ' '))} {one_line(why, WHY_WIDTH)}".rstrip()
    return line


def call_text(tool: str, arguments: Mapping[str, object] | None) -> str:
    """A call as `tool(the argument that says most)`."""
    if not arguments:
        return f"{one_line(tool)}()"
    name = next((one for one in _SHOWN_FIRST if one in arguments), next(iter(arguments)))
    value = arguments[name]
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return f"{one_line(tool)}({one_line(text, 60)})"


def approval_text(approval: Approval, style: Style) -> str:
    """What waits for a person: the whole call, why it is asked, and the diff if it would change a file.

    Of a call that was allowed and whose server has a question: the question.
    """
    lines = [style.odd("? ") + style.bold(call_text(approval.tool_name, approval.arguments)) + f"  {approval.id}"]
    if approval.question is not None:
        return "\n".join([*lines, question_text(approval.question, style)])
    lines.append(f"  {decision_text(approval.policy)}")
    if approval.diff:
        lines.append(diff_text(approval.diff, style))
    else:
        lines += [f"  {name}: {_whole(value)}" for name, value in approval.arguments.items()]
    return "\n".join(lines)


def decision_text(decision: Decision) -> str:
    """A decision, the layer that made it, and why."""
    rule = f" [{one_line(decision.rule)}]" if decision.rule else ""
    return f"{decision.verdict} by {decision.layer}{rule}: {one_line(decision.reason, 200) or 'no reason was given'}"


def diff_text(diff: str, style: Style) -> str:
    """A unified diff, coloured and set in."""
    paint = {"+": style.good, "-": style.bad, "@": style.place}
    lines = harmless(diff).rstrip("\n").split("\n")
    return "\n".join("    " + paint.get(line[:1], str)(line) for line in lines)


def usage_text(usage: Usage) -> str:
    """Tokens and cost in a few words."""
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens}{cached} tokens in, {usage.output_tokens} out{cost}"


def problem_line(problem: ProblemNote, style: Style) -> str:
    """A problem of the home: where, how grave, what, and the way out."""
    paint = {"error": style.bad, "warning": style.odd}.get(problem.severity, style.dim)
    place = f"{problem.path}:{problem.line}" if problem.line else problem.path
    fix = f"\n  {harmless(problem.fix)}" if problem.fix else ""
    return f"{style.place(harmless(place))}: {paint(problem.severity)}: {harmless(problem.message)}{fix}"


def started_text(event: RunStarted) -> str:
    """What a run began with."""
    dirty = ", with uncommitted edits" if event.dirty else ""
    head = f" at {event.head[:10]}{dirty}" if event.head else dirty
    return (
        f"{event.run_id}  {moment(event.at)}  model {event.model or '?'}, mode {event.mode}, pin {event.pin[:10]}{head}"
    )


def _whole(value: object) -> str:
    """An argument in full: whoever allows a call has to see all of it."""
    if not isinstance(value, str):
        value = orjson.dumps(value, default=str).decode()
    return harmless(value).replace("\n", "\n    ")
