"""A stranger's schema costs bounded time, and refers to nothing outside of itself."""

import time
from typing import Any

import pytest

from harnessd.tools.arguments import BadSchema, compile_schema

BOMB = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNUSABLE: dict[str, dict[str, Any]] = {
    "references that double": {"$ref": "#/$defs/a0", "$defs": BOMB},
    "the same in a schema that names its dialect": {
        "allOf": [{"$schema": DIALECT, "$ref": "#/$defs/a0"}],
        "$defs": BOMB,
    },
    "a reference to itself": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "a reference elsewhere": {"$ref": "http://127.0.0.1:9/schema.json"},
    "a reference to a file": {"$ref": "file:///etc/passwd"},
    "names by an endless expression": {"patternProperties": {"(a+)+$": {}}},
    "an array": {"type": "array"},
    "a wrong keyword": {"properties": {"a": {"type": 7}}},
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_m1_an_unusable_schema_is_found_in_time(what: str) -> None:
    began = time.monotonic()
    assert isinstance(compile_schema({"type": "object"} | UNUSABLE[what]), BadSchema)
    assert time.monotonic() - began < 3


def test_m1_an_endless_expression_is_given_up() -> None:
    check = compile_schema({"type": "object", "properties": {"a": {"pattern": r"^(([a-z])+.)+[A-Z]([a-z])+$"}}})
    assert not isinstance(check, BadSchema)
    began = time.monotonic()
    assert check({"a": "a" * 60 + "!"})
    assert time.monotonic() - began < 3


def test_m1_a_schema_that_grows_with_what_is_checked_is_given_up() -> None:
    below: dict[str, Any] = {"properties": {"x": {"allOf": [{"$ref": "#/$defs/n"}] * 2}}}
    check = compile_schema({"type": "object", "$ref": "#/$defs/n", "$defs": {"n": below}})
    assert not isinstance(check, BadSchema)
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"x": value}
    began = time.monotonic()
    assert "cannot be applied" in check(value)[0].rule
    assert time.monotonic() - began < 3


def test_an_ordinary_schema_is_applied_whole() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": r"^\p{Lu}"}, "next": {"$ref": "#"}},
        "additionalProperties": False,
    }
    check = compile_schema(schema)
    assert not isinstance(check, BadSchema)
    assert check({"name": "Ä", "next": {"name": "B"}}) == ()
    assert [finding.path for finding in check({"name": "ä", "next": {"name": 5, "other": 1}})] == [
        ("name",),
        ("next",),
        ("next", "name"),
    ]
