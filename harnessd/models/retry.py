"""What to do after a failure: wait and try again, take another model, compact, or give up. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from harnessd.models.chunk import FailureKind, ModelFailure

MAX_ATTEMPTS = 5
LONGEST_WAIT_S = 60.0
_FIRST_WAIT_S = 1.0
_WAIT_CAP_S = 30.0

# How often one model is asked when it fails so; kinds that do not pass by themselves are asked once.
_ATTEMPTS: dict[FailureKind, int] = {
    "rate_limit": MAX_ATTEMPTS,
    "overloaded": MAX_ATTEMPTS,
    "server_error": 4,
    "unreachable": 4,
    "timeout": 3,
    "cut_off": 3,
    "malformed": 3,
    "empty": 3,
}


@dataclass(frozen=True)
class Wait:
    """Send the same request again after that many seconds."""

    seconds: float


@dataclass(frozen=True)
class Fallback:
    """Send it to this model, which is the first of the fallback models that were given."""

    model: str


@dataclass(frozen=True)
class Compact:
    """The context does not fit: make it shorter, then send again."""


@dataclass(frozen=True)
class GiveUp:
    """The run ends as failed, for this reason."""

    reason: str


Plan = Wait | Fallback | Compact | GiveUp


def plan_retry(
    failure: ModelFailure,
    attempt: int,
    fallback_models: Sequence[str],
    *,
    compacted: bool = False,
    chance: float = 0.5,
) -> Plan:
    """The next step after the `attempt`-th failure in a row (from 1) of the present model.

    `fallback_models` are those not tried yet in this turn; `compacted` says that compaction was tried in this
    turn. `chance` in [0, 1) spreads waits over ±25 %, so that many sessions don't come back at once. A
    provider that asks for more than a minute is not waited for.
    """
    if failure.kind == "cancelled":
        return GiveUp("cancelled")
    if failure.kind == "context_overflow" and not compacted:
        return Compact()
    if failure.retryable and attempt < _ATTEMPTS[failure.kind]:
        seconds = _wait(failure, attempt, chance)
        if seconds <= LONGEST_WAIT_S:
            return Wait(seconds)
    if fallback_models:
        return Fallback(fallback_models[0])
    return GiveUp(f"{failure.kind}: {failure.message}")


def _wait(failure: ModelFailure, attempt: int, chance: float) -> float:
    if failure.kind == "empty" and attempt == 1:
        return 0.0
    backoff = min(_WAIT_CAP_S, _FIRST_WAIT_S * 2.0 ** (attempt - 1)) * (0.75 + 0.5 * chance)
    return max(backoff, failure.retry_after_s or 0.0)
