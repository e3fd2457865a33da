"""How is a helper's output read line by line, when a line may be of any length and never end?"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
from anyio.abc import ByteReceiveStream

LINE_AT_MOST = 8 * 1024 * 1024
"""Bytes of one line; a longer one is dropped as it comes."""

EDGE = 512
"""Bytes that are kept of either end of a line that is dropped."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was dropped: how it began, how it ended, and how many bytes it had."""

    head: bytes
    tail: bytes
    size: int


async def lines(output: ByteReceiveStream) -> AsyncIterator[bytes | TooLong]:
    """Each line without its end; what stands after the last line end is no line. Ends with the output."""
    buffer = bytearray()
    head, dropped, searched = b"", 0, 0
    try:
        async for chunk in output:
            buffer += chunk
            while (end := buffer.find(b"\n", searched)) >= 0:
                if dropped:
                    yield TooLong(head, bytes(buffer[max(0, end - EDGE) : end]), dropped + end)
                else:
                    yield bytes(buffer[:end])
                del buffer[: end + 1]
                dropped = searched = 0
            if len(buffer) > LINE_AT_MOST or (dropped and len(buffer) > 2 * EDGE):
                head = head if dropped else bytes(buffer[:EDGE])
                dropped += len(buffer) - EDGE
                del buffer[:-EDGE]
            searched = len(buffer)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return
