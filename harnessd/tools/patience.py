"""How does a deadline stand still while a person is asked?"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


@contextmanager
def paused(scope: anyio.CancelScope) -> Iterator[None]:
    """The scope's deadline stands still while the block runs; what was left of it is left afterwards."""
    left = scope.deadline - anyio.current_time()
    scope.deadline = math.inf
    try:
        yield
    finally:
        scope.deadline = anyio.current_time() + left
