"""Who listens to an event stream now: no more than there is room for, and all are let go when the door closes."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from harnessd.api.problem import Problem


class Listeners:
    """The tasks that write an event stream; a closing server waits for other requests, but not for these."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._tasks: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """The block writes a stream. Raises `Problem` 503 if there is no room for it."""
        task = asyncio.current_task()
        if task is None or len(self._tasks) >= self._room:
            raise Problem(
                503,
                "too-many-streams",
                f"{len(self._tasks)} event streams are open, and more are not served",
                hint="close one that nobody looks at",
                headers={"Retry-After": "5"},
            )
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def let_go(self) -> None:
        """Ends every stream, also one whose client takes nothing."""
        for task in tuple(self._tasks):
            task.cancel()
