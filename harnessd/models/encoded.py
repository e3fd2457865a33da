"""The bytes of a session's messages, encoded once and kept, so that a request body is a join."""

import operator
from collections import OrderedDict
from collections.abc import Sequence

import orjson

from harnessd.facts.message import Message, UserMessage
from harnessd.models.request import ModelRequest, ToolSpec
from harnessd.models.wire import wire_message, wire_system, wire_tool, wire_user


class EncodedHistories:
    """Encoded bytes of the sessions used last, bounded by count and by bytes.

    A message is recognised by identity: history is append-only, so nearly always only its tail is new. What
    was rewritten (a compaction) is encoded again from the first message that differs.
    """

    def __init__(self, *, max_sessions: int = 256, max_bytes: int = 32 << 20) -> None:
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._size = 0
        self._sessions: OrderedDict[str, _History] = OrderedDict()

    def body(self, request: ModelRequest, options: bytes) -> bytes:
        """The JSON body of the request. `options` are the other members of the object, without braces."""
        if not request.session_id or request.purpose != "chat":
            # A summary's messages are nobody's history; they must not push out what is kept.
            pieces = _History().update(request)
        else:
            history = self._sessions.pop(request.session_id, None) or _History()
            self._size -= history.size
            pieces = history.update(request)
            self._sessions[request.session_id] = history
            self._size += history.size
            self._shrink()
        return b"".join([b"{", options, b",", *pieces, b"}"])

    def forget(self, session_id: str) -> None:
        """Drop what is kept of a session."""
        if history := self._sessions.pop(session_id, None):
            self._size -= history.size

    def _shrink(self) -> None:
        while self._sessions and (len(self._sessions) > self._max_sessions or self._size > self._max_bytes):
            _, oldest = self._sessions.popitem(last=False)
            self._size -= oldest.size


class _History:
    def __init__(self) -> None:
        self._system: str | None = None
        self._system_bytes = b""
        self._tools: tuple[ToolSpec, ...] = ()
        self._tools_bytes = b""
        self._messages: list[Message] = []
        self._encoded: list[bytes] = []
        self.size = 0

    def update(self, request: ModelRequest) -> list[bytes]:
        """Take up what is new; returns the pieces `"messages":[…]` and `,"tools":[…]`."""
        if request.system is not self._system and request.system != self._system:
            self._system = request.system
            self.size -= len(self._system_bytes)
            self._system_bytes = orjson.dumps(wire_system(request.system)) if request.system else b""
            self.size += len(self._system_bytes)
        if request.tools is not self._tools:
            self._tools = request.tools
            encoded = b",".join(orjson.dumps(wire_tool(tool)) for tool in request.tools)
            self.size -= len(self._tools_bytes)
            self._tools_bytes = b',"tools":[' + encoded + b"]" if encoded else b""
            self.size += len(self._tools_bytes)
        self._follow(request.messages)
        listed = [self._system_bytes] if self._system_bytes else []
        listed += self._encoded
        if request.context_note:
            self._add_note(listed, request.messages, request.context_note)
        return [b'"messages":[', b",".join(listed), b"]", self._tools_bytes]

    def _follow(self, messages: Sequence[Message]) -> None:
        known = len(self._messages)
        if len(messages) < known or not all(map(operator.is_, self._messages, messages)):
            pairs = zip(self._messages, messages, strict=False)
            known = next((n for n, (old, new) in enumerate(pairs) if old is not new), min(known, len(messages)))
            self.size -= sum(map(len, self._encoded[known:]))
            del self._messages[known:], self._encoded[known:]
        if len(messages) > known:
            fresh = messages[known:]
            # The copy is as large as its content; orjson's own answer keeps its buffer, some KiB to ten times of that.
            encoded = [bytes(memoryview(orjson.dumps(wire_message(message)))) for message in fresh]
            self._messages += fresh
            self._encoded += encoded
            self.size += sum(map(len, encoded))

    def _add_note(self, listed: list[bytes], messages: Sequence[Message], note: str) -> None:
        """The note joins the last message when that is a user's: some templates refuse two in a row."""
        last = messages[-1] if messages else None
        if not isinstance(last, UserMessage):
            listed.append(orjson.dumps(wire_user(note)))
            return
        wire = wire_message(last)
        content = wire["content"]
        if isinstance(content, str):
            wire["content"] = f"{content}\n\n{note}"
        else:
            wire["content"] = [*content, {"type": "text", "text": note}]
        listed[-1] = orjson.dumps(wire)
