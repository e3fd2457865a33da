"""What is kept and shown of what a command prints: text without control sequences, bounded, in pieces of some time."""

import codecs
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

_LONGEST_SEQUENCE = 4096
"""Characters of an unfinished control sequence that are waited for; what is longer was none."""

_SEQUENCE = re.compile(
    "\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, the cursor
    "|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)"  # titles, links
    "|[PX^_][^\x1b]*\x1b\\\\"  # strings for the terminal
    r"|[ -/]*[0-OQ-WYZ`-~\\]"
    ")"
    "|\x9b[0-?]*[ -/]*[@-~]"
)
_UNFINISHED = re.compile(
    "(?:\x1b(?:"
    r"\[[0-?]*[ -/]*"
    "|\\][^\x07\x1b]*\x1b?"
    "|[PX^_][^\x1b]*\x1b?"
    r"|[ -/]*"
    ")|\x9b[0-?]*[ -/]*)\\Z"
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OVERWRITTEN = re.compile(r"(?<![^\n\r])[^\n\r]*\r(?=[^\n\r])")
"""Begins only where a line does: tried at every character, a line of a megabyte would take hours."""


class Cleaner:
    """Makes text of bytes as they come: bytes that are no UTF-8 as `\\xff`, without control sequences.

    Of a line that was written over (a progress bar) the last version stays, as far as it came at once.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._held = ""

    def feed(self, data: bytes, *, last: bool = False) -> str:
        """The text of these bytes, but for an end that may be half a sequence; `last` gives that too."""
        text = self._held + self._decode(data, last)
        self._held = ""
        text = _SEQUENCE.sub("", text)
        if not last:
            unfinished = _UNFINISHED.search(text)
            cut = unfinished.start() if unfinished and len(unfinished[0]) <= _LONGEST_SEQUENCE else len(text)
            cut -= text.endswith("\r", 0, cut)
            text, self._held = text[:cut], text[cut:]
        text = _CONTROLS.sub("", text.replace("\r\n", "\n"))
        # What stands at the beginning may go on a line that was passed on already: that one is written over as well.
        return _OVERWRITTEN.sub(lambda found: "" if found.start() else "\r", text)


@dataclass
class Kept:
    """A text that grows, of which the first `head` and the last `tail` characters are kept."""

    head: int
    tail: int
    _begin: str = ""
    _end: deque[str] = field(default_factory=deque)
    _size: int = 0
    _left_out: int = 0

    def add(self, text: str) -> None:
        """More of it."""
        room = self.head - len(self._begin)
        if room > 0 and not self._size:
            self._begin, text = self._begin + text[:room], text[room:]
        if not text:
            return
        self._end.append(text)
        self._size += len(text)
        while self._size - len(self._end[0]) >= self.tail:
            gone = len(self._end.popleft())
            self._size, self._left_out = self._size - gone, self._left_out + gone

    def text(self) -> str:
        """What is kept; a cut says how much is missing."""
        end = "".join(self._end)
        cut = max(0, len(end) - self.tail)
        missing = self._left_out + cut
        note = f"\n[… {missing:,} characters of the output were not kept …]\n" if missing else ""
        return _OVERWRITTEN.sub("", self._begin + note + end[cut:])

    def take(self) -> str:
        """The same, and begins anew."""
        text = self.text()
        self._begin, self._size, self._left_out = "", 0, 0
        self._end.clear()
        return text


class Teller:
    """Passes pieces of text on, not more often than every `pause` seconds and not more than `most` characters in all.

    Of what comes faster than `each` characters a time the end is shown. `go_on` must run beside it.
    """

    def __init__(
        self, tell: Callable[[str], None], *, pause: float = 0.05, each: int = 8_000, most: int = 400_000
    ) -> None:
        self._tell = tell
        self._pause = pause
        self._each = each
        self._left = most
        self._waiting = Kept(0, each)
        self._news = anyio.Event()

    def add(self, text: str) -> None:
        """More to tell, soon."""
        if text and self._left > 0:
            self._waiting.add(text.replace("\r", "\n"))
            self._news.set()

    async def go_on(self) -> None:
        """Tells what there is for as long as it runs."""
        while self._left > 0:
            await self._news.wait()
            self.flush()
            await anyio.sleep(self._pause)

    def flush(self) -> None:
        """Tells at once what waits."""
        self._news = anyio.Event()
        text = self._waiting.take()
        if not text:
            return
        self._left -= len(text)
        self._tell(text if self._left > 0 else f"{text}\n[… the rest of the output is not shown as it comes …]\n")
