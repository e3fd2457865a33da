"""How a scripted answer looks as events of the OpenAI and of the Anthropic wire."""

from typing import Any

import orjson

from harnessd.facts.message import JsonObject
from harnessd.models.script import Answer, Call

_MODEL = "scripted"


def openai_events(answer: Answer) -> list[bytes]:
    """The server-sent events of a chat completion."""
    if answer.raw is not None:
        return [b"data: " + event + b"\n\n" for event in answer.raw]
    deltas: list[JsonObject] = [{"reasoning_content": piece} for piece in _pieces(answer.reasoning, answer.piece)]
    deltas += [{"content": piece} for piece in _pieces(answer.text, answer.piece)]
    for number, call in enumerate(answer.calls):
        deltas += _openai_call(number, call, answer.piece)
    if deltas:
        deltas[0] = {"role": "assistant", **deltas[0]}
    chunks = [_openai_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    reason = answer.finish or ("tool_calls" if answer.calls else "stop")
    chunks.append(_openai_chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
    if answer.usage is not None:
        given, made, cached = answer.usage
        usage = {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        chunks.append({**_openai_chunk([]), "usage": usage})
    events = [b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks]
    return [*events, b"data: [DONE]\n\n"] if answer.done else events


def anthropic_events(answer: Answer) -> list[bytes]:
    """The server-sent events of an Anthropic message."""
    if answer.raw is not None:
        return [b"data: " + event + b"\n\n" for event in answer.raw]
    given, made, cached = answer.usage or (0, 0, 0)
    usage = {"input_tokens": given - cached, "output_tokens": 1, "cache_read_input_tokens": cached}
    message: JsonObject = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": _MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events = [_event({"type": "message_start", "message": message})]
    for number, (start, deltas) in enumerate(_anthropic_blocks(answer)):
        events.append(_event({"type": "content_block_start", "index": number, "content_block": start}))
        events += [_event({"type": "content_block_delta", "index": number, "delta": delta}) for delta in deltas]
        events.append(_event({"type": "content_block_stop", "index": number}))
    reason = {"length": "max_tokens", "content_filter": "refusal"}.get(
        answer.finish or "", "tool_use" if answer.calls else "end_turn"
    )
    events.append(
        _event(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": made},
            }
        )
    )
    events.append(_event({"type": "message_stop"}))
    return events


def error_event(message: str, wire: str) -> bytes:
    """An error in the middle of a stream."""
    if wire == "openai":
        return b"data: " + orjson.dumps({"error": {"message": message, "type": "server_error"}}) + b"\n\n"
    return _event({"type": "error", "error": {"type": "api_error", "message": message}})


def _openai_chunk(choices: list[JsonObject]) -> JsonObject:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": _MODEL,
        "choices": choices,
    }


def _openai_call(number: int, call: Call, size: int) -> list[JsonObject]:
    index = number if call.index is None else call.index
    first: JsonObject = {"index": index, "type": "function", "function": {"name": call.name, "arguments": ""}}
    call_id = f"call_{number}" if call.id is None else call.id
    if call_id:
        first["id"] = call_id
    rest = [{"index": index, "function": {"arguments": piece}} for piece in _pieces(_arguments(call), size)]
    return [{"tool_calls": [delta]} for delta in [first, *rest]]


def _anthropic_blocks(answer: Answer) -> list[tuple[JsonObject, list[JsonObject]]]:
    blocks: list[tuple[JsonObject, list[JsonObject]]] = []
    if answer.reasoning:
        deltas: list[JsonObject] = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(answer.reasoning, answer.piece)
        ]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(answer.text, answer.piece)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for number, call in enumerate(answer.calls):
        call_id = f"toolu_{number}" if call.id is None else call.id
        start = {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}
        pieces = _pieces(_arguments(call), answer.piece)
        blocks.append((start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]))
    return blocks


def _event(data: dict[str, Any]) -> bytes:
    return b"event: " + str(data["type"]).encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else orjson.dumps(call.arguments).decode()


def _pieces(text: str, size: int) -> list[str]:
    if not text:
        return []
    return [text[start : start + size] for start in range(0, len(text), size)] if size else [text]
