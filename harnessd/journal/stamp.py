"""How is a time written? RFC 3339 in UTC with milliseconds."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], float]
"""Seconds since 1970."""


def time_text(moment: datetime) -> str:
    """The moment as it is written; it has to know its time zone."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_now(seconds: float = 0.0) -> str:
    """The moment so many seconds from now."""
    return time_text(datetime.now(UTC) + timedelta(seconds=seconds))


class Stamp:
    """Gives the time at each call; the seconds' text is made once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        """The text of now."""
        second, milliseconds = divmod(int(self._clock() * 1000), 1000)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._text}.{milliseconds:03d}Z"
