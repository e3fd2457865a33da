"""How the HTTP door is set: who may come in, how much may come in, and whether the daemon is ready."""

from collections.abc import Callable
from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client or all of them may ask of the process. Sizes are bytes, times seconds.

    A request's head must be there `idle_seconds` after the connection opened or the answer before it ended, its
    body `body_seconds` after its head; a client that takes nothing of its answer for `stall_seconds` is cut off.
    `rate` requests a second are let in on average and up to `burst` at once; strangers, who have no token, share a
    measure of their own. `connections` are open at most by the port, and as many by the unix socket; `streams` of
    them all may be event streams.
    """

    body: int = MIB
    depth: int = 64
    idle_seconds: float = 30.0
    body_seconds: float = 20.0
    stall_seconds: float = 30.0
    rate: float = 500.0
    burst: int = 2000
    connections: int = 1024
    streams: int = 512


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether controls are carried out now; `note` says why not, or what a person should know (safe mode)."""

    ready: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Door:
    """`token` opens it; `hosts` are names it answers to beside those of this machine; `ready` is asked by /readyz."""

    token: str = field(repr=False)
    hosts: tuple[str, ...] = ()
    limits: Limits = Limits()
    ready: Callable[[], Readiness] = Readiness
