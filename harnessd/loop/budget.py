"""How many turns a run may take, from what it may spend and what its turns have cost so far."""

from harnessd.facts.run import Budget, Spent

DEFAULT_TOKENS = 2_000_000
FIRST_GUESS = 40
MOST_TURNS = 1_000
PATIENCE = 12
"""Turns without a new effect after which a run ends as `no_progress`."""


def turn_limit(budget: Budget, spent: Spent, turns_without_change: int) -> int:
    """The number of the last turn that may still begin.

    `budget.turns` is a promise and stands as it is. Without it the limit follows from the token budget and the
    measured tokens per turn, to which those that subagents spent do not count: it is wide while turns bring
    something new, and what is left of it halves with every second turn that does not.
    """
    if budget.turns is not None:
        return budget.turns
    delegated = spent.delegated.input_tokens + spent.delegated.output_tokens
    tokens = budget.tokens - delegated if budget.tokens is not None else DEFAULT_TOKENS
    used = spent.usage.input_tokens + spent.usage.output_tokens - delegated
    if spent.turns == 0 or used == 0:
        return FIRST_GUESS
    left = max(0, tokens - used) // max(1, used // spent.turns)
    narrowed = left >> (turns_without_change // 2)
    return min(MOST_TURNS, spent.turns + narrowed)


def share(budget: Budget, spent: Spent, among: int, seconds: float | None) -> Budget:
    """What one of `among` subagents that work at the same time may spend of what is left of their parent's budget.

    Turns are each run's own; no subagent gets more of them than its parent has in all.
    """
    used = spent.usage.input_tokens + spent.usage.output_tokens
    return Budget(
        turns=budget.turns,
        tokens=None if budget.tokens is None else max(0, budget.tokens - used) // among,
        cost=None if budget.cost is None else max(0.0, budget.cost - (spent.usage.cost or 0.0)) / among,
        seconds=seconds,
    )


def tightest(*budgets: Budget) -> Budget:
    """The least of each limit; a limit that nobody set stays unset."""

    def least(name: str) -> float | None:
        return min((v for b in budgets if (v := getattr(b, name)) is not None), default=None)

    turns, tokens = least("turns"), least("tokens")
    return Budget(
        turns=None if turns is None else int(turns),
        tokens=None if tokens is None else int(tokens),
        cost=least("cost"),
        seconds=least("seconds"),
    )
