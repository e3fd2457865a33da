"""How many requests are let in: a token bucket, which allows a burst and then a steady rate."""

import time
from collections.abc import Callable


class Bucket:
    """Holds `burst` at most and gains `rate` a second. `clock` gives seconds that never go back."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level = float(burst)
        self._at = clock()

    def wait(self) -> float:
        """Takes one and returns 0.0, or takes none and returns the seconds until there is one."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate
