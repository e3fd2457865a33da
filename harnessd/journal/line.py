"""How a fact looks on disk: one line of JSON that begins with the checksum of its own rest.

``{"crc":"<8 hex digits>",<rest>}`` and a line feed. The checksum is the CRC-32 of the bytes after
``"crc":"xxxxxxxx",`` up to and including the closing brace, so that a flipped bit inside a string, which still
parses, is noticed. JSON escapes line feeds and quotes inside strings: a record never holds a bare line feed,
and its first bytes never occur inside a string.
"""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

from pydantic_core import PydanticSerializationError, from_json, to_json

from harnessd.facts.event import Event, UnknownEvent, read_event, write_event

PREFIX = b'{"crc":"'
_HEAD = len(PREFIX) + 8 + len(b'",')


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes that are no record, and how they betray it."""

    reason: str
    data: bytes = b""


def encode(event: Event) -> bytes:
    """The event's line, with its line feed; absent values are left out."""
    return frame(body_of(event)[1])


def body_of(event: Event) -> tuple[Event, bytes]:
    """The event and its JSON, which read back gives an equal event.

    A lone surrogate, which a model can write as `\\ud83d` and UTF-8 cannot hold, becomes U+FFFD in both.
    """
    if not isinstance(event, UnknownEvent):
        try:
            return event, event.__pydantic_serializer__.to_json(event, by_alias=True, exclude_none=True)
        except (PydanticSerializationError, UnicodeEncodeError):
            data = _writable(event.model_dump(exclude_none=True))
            return read_event(data), to_json(data)
    data = _writable(write_event(event))
    return read_event(data), to_json(data)


def decode(line: bytes) -> Event | Damaged:
    """The event of one line (with or without its line feed), or what is wrong with the bytes."""
    data = unframe(line)
    return data if isinstance(data, Damaged) else read_event(data)


def frame(body: bytes) -> bytes:
    """A JSON object, not empty and without white space between its tokens, as a line with its checksum."""
    rest = body[1:]
    return b'{"crc":"%08x",%b\n' % (crc32(rest), rest)


def unframe(line: bytes) -> dict[str, Any] | Damaged:
    """The object that `frame` made into a line, or what is wrong with the bytes."""
    fault = check(line)
    if fault is not None:
        return Damaged(fault, line)
    try:
        data = from_json(b"{" + line[_HEAD:])
    except ValueError as error:
        return Damaged(f"the checksum is right but this is no JSON: {error}", line)
    return data if isinstance(data, dict) else Damaged("not a JSON object", line)


def check(line: bytes) -> str | None:
    """What the checksum says against the line; None if nothing. Does not parse the JSON."""
    if not line.startswith(PREFIX) or line[_HEAD - 2 : _HEAD] != b'",':
        return "does not begin with a checksum"
    end = len(line) - 1 if line.endswith(b"\n") else len(line)
    if line[len(PREFIX) : _HEAD - 2] != b"%08x" % crc32(memoryview(line)[_HEAD:end]):
        return "does not match its checksum"
    return None


def _writable(value: Any) -> Any:
    """`value` with every string as UTF-8 can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value
