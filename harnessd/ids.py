"""How things are named: ids that sort by time, and names that are safe as files.

An id is a prefix, nine characters of milliseconds since 1970 and seven of chance, in Crockford's base 32 in
lower case: `run_01kbc3fqz-7h2m9xw`. Ids made by one process ascend strictly, also within a millisecond and
when the clock steps back.
"""

import hashlib
import os
import re
import struct
import threading
import time
from base64 import b32encode
from collections.abc import Callable

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
    """Makes ascending ids; one per process. `clock` gives nanoseconds since 1970."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()
        self._chances: list[int] = []
        self._pid = 0

    def new(self, prefix: str) -> str:
        """A new id, e.g. `new("run")` → `run_01kbc3fqz-7h2m9xw`; later calls sort after earlier ones."""
        with self._lock:
            stamp = (self._clock() // 1_000_000) << _RANDOM_BITS | self._chance(_RANDOM_BITS)
            if stamp <= self._last:
                stamp = self._last + 1 + self._chance(12)
            self._last = stamp
        when, chance = _digits(stamp)
        return f"{prefix}_{when}-{chance}"

    def _chance(self, bits: int) -> int:
        """So many bits that nobody can foresee, read for many ids at once: each reading lets other threads go first."""
        if not self._chances or self._pid != os.getpid():  # a forked child must not use its parent's
            self._pid, self._chances = os.getpid(), list(struct.unpack("256Q", os.urandom(8 * 256)))
        return self._chances.pop() >> (64 - bits)


def _digits(number: int) -> tuple[str, str]:
    """The lowest 80 bits as nine and seven digits."""
    digits = b32encode((number & _MOST).to_bytes(10)).translate(_OURS).decode()
    return digits[:9], digits[9:]


_MOST = 2**80 - 1
_OURS = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ALPHABET.encode())
"""From the digits of RFC 4648 to ours."""


_source = IdSource()


def new_id(prefix: str) -> str:
    """A new id of this process: `ses`, `run`, `turn`, `msg`, `call`, `apr`, `art`."""
    return _source.new(prefix)


def derived_id(prefix: str, beside: str, text: str) -> str:
    """The same id whenever it is made from the same `text`; it sorts with the id `beside`, a run's for example."""
    number = int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest())
    stamp, chance = _digits(number)
    if ID.fullmatch(beside):
        stamp = beside.split("_", 1)[1][:9]
    return f"{prefix}_{stamp}-{chance}"


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
