"""Which calls may run at the same time: readers together, writers alone and in order."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

TOGETHER_AT_MOST = 8


class Marked(Protocol):
    """What scheduling looks at."""

    @property
    def effect(self) -> str:
        """`read` or `write`."""
        ...

    @property
    def concurrency_safe(self) -> bool:
        """Whether a writer may run beside others."""
        ...


M = TypeVar("M", bound=Marked)


def plan(calls: Sequence[M], together: int = TOGETHER_AT_MOST) -> tuple[tuple[M, ...], ...]:
    """The calls in their order, cut into batches: the members of a batch run together, the batches one by one.

    A reader never overtakes a writer that was asked for before it, so it sees what that writer did.
    """
    batches: list[list[M]] = []
    open_batch = False
    for call in calls:
        shares = call.effect == "read" or call.concurrency_safe
        if shares and open_batch and len(batches[-1]) < together:
            batches[-1].append(call)
        else:
            batches.append([call])
        open_batch = shares
    return tuple(map(tuple, batches))
