"""How things are named: ids that sort by time, and names that are safe as files.

An id is a prefix, nine characters of milliseconds since 1970 and seven of chance, in Crockford's base 32 in
lower case: `run_01kbc3fqz-7h2m9xw`. Ids made by one process ascend strictly, also within a millisecond and
when the clock steps back.
"""

import re
import secrets
import threading
import time

from harnessd.errors import InvalidName

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
ID = re.compile(r"[a-z]{2,5}_[0-9a-hjkmnp-tv-z]{9}-[0-9a-hjkmnp-tv-z]{7}")
_RANDOM_BITS = 35
_KINDS = {"ses": "a session", "run": "a run", "apr": "an approval", "call": "a tool call", "art": "an artifact"}
_LISTED = {
    "ses": "; harnessd sessions AGENT lists them",
    "run": "; harnessd show AGENT SESSION lists those of a session",
    "apr": "; harnessd sessions AGENT lists what waits",
}


class IdSource:
    """Makes ascending ids; one per process."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """A new id, e.g. `new("run")` → `run_01kbc3fqz-7h2m9xw`; later calls sort after earlier ones."""
        with self._lock:
            stamp = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
            if stamp <= self._last:
                stamp = self._last + 1 + secrets.randbits(12)
            self._last = stamp
        return f"{prefix}_{_base32(stamp >> _RANDOM_BITS, 9)}-{_base32(stamp & (2**_RANDOM_BITS - 1), 7)}"


def _base32(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        digits.append(ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))


_source = IdSource()


def new_id(prefix: str) -> str:
    """A new id of this process: `ses`, `run`, `turn`, `msg`, `call`, `apr`, `art`."""
    return _source.new(prefix)


def check_id(text: str, prefix: str) -> str:
    """`text` if it is an id of that kind; raises `InvalidName` otherwise (so `../x` never becomes a path)."""
    if ID.fullmatch(text) and text.startswith(prefix + "_"):
        return text
    raise InvalidName(
        f"{text!r} is not the id of {_KINDS.get(prefix, f'kind {prefix}')}",
        hint=f"it looks like {prefix}_01kbc3fqz-7h2m9xw{_LISTED.get(prefix, '')}",
    )


def check_name(text: str, what: str = "name") -> str:
    """`text` if it may be written as a name; raises `InvalidName` otherwise."""
    if NAME.fullmatch(text):
        return text
    raise InvalidName(
        f"{text!r} cannot be a {what}",
        hint="use 1 to 64 of a-z, 0-9 and '-', beginning with a letter or digit",
    )


def slug(text: str) -> str:
    """The nearest writable name to `text`, or `""` if nothing of it can be kept: `Right Name` → `right-name`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].rstrip("-")
