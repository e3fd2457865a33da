"""How bytes of an event stream become the `data` of its events, wherever the network cut them."""


class EventReader:
    """Feed it bytes as they arrive; it gives the data of each event that is complete.

    Line ends may be LF or CRLF; comments and fields other than `data` are skipped. One `data` line an event
    is the fast path; several are joined by newlines.
    """

    def __init__(self, *, max_event_bytes: int = 16 << 20) -> None:
        self._max = max_event_bytes
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The events completed by this piece; raises `ValueError` if one grows beyond bounds."""
        lines = (self._rest + piece).split(b"\n") if self._rest else piece.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > self._max:
            raise ValueError("an event of the stream is larger than it may be")
        events: list[bytes] = []
        for raw in lines:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
        return events

    def flush(self) -> list[bytes]:
        """What a stream that ended without a last empty line still holds."""
        return self.feed(b"\n\n") if self._rest or self._data else []
