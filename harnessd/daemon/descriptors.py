"""How many files and connections may the daemon have open at once? As many as its own limits let in."""

import resource

WANTED = 16_384
"""Room for all connections that the door lets in (2 × 1,024) and two files of each of some thousand open sessions.
Most systems start a process with 1,024, and let it have far more when it asks; what it starts inherits that."""


def make_room() -> int:
    """Raises the soft limit as far as is wanted and allowed; the limit now in force. It is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft
