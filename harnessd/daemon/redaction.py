"""Which values are secrets of the operator's, and how are they kept out of what is written?"""

import json
import re
from collections.abc import Callable, Iterable, Mapping

SHORTEST = 6
"""Shorter values occur by chance, and replacing them would spoil ordinary text."""

REDACTED = b"[redacted]"


NESTED = 3
"""How often JSON lies in JSON: a file of JSON, in a call's arguments, in an event."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:\w*KEY(?:_ID)?|\w*TOKEN|\w*SECRET|\w*PASSWORD|PASSWD|PASSPHRASE|PAT)$", re.IGNORECASE
)


def secret_values(store: Mapping[str, str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the secret store, and of what the environment names as a key, token, secret or password.

    A value of the environment that is a path or a plain word (`OPENAI_API_KEY=ollama`) is no secret.
    """
    named = [value for name, value in env.items() if _SECRET_NAME.search(name) and _looks_secret(value)]
    return tuple(dict.fromkeys([*store.values(), *named]))


def redactor(values: Iterable[str]) -> Callable[[bytes], bytes]:
    """A function that takes the given secrets, plain or as JSON escapes them, out of UTF-8 text."""
    forms = {form.encode() for value in values if len(value) >= SHORTEST for form in _spellings(value)}
    if not forms:
        return lambda text: text
    pattern = re.compile(b"|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))
    # Looking for one form after the other is many times faster than the pattern, and nearly always finds nothing.
    return lambda text: pattern.sub(REDACTED, text) if any(form in text for form in forms) else text


def _spellings(value: str) -> set[str]:
    found = {value}
    for _ in range(NESTED):
        found |= {json.dumps(one, ensure_ascii=plain)[1:-1] for one in found for plain in (True, False)}
    return found


def _looks_secret(value: str) -> bool:
    is_word = value.replace("-", "").replace("_", "").isalpha() and len(value) < 20
    return len(value) >= 8 and not is_word and not value.startswith(("/", "~", "."))
