"""How an answer is written: camelCase JSON by the models themselves, absent values left out."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import hdrs, web
from pydantic_core import to_json

from harnessd.facts.base import Record
from harnessd.facts.log import Log

PIECE = 64 * 1024
"""Bytes after which others get a turn."""

WHOLE = 1024 * 1024
"""Bytes up to which an answer is one body that says how long it is."""


def answer(
    record: Record, status: int = 200, headers: Mapping[str, str] | None = None, *, nulls: bool = False
) -> web.Response:
    """The record as JSON; `nulls` writes absent values as null. For a record that stays small."""
    return _response(record.model_dump_json(exclude_none=not nulls).encode(), status, headers)


async def answer_at_length(request: web.Request, record: Record) -> web.StreamResponse:
    """The same for a record that may have any size: nobody else waits while it is written, and no more of it is held
    than its reader is about to take."""
    rest = _gathered(record)
    begun: list[bytes] = []
    size = 0
    for piece in rest:
        begun.append(piece)
        size += len(piece)
        if size > WHOLE:
            break
        await asyncio.sleep(0)
    else:
        return _response(b"".join(begun))
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/json"})
    await response.prepare(request)
    if request.method != hdrs.METH_HEAD:
        for some in (begun, rest):
            for piece in some:
                await response.write(piece)
                await asyncio.sleep(0)
        await response.write_eof()
    return response


def _response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _gathered(record: Record) -> Iterator[bytes]:
    """The pieces of a record's JSON, joined to some that are worth sending."""
    held: list[bytes] = []
    size = 0
    for piece in _pieces(record):
        held.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _pieces(value: Any) -> Iterator[bytes]:
    """What `model_dump_json` gives, one member of a record or of a list in it at a time: that is made at one go."""
    kind = type(value)
    if kind in {tuple, list, Log}:
        yield b"["
        for number, member in enumerate(value):
            yield b"," if number else b""
            yield to_json(member, exclude_none=True)
        yield b"]"
    elif isinstance(value, Record):
        yield b"{"
        between = b""
        fields = {kind.model_fields[name].serialization_alias or name: held for name, held in value.__dict__.items()}
        for name, held in {**fields, **(value.__pydantic_extra__ or {})}.items():
            if held is not None:
                yield between + to_json(name) + b":"
                yield from _pieces(held)
                between = b","
        yield b"}"
    else:
        yield to_json(value, exclude_none=True)
