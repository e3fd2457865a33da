"""When is the daemon to end: by a signal, in order, or at once?

The first SIGTERM or SIGINT asks it to stop; a second one, or an end in order that hangs, ends it at once. Even then
no child of it is left. SIGHUP changes nothing: homes are read before each run, and settings count from the next
start.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

AT_ONCE_CODE = 130
"""The exit code of a daemon that was not given time to end in order."""
PARTING_S = 10.0
"""How long, after the time for turns, closing files and processes may take."""

log = logging.getLogger(__name__)


class Leaving:
    """`asked` is set by the first signal, whose name is `by`."""

    def __init__(self, grace_seconds: float, tidy: Callable[[], None]) -> None:
        self.asked = anyio.Event()
        self.by = ""
        self.starting = anyio.CancelScope()
        """What is given up when the daemon is asked to stop before it is ready."""
        self._tidy = tidy
        self._last = threading.Timer(grace_seconds + PARTING_S, self._overdue)
        self._last.daemon = True

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Signals are heeded while the block runs; only in the main thread."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            self._last.cancel()
            for number in numbers:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGHUP:
            log.info("hang-up ignored: settings count from the next start")
        elif self.asked.is_set():
            log.warning("left at once", extra={"signal": number.name})
            self._at_once(AT_ONCE_CODE)
        else:
            self.by = number.name
            self.asked.set()
            self.starting.cancel()
            self._last.start()

    def _overdue(self) -> None:
        log.error("stopping hangs: left at once")
        self._at_once(1)

    def _at_once(self, code: int) -> None:
        """Ends the process with all below it; what was acknowledged is on disk."""
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._tidy()
        os._exit(code)


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents before children."""
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                found += [child, *descendants(child)]
    return found
