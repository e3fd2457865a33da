"""Which calls may run at the same time: readers together, writers alone and in order."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import anyio

TOGETHER_AT_MOST = 8
"""Calls of one turn that run at the same time."""


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


def plan(calls: Sequence[M]) -> tuple[tuple[M, ...], ...]:
    """The calls in their order, cut into batches: the members of a batch may run together, the batches one by one.

    A reader never overtakes a writer that was asked for before it, so it sees what that writer did.
    """
    batches: list[list[M]] = []
    open_batch = False
    for call in calls:
        shares = call.effect == "read" or call.concurrency_safe
        if shares and open_batch:
            batches[-1].append(call)
        else:
            batches.append([call])
        open_batch = shares
    return tuple(map(tuple, batches))


async def run_batch(work: Callable[[M], Awaitable[None]], batch: Sequence[M], together: int) -> None:
    """`work` on every member, begun in order, at most `together` at a time; the next begins as soon as one has ended.

    What `work` raises ends the others and comes out as it is, not as a group.
    """
    if len(batch) == 1:
        await work(batch[0])
        return
    room = anyio.Semaphore(together, max_value=together)

    async def one(member: M) -> None:
        try:
            await work(member)
        finally:
            room.release()

    try:
        async with anyio.create_task_group() as group:
            for member in batch:
                await room.acquire()
                group.start_soon(one, member)
    except BaseExceptionGroup as broken:
        raise _first(broken) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
