"""How is a moment written for a person?"""

from datetime import UTC, datetime


def day_and_time(seconds: int) -> str:
    """Seconds since 1970 as day and minute in the local zone: `2026-03-01 14:05`."""
    return _written(datetime.fromtimestamp(seconds, UTC))


def moment(at: str) -> str:
    """An event's time (`2026-03-01T13:05:09.120Z`) in the same form; what is no time stays as it is."""
    try:
        return _written(datetime.fromisoformat(at))
    except ValueError:
        return at


def _written(when: datetime) -> str:
    return when.astimezone().strftime("%Y-%m-%d %H:%M")
