"""Which known names look like one that does not exist?"""

import difflib
from collections.abc import Sequence


def near_names(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Up to three, the nearest first. An MCP tool is also found by its own name."""
    short = {one.rpartition("__")[2]: one for one in known}
    matches = difflib.get_close_matches(name[:200], [*known, *short], n=3, cutoff=0.6)
    return tuple(dict.fromkeys(short.get(match, match) for match in matches))
