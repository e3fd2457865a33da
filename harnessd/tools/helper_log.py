"""Where does a helper's error output go: to a file of bounded size, without the operator's secrets."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream

LOG_AT_MOST = 1024 * 1024
"""Bytes of a log; a longer one begins anew."""

PIECE_AT_MOST = 64 * 1024
"""Bytes that are kept back for the end of a line, so that a secret is seen whole."""


WORDS_AT_MOST = 300
"""Characters of a helper's last line that are told."""


@dataclass
class HelperLog:
    """The log at `path`; `redact` takes secrets out of what is written there. `last_words`: the last line of it."""

    path: Path
    redact: Callable[[bytes], bytes]
    last_words: str = ""

    async def keep(self, output: ByteReceiveStream, ended: anyio.Event) -> None:
        """Writes down all of `output` until it ends; then sets `ended`. A log that can't be written is let go."""
        waiting, self.last_words = b"", ""
        try:
            async for chunk in output:
                waiting += chunk
                cut = len(waiting) if len(waiting) > PIECE_AT_MOST else waiting.rfind(b"\n") + 1
                if cut:
                    await self._write(waiting[:cut])
                    waiting = waiting[cut:]
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        finally:
            with anyio.CancelScope(shield=True):
                if waiting:
                    await self._write(waiting)
            ended.set()

    async def _write(self, text: bytes) -> None:
        shown = self.redact(text)
        lines = shown.decode(errors="replace").split("\n")
        self.last_words = next((line.strip() for line in reversed(lines) if line.strip()), self.last_words)[
            :WORDS_AT_MOST
        ]
        await anyio.to_thread.run_sync(self._append, shown)

    def _append(self, text: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            full = self.path.exists() and self.path.stat().st_size + len(text) > LOG_AT_MOST
            with self.path.open("wb" if full else "ab") as file:
                file.write(text)
        except OSError:
            return  # a full disk costs the log, not the server
