"""What is an answer to a control worth, and which error is a refusal?"""

from harnessd.cli.reach import Accepted, Refused
from harnessd.errors import Conflict, HarnessdError, UsageError
from harnessd.facts.event import Event


def taken(answer: Accepted | Refused, hint: str | None = None) -> Accepted:
    """The answer of a control that was taken; raises what it was refused for, with `hint` as the way out.

    Raises `UsageError` for what cannot be, `Conflict` for what is too late.
    """
    if isinstance(answer, Refused):
        raise refusal(answer, hint)
    return answer


def refusal(answer: Refused, hint: str | None = None) -> HarnessdError:
    """The error for a control that was not taken, with what stands in its place."""
    if answer.status in {400, 403, 404}:
        return UsageError(answer.message, hint=hint)
    if answer.status == 503:
        return HarnessdError(answer.message, hint="try again in a moment")
    return Conflict(
        answer.message, hint=f"that was at {answer.current.at}" if isinstance(answer.current, Event) else None
    )
