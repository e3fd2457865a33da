"""How is foreign text shown without letting it steer the terminal?"""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """`text` without control characters (but line feeds and tabs) and without marks that reorder what is read."""
    return _CONTROL.sub("", text)


def one_line(text: str, width: int = 100) -> str:
    """The beginning of `text` on one line of at most `width` characters, made harmless."""
    joined = " ".join(harmless(text).split())
    return joined if len(joined) <= width else joined[: width - 1] + "…"
