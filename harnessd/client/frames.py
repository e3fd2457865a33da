"""How bytes of our event stream become frames, wherever the network cut them."""

from dataclasses import dataclass

MOST = 64 << 20
"""Bytes of one frame; a larger one is no frame of ours."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event; `id` is empty if it carries none."""

    event: str
    data: bytes
    id: str = ""


class Frames:
    """Feed it bytes as they arrive; it gives the frames that are complete. Comments are skipped."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._held = 0
        self._id = ""
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[Frame]:
        """The frames completed by this piece. Raises `ValueError` if one grows beyond bounds."""
        self._rest.append(piece)
        self._held += len(piece)
        if b"\n" not in piece:
            if self._held > MOST:
                raise ValueError("a frame of the stream is larger than it may be")
            return []
        lines = b"".join(self._rest).split(b"\n")
        self._rest = [lines.pop()]
        self._held = len(self._rest[0])
        frames: list[Frame] = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line:
                self._field(line)
            elif self._data:
                frames.append(self._frame())
        return frames

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")

    def _frame(self) -> Frame:
        frame = Frame(self._event or "message", b"\n".join(self._data), self._id)
        self._event, self._id, self._data = "", "", []
        return frame
