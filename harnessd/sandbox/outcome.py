"""How a command in a sandbox can end, and how much it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a command may take, of one sandbox as a whole where the kernel lets us, else per process."""

    memory: int = 4 * 1024**3
    """Bytes; a private /tmp counts."""
    processes: int = 512
    file_size: int = 4 * 1024**3
    """Bytes of one file. How much all files take together is not bounded, but for /tmp."""
    open_files: int = 4096


@dataclass(frozen=True, slots=True)
class Ran:
    """The command ended by itself: its exit status and what it printed, both streams in one."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The command was ended after its time; `output` is what it had printed."""

    seconds: float
    output: str


NO_PROGRAM = "install it, or give its full path"
"""The way out where a program is not found."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No sandbox could be made, or it could not start the command, so nothing ran; `hint` says what to do."""

    message: str
    hint: str
