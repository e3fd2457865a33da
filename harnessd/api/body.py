"""What a request brings: one JSON object, of bounded size and depth, in bounded time."""

import math
from collections.abc import Collection
from typing import TypeVar

import anyio
from aiohttp import HttpVersion11, hdrs, web
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from harnessd.api.door import Limits
from harnessd.api.keys import DOOR
from harnessd.api.problem import Problem
from harnessd.facts.message import JsonObject
from harnessd.facts.misfit import misfit

M = TypeVar("M", bound=BaseModel)


async def read_json(request: web.Request, *, may_be_empty: bool = False) -> JsonObject:
    """The object in the request's body; `{}` for no body at all, if it may be empty.

    Raises `Problem` 400 (what and where), 408 (too slow), 413 (too large), 415 (no JSON).
    """
    limits = request.app[DOOR].limits
    if not request.body_exists and may_be_empty:
        return {}
    _check_type(request)
    await _go_on(request)
    try:
        with anyio.fail_after(limits.body_seconds):
            raw = await _read(request, limits.body)
    except TimeoutError:
        detail = f"the body was not there after {limits.body_seconds:g} s"
        raise Problem(408, "slow-body", detail, headers={hdrs.CONNECTION: "close"}) from None
    if not raw and may_be_empty:
        return {}
    return _parse(raw, limits)


async def read_model(request: web.Request, model: type[M], *, may_be_empty: bool = False) -> M:
    """The body as a `model`. Raises `Problem` that names the field and the rule."""
    data = await read_json(request, may_be_empty=may_be_empty)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError, variants: Collection[str] = ()) -> Problem:
    """The problem that a body of the wrong shape is; the names of `variants` of a union stand in no path."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    steps = first["loc"][1:] if first["loc"] and first["loc"][0] in variants else first["loc"]
    place = ".".join(str(step) for step in steps)
    said = misfit(first["msg"])
    return Problem(400, "invalid-body", f"{place}: {said}" if place else said, where=place or None)


def _check_type(request: web.Request) -> None:
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise Problem(415, "unsupported-media-type", "the body must not be compressed")
    kind = request.content_type
    if hdrs.CONTENT_TYPE not in request.headers or not (kind == "application/json" or kind.endswith("+json")):
        raise Problem(
            415, "unsupported-media-type", "the body must be JSON", hint="send Content-Type: application/json"
        )
    charset = request.charset
    if charset is not None and charset.lower() not in {"utf-8", "utf8"}:
        raise Problem(415, "unsupported-media-type", "JSON is UTF-8")


async def _go_on(request: web.Request) -> None:
    """Tells a client that holds its body back until then (RFC 9110, 10.1.1)."""
    expected = request.headers.get(hdrs.EXPECT)
    if expected is None or request.version < HttpVersion11:
        return
    if expected.lower() != "100-continue":
        raise Problem(417, "expectation-failed", "nothing but 100-continue can be expected here")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer itself has not begun


async def _read(request: web.Request, most: int) -> bytes:
    too_large = Problem(413, "too-large", f"the body is larger than {most} bytes", headers={hdrs.CONNECTION: "close"})
    if request.content_length is not None and request.content_length > most:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    while piece := await request.content.readany():
        size += len(piece)
        if size > most:
            raise too_large
        pieces.append(piece)
    return b"".join(pieces)


def _parse(raw: bytes, limits: Limits) -> JsonObject:
    try:
        data = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(400, "malformed-json", f"the body is no valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise Problem(400, "invalid-body", "the body must be a JSON object")
    _check_values(data, limits.depth)
    return data


def _check_values(data: JsonObject, depth: int) -> None:
    """Refuses what could be recorded but not be read again: too deep a nesting, and numbers that are none."""
    level: list[object] = [data]
    for _ in range(depth):
        inside: list[object] = []
        for value in level:
            children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            inside.extend(child for child in children if isinstance(child, dict | list | float))
        if any(isinstance(one, float) and not math.isfinite(one) for one in inside):
            raise Problem(400, "malformed-json", "the body holds a number that is too large")
        level = [one for one in inside if not isinstance(one, float)]
        if not level:
            return
    raise Problem(400, "malformed-json", f"the body is nested more than {depth} deep")
