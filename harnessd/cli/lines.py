"""What does the person type? Read without a thread, so that leaving never hangs on a line that does not come."""

import codecs
import os
import select

import anyio
import anyio.lowlevel

from harnessd.cli.output import Output

_PIECE = 65_536
_PASTE_SECONDS = 0.02
"""How long a terminal may take from one pasted line to the next."""


class Lines:
    """Lines from a file descriptor: a terminal, a pipe or a file. Text pasted into a terminal is one line."""

    def __init__(self, descriptor: int, out: Output) -> None:
        self._descriptor = descriptor
        self._out = out
        self._is_terminal = os.isatty(descriptor)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = ""
        self._ended = False

    async def next(self, prompt: str = "") -> str | None:
        """The next line without its end, None when there is no more."""
        if prompt and self._is_terminal:
            self._out.write(prompt)
        while "\n" not in self._pending and not self._ended:
            await self._wait()
            self._take()
        if not self._pending:
            return None
        if not self._is_terminal:
            line, _, self._pending = self._pending.partition("\n")
            return line
        # What stands ready beside the first line was pasted with it.
        while not self._ended and select.select([self._descriptor], [], [], _PASTE_SECONDS)[0]:
            self._take()
        line, self._pending = self._pending.rstrip("\n"), ""
        return line

    async def _wait(self) -> None:
        try:
            await anyio.wait_readable(self._descriptor)
        except OSError:
            await anyio.lowlevel.checkpoint()  # a plain file is always readable and cannot be waited for

    def _take(self) -> None:
        try:
            data = os.read(self._descriptor, _PIECE)
        except OSError:
            data = b""
        self._ended = not data
        self._pending += self._decoder.decode(data, final=not data)
