"""Are these the arguments of a call, and if not, what exactly is wrong with them.

Text becomes arguments only if its meaning is certain (see `lenient`) and it fits the tool's schema. A text that
ends early is never completed and never becomes `{}`: the model is told line, column and rule, and asks again.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harnessd.facts.message import JsonObject
from harnessd.tools.lenient import MAX_DEPTH, MAX_DIGITS, Path, Reading, Unreadable, read_lenient
from harnessd.tools.schema_check import bounded_validator, errors_of

SHOWN_ERRORS = 5

Validate = Callable[[JsonObject], tuple["Finding", ...]]
"""Checks arguments against one tool's schema."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of a schema: where in the arguments, and which rule."""

    path: Path
    rule: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why the call cannot be run; `line` and `column` count from 1, line 0 means that it is not about the text."""

    rule: str
    line: int = 1
    column: int = 1

    @property
    def message(self) -> str:
        """What the model is told."""
        if not self.line:
            return self.rule
        return f"The arguments are not valid and nothing was run. Line {self.line}, column {self.column}: {self.rule}"


def parse_arguments(text: str, validate: Validate, *, takes_none: bool = False) -> JsonObject | Invalid:
    """The arguments that `text` certainly means, checked by `validate`; `Invalid` otherwise. Never raises.

    With `takes_none` (the tool has no parameters at all) an empty text is `{}`; there is nothing to guess.
    """
    if not text.strip():
        if takes_none:
            return {}
        return Invalid("the arguments are empty; write a JSON object, `{}` if there is nothing to say")
    plain = _plain(text)
    if plain is not None and not validate(plain):
        return plain
    reading = read_lenient(text)
    if isinstance(reading, Reading) and isinstance(reading.value, str):
        # Some models encode the object twice. The outer text is certain, so the inner one is the text to read.
        text = reading.value
        reading = read_lenient(text)
    if isinstance(reading, Unreadable):
        rule = f"the text ends too early: {reading.rule}" if reading.early else reading.rule
        return Invalid(rule, *_place(text, reading.offset))
    if not isinstance(reading.value, dict):
        return Invalid(f"arguments are a JSON object, this is {_kind(reading.value)}", *_place(text, 0))
    findings = validate(reading.value)
    if findings:
        first = next((reading.places[path] for path in _upwards(findings[0].path) if path in reading.places), 0)
        return Invalid("; ".join(map(_tell, findings[:SHOWN_ERRORS])), *_place(text, first))
    return reading.value


def check_arguments(arguments: JsonObject, validate: Validate) -> JsonObject | Invalid:
    """Arguments that a person edited, held against the same schema."""
    findings = validate(arguments)
    if findings:
        return Invalid(f"The arguments do not fit the tool: {'; '.join(map(_tell, findings[:SHOWN_ERRORS]))}", line=0)
    return arguments


@dataclass(frozen=True, slots=True)
class BadSchema:
    """Why a schema cannot be used."""

    reason: str


def compile_schema(schema: JsonObject) -> Validate | BadSchema:
    """A check made once per tool; the schema itself is never altered and nothing is fetched to understand it."""
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return BadSchema("the input schema does not describe an object")
    try:
        validator = bounded_validator(schema)
        errors_of(validator, {})
    except SchemaError as error:
        return BadSchema(f"the input schema is not valid: {error.message[:300]}")
    except Exception as error:  # noqa: BLE001 - a foreign schema may break the validator in any way (references, regular expressions)
        return BadSchema(f"the input schema cannot be used: {type(error).__name__}: {str(error)[:300]}")

    def validate(arguments: JsonObject) -> tuple[Finding, ...]:
        try:
            errors = sorted(errors_of(validator, arguments), key=lambda error: [str(step) for step in error.path])
            return tuple(Finding(tuple(error.absolute_path), error.message[:500]) for error in errors)
        except Exception as error:  # noqa: BLE001 - as above; what cannot be checked is not run
            return (Finding((), f"the schema cannot be applied: {type(error).__name__}"),)

    return validate


def takes_no_arguments(schema: JsonObject) -> bool:
    """Whether the schema has no parameters at all."""
    open_ended = schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "required"}
    return not schema.get("properties") and not schema.get("additionalProperties") and not open_ended


def canonical(arguments: JsonObject) -> str:
    """One text for equal arguments, whatever the order of their keys."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(text: str) -> JsonObject | None:
    """The object in a text that is plain JSON, read the quick way; None sends it the careful way, which knows why."""
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        return None
    try:
        value = _STRICT.decode(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _each_key_once(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _refuse(_: str) -> None:
    raise ValueError


def _short(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


_STRICT = json.JSONDecoder(
    object_pairs_hook=_each_key_once, parse_constant=_refuse, parse_float=_finite, parse_int=_short
)


def _place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _upwards(path: Path) -> list[Path]:
    return [path[:length] for length in range(len(path), -1, -1)]


def _tell(finding: Finding) -> str:
    where = "/".join(map(str, finding.path))
    return f"at {where!r}: {finding.rule}" if where else finding.rule


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else "a number"
