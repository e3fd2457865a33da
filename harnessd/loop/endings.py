"""Why a run ends: small functions, any of them ends it, each names itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from harnessd.facts.message import AssistantMessage, TextPart
from harnessd.facts.run import EndReason, Failure
from harnessd.facts.state import ActiveRun, State
from harnessd.loop.budget import MOST_TURNS, PATIENCE, turn_limit
from harnessd.tools.tool import Outcome

NUDGE_AT = 3
"""The third identical action in a row gets a nudge in its result; one more ends the run."""

INVALID_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Ending:
    """The named reason, a sentence for people, and the failure if it is one."""

    reason: EndReason
    detail: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not an ending: the run pauses until a person has decided these approvals, or until another process goes on."""

    approvals: tuple[str, ...]


def reason_to_end(state: State) -> Ending | None:
    """The first reason that holds, looked at between turns."""
    run = state.active_run
    if run is None:
        return Ending("failed", failure=Failure(kind="no_run", message="there is no run to go on with"))
    for ending in ENDINGS:
        if (reason := ending(state, run)) is not None:
            return reason
    return None


def stop_requested(state: State, run: ActiveRun) -> Ending | None:
    """Somebody asked for it."""
    return Ending("stopped") if run.status == "stopping" else None


def model_is_done(state: State, run: ActiveRun) -> Ending | None:
    """The model answered without asking for a tool, and nobody has steered since."""
    if run.turn_open or not run.turn_number or any(entry.when == "steer" for entry in state.queue):
        return None
    last = state.messages[-1] if len(state.messages) else None
    if not isinstance(last, AssistantMessage) or last.tool_calls:
        return None
    return Ending("completed", "the answer was cut at the model's output limit" if last.finish == "length" else "")


def only_invalid_calls(state: State, run: ActiveRun) -> Ending | None:
    """The model can't get its arguments right."""
    if run.invalid_in_a_row < INVALID_IN_A_ROW:
        return None
    message = f"{run.invalid_in_a_row} tool calls in a row were invalid; none of them was executed"
    return Ending("failed", failure=Failure(kind="invalid_tool_calls", message=message))


def repeated_action(state: State, run: ActiveRun) -> Ending | None:
    """The same tool with the same arguments, again and again, in spite of a nudge."""
    again = repeats(run)
    return Ending("repeated_action", f"the same call {again} times in a row") if again > NUDGE_AT else None


def turns_are_used_up(state: State, run: ActiveRun) -> Ending | None:
    """The turns that the budget pays for are taken; what ran out gives the name."""
    if run.turn_open or run.turn_number < turn_limit(run.budget, run.spent, run.turns_without_change):
        return None
    if run.budget.turns is not None or run.turn_number >= MOST_TURNS:
        return Ending("max_turns", f"{run.turn_number} turns")
    if run.turn_number < turn_limit(run.budget, run.spent, 0):
        return Ending("no_progress", f"{run.turns_without_change} turns without a new effect")
    return Ending("token_budget", "the tokens that are left are fewer than a turn takes")


def tokens_are_used_up(state: State, run: ActiveRun) -> Ending | None:
    """The token budget is spent."""
    used = run.spent.usage.input_tokens + run.spent.usage.output_tokens
    if run.budget.tokens is None or used < run.budget.tokens:
        return None
    return Ending("token_budget", f"{used} of {run.budget.tokens} tokens")


def money_is_used_up(state: State, run: ActiveRun) -> Ending | None:
    """The cost budget is spent."""
    cost = run.spent.usage.cost or 0.0
    if run.budget.cost is None or cost < run.budget.cost:
        return None
    return Ending("cost_budget", f"${cost:.4f} of ${run.budget.cost:.4f}")


def time_is_up(state: State, run: ActiveRun) -> Ending | None:
    """The time that the run may work is over; waiting for a person is not counted."""
    left = seconds_left(run)
    return Ending("deadline", f"{run.budget.seconds:g} s") if left is not None and left <= 0 else None


def no_progress(state: State, run: ActiveRun) -> Ending | None:
    """Turn after turn brought nothing new."""
    if run.turns_without_change < PATIENCE:
        return None
    return Ending("no_progress", f"{run.turns_without_change} turns without a new effect")


ENDINGS: tuple[Callable[[State, ActiveRun], Ending | None], ...] = (
    stop_requested,
    model_is_done,
    only_invalid_calls,
    repeated_action,
    no_progress,
    tokens_are_used_up,
    money_is_used_up,
    time_is_up,
    turns_are_used_up,
)


def seconds_left(run: ActiveRun, this_turn: float = 0.0) -> float | None:
    """How long the run may still work, `this_turn` seconds into a turn; None is no limit."""
    return None if run.budget.seconds is None else run.budget.seconds - run.spent.seconds - this_turn


def nudged(run: ActiveRun, outcome: Outcome) -> Outcome:
    """The outcome, with a word of warning when the same action was taken for the third time in a row."""
    if repeats(run) < NUDGE_AT:
        return outcome
    times = f"You have made this same call {repeats(run)} times in a row."
    text = f"{times} Do something else, or answer; once more ends the run."
    return replace(outcome, parts=(*outcome.parts, TextPart(text=text)))


def repeats(run: ActiveRun) -> int:
    """How often the last action was taken in a row."""
    count = 0
    for action in reversed(run.actions):
        if action != run.actions[-1]:
            break
        count += 1
    return count
