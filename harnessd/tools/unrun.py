"""What is the model told about a call that was not run, or not to its end?"""

from harnessd.facts.message import CallStatus
from harnessd.facts.run import Decision
from harnessd.facts.state import Answer
from harnessd.tools.arguments import Invalid
from harnessd.tools.tool import Effect, Outcome, failed

_CHECK = "It may have taken effect, wholly or in part; check before repeating it."


def invalid(arguments: Invalid) -> Outcome:
    """The call could not be understood."""
    return failed("invalid", arguments.message, status="invalid")


def denied(decision: Decision) -> Outcome:
    """The gate said no, and why."""
    rule = f" (rule {decision.rule})" if decision.rule else ""
    return failed("denied", f"Not allowed, nothing was run: {decision.reason}{rule}", status="denied")


def not_allowed_by(answer: Answer) -> Outcome:
    """An approval ended without a yes. Only a person's no is a denial."""
    note = f" They say: {answer.note}" if answer.note else ""
    texts: dict[str, tuple[CallStatus, str]] = {
        "denied": ("denied", f"A person did not allow this; nothing was run.{note}"),
        "expired": ("cancelled", "Nobody decided about this in time; nothing was run."),
        "cancelled": ("cancelled", "The request for approval was withdrawn; nothing was run."),
    }
    status, text = texts[answer.outcome]
    return failed(answer.outcome, text, status=status)


def unanswered() -> Outcome:
    """The call's server asked something, and nobody answered in time."""
    return failed("expired", "Nobody answered its question in time; the call was not gone on with.", status="cancelled")


def stopped(*, under_way: bool) -> Outcome:
    """The run was stopped before the call, or while it was under way."""
    text = (
        f"The run was stopped while this call was under way. {_CHECK}" if under_way else "Not run: the run was stopped."
    )
    return failed("stopped", text, status="cancelled")


def outcome_unknown() -> Outcome:
    """The process ended while a writer was at work."""
    text = f"The harness was interrupted while this call was under way, so its result is not known. {_CHECK}"
    return failed("interrupted", text, status="outcome_unknown")


def timed_out(name: str, seconds: float, effect: Effect) -> Outcome:
    """The call took too long and was ended."""
    text = f"{name} did not finish within {seconds:.3g} s and was ended."
    return failed("timeout", f"{text} {_CHECK}" if effect == "write" else text, status="timeout")


def raised(name: str, error: Exception) -> Outcome:
    """The tool broke; its class and message, no traceback."""
    return failed(type(error).__name__, f"{name} failed: {type(error).__name__}: {str(error)[:2000]}")
