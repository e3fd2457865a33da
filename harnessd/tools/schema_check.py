"""How is something held against a schema that a stranger wrote, in bounded time?

A small schema can double its work with every reference, or hold a regular expression that never comes to an end.
So each keyword looks at the clock, and regular expressions run with a time limit.
"""

import re
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import cache
from typing import Any

from harnessd.facts.message import JsonObject

CHECK_SECONDS = 0.5
"""How long one check may take."""

_NESTED = re.compile(r"[+*}][^()]*\)[+*{]")
"""A repetition in a repetition. For names of properties the library uses expressions that know no time."""

_UNTIL: ContextVar[float] = ContextVar("until when the check that runs now may take")


class TookTooLong(Exception):
    """The schema asks for more work than is done for it."""


def errors_of(validator: Any, value: Any) -> list[Any]:
    """Every breach of the validator's schema. Raises `TookTooLong`, and whatever a foreign schema may bring about."""
    token = _UNTIL.set(time.monotonic() + CHECK_SECONDS)
    try:
        return list(validator.iter_errors(value))
    finally:
        _UNTIL.reset(token)


def bounded_validator(schema: JsonObject) -> Any:
    """A validator of the `jsonschema` library for `schema`, for `errors_of`; it fetches nothing.

    Raises `jsonschema.SchemaError`, or whatever else a foreign schema may bring about.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind: Any = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema, format_checker=_expressions())
    # A schema inside that names its own dialect would be checked without the clock.
    return _bounded(kind)(_without_dialects(schema), registry=Registry())


@cache
def _expressions() -> Any:
    """Knows which expressions can be used. Not those of `re` alone: `\\p{Lu}` is fine."""
    import regex
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())

    @checker.checks("regex", raises=regex.error)
    def usable(value: object) -> bool:
        return not isinstance(value, str) or regex.compile(value) is not None

    return checker


@cache
def _bounded(kind: Any) -> Any:
    from jsonschema import validators

    checks = {**kind.VALIDATORS, "pattern": _pattern}
    extend: Any = validators.extend
    return extend(kind, {keyword: _on_the_clock(check) for keyword, check in checks.items()})


def _on_the_clock(check: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterable[Any] | None]:
    def clocked(*given: Any) -> Iterable[Any] | None:
        if time.monotonic() > _UNTIL.get():
            raise TookTooLong(f"checking against it takes more than {CHECK_SECONDS} s")
        return check(*given)

    return clocked


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterable[Any]:
    import regex
    from jsonschema import ValidationError

    if validator.is_type(instance, "string"):
        left = max(0.01, _UNTIL.get() - time.monotonic())
        if not regex.search(pattern, instance, timeout=left):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _without_dialects(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_dialects(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    names = schema.get("patternProperties")
    if isinstance(names, dict) and any(_NESTED.search(name) for name in names):
        raise ValueError("an expression in its patternProperties may never come to an end")
    return {
        key: _without_dialects(value)
        for key, value in schema.items()
        if not (key == "$schema" and isinstance(value, str))
    }
