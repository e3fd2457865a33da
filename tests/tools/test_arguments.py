"""Only what the model certainly wrote becomes arguments."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.tools.arguments import (
    BadSchema,
    Invalid,
    canonical,
    compile_schema,
    parse_arguments,
    takes_no_arguments,
)
from harnessd.tools.lenient import Reading, read_lenient


def anything(_: object) -> tuple[()]:
    return ()


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


@given(objects, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_l1_valid_json_reads_as_json_does(value: dict[str, object], indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse_arguments(text, anything) == json.loads(text) == value


@given(objects, st.sampled_from([None, 2]), st.booleans(), st.data())
@settings(max_examples=300)
def test_l1_no_prefix_of_valid_arguments_is_executed(
    value: dict[str, object], indent: int | None, fence: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, indent=indent)
    if fence:
        text = f"```json\n{text}\n```"
    end = data.draw(st.integers(0, len(text) - 1))
    found = parse_arguments(text[:end], anything)
    assert isinstance(found, Invalid)
    assert fence or "empty" in found.rule or "too early" in found.rule


@given(st.text(max_size=60) | st.text("{}[]\"':,\\/` \n\ttruefalsenull0123.eE-+x*", max_size=40))
@settings(max_examples=500)
def test_l1_any_text_is_read_or_refused_and_nothing_is_added_to_it(text: str) -> None:
    found = read_lenient(text)
    quick = parse_arguments(text, anything)
    if isinstance(found, Reading) and isinstance(found.value, dict):
        assert quick == found.value  # both ways of reading agree
    elif not isinstance(found, Reading):
        assert isinstance(quick, Invalid)
    if isinstance(found, Reading) and not found.liberties:
        assert json.loads(text, strict=False) == found.value
    try:
        strict = json.loads(text, object_pairs_hook=_no_pair_twice, parse_constant=_not_json)
        json.dumps(strict, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return
    assert not isinstance(found, Reading) or found.value == strict or found.liberties


def _no_pair_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def _not_json(_: str) -> None:
    raise ValueError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{'a': 'b'}", {"a": "b"}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": True, "b": None, "c": False}', {"a": True, "b": None, "c": False}),
        ('{a: 1, b_c: "x"}', {"a": 1, "b_c": "x"}),
        ('{"a": 1} // done', {"a": 1}),
        ('/* first */ {"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": "line one\nline two"}', {"a": "line one\nline two"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ("{\"a\": 'it\\'s'}", {"a": "it's"}),
        (' \n{"a": 1}\n ', {"a": 1}),
    ],
)
def test_l1_a_certain_meaning_is_taken(text: str, meant: object) -> None:
    assert parse_arguments(text, anything) == meant


@pytest.mark.parametrize(
    ("text", "line", "column", "rule"),
    [
        ("", 1, 1, "empty"),
        ("  \n ", 1, 1, "empty"),
        ("{", 1, 2, "too early"),
        ('{"path": "a.txt", "content": "hel', 1, 34, "not closed"),
        ('{"a": 1', 1, 8, "too early"),
        ('{"a": 1,', 1, 9, "too early"),
        ('{"a": ', 1, 7, "too early"),
        ('"{\\"a\\": 1"', 1, 8, "too early"),
        ('```json\n{"a": 1}', 2, 9, "fence"),
        ('{"a": }', 1, 7, "a value is missing"),
        ('{"a" 1}', 1, 6, "':'"),
        ('{"a": 1 "b": 2}', 1, 9, "','"),
        ('{"a": 1}}', 1, 9, "after the end"),
        ('{"a": 1} {"b": 2}', 1, 10, "after the end"),
        ('Sure! {"a": 1}', 1, 1, "no value"),
        ('{"a": "say "hi""}', 1, 13, "','"),
        ('{"a": 1,\n "a": 2}', 2, 2, "twice"),
        ('{"a": "C:\\dir"}', 1, 10, "no escape"),
        ('{"a": NaN}', 1, 7, "no value"),
        ('{"a": 1e999}', 1, 7, "too large"),
        ('{"a": 01}', 1, 7, "value is missing"),
        ('{"a": "\\ud800"}', 1, 7, "surrogate"),
        ("[1]", 1, 1, "object"),
        ("null", 1, 1, "object"),
        ("12", 1, 1, "object"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", 1, 106, "nested"),
        ('{"a": ' + "9" * 5000 + "}", 1, 7, "too long"),
        ('{"a": yes}', 1, 7, "no value"),
    ],
)
def test_l1_everything_else_is_refused_with_its_place(text: str, line: int, column: int, rule: str) -> None:
    found = parse_arguments(text, anything)
    assert isinstance(found, Invalid)
    assert rule in found.rule
    assert (found.line, found.column) == (line, column)
    assert f"Line {line}, column {column}" in found.message


_EDITS = {"type": "array", "items": {"type": "object", "required": ["old"]}}
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "edits": _EDITS},
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("{}", 1, "'path' is a required property"),
        ('{\n "path": 5\n}', 2, "at 'path'"),
        ('{"path": "x",\n "edits": [\n {"old": 1},\n {}]}', 4, "at 'edits/1'"),
        ('{"path": "x", "other": 1}', 1, "other"),
    ],
)
def test_l1_a_breach_of_the_schema_names_line_and_rule(text: str, line: int, rule: str) -> None:
    check = compile_schema(SCHEMA)
    assert not isinstance(check, BadSchema)
    found = parse_arguments(text, check)
    assert isinstance(found, Invalid)
    assert found.line == line
    assert rule in found.rule


def test_l1_an_empty_text_means_no_arguments_only_where_there_are_none() -> None:
    assert takes_no_arguments({"type": "object"})
    assert takes_no_arguments({"type": "object", "properties": {}, "additionalProperties": False})
    assert not takes_no_arguments(SCHEMA)
    assert not takes_no_arguments({"type": "object", "properties": {"a": {}}})
    assert not takes_no_arguments({"type": "object", "additionalProperties": True})
    assert not takes_no_arguments({"$ref": "#/x"})
    assert parse_arguments("", anything, takes_none=True) == {}
    assert isinstance(parse_arguments("{", anything, takes_none=True), Invalid)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}, "required": ["a"], "allOf": [{"$ref": "http://127.0.0.1:1/y"}]},
        {"type": "object", "patternProperties": {"(": {}}},
        "text",
    ],
)  # fmt: skip
def test_m1_a_schema_that_cannot_be_used_is_told(schema: object) -> None:
    assert isinstance(compile_schema(schema), BadSchema)  # type: ignore[arg-type]


@given(objects)
def test_equal_arguments_have_one_canonical_text(value: dict[str, object]) -> None:
    turned = dict(reversed(list(value.items())))
    assert canonical(value) == canonical(turned)


# --- the liberties together with what a cut or a slip makes of them


@st.composite
def loosely(draw: st.DrawFn) -> tuple[str, object]:
    """An object as a careless model writes it, and what it means."""

    def put(value: object, depth: int) -> str:
        if isinstance(value, dict):
            pairs = [f"{quoted(key)}{gap()}:{gap()}{put(inner, depth + 1)}" for key, inner in value.items()]
            return "{" + gap() + listed(pairs) + "}"
        if isinstance(value, list):
            return "[" + gap() + listed([put(inner, depth + 1) for inner in value]) + "]"
        if isinstance(value, str):
            return quoted(value)
        if value is None or isinstance(value, bool):
            python = draw(st.booleans())
            return repr(value) if python else json.dumps(value)
        return json.dumps(value)

    def quoted(text: str) -> str:
        inner = json.dumps(text, ensure_ascii=draw(st.booleans()))
        if draw(st.booleans()):
            return "'" + inner[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        return inner

    def listed(items: list[str]) -> str:
        comma = f"{gap()},{gap()}" if items and draw(st.booleans()) else ""
        return f"{gap()},{gap()}".join(items) + comma

    def gap() -> str:
        return draw(st.sampled_from(["", " ", "\n", "/* why */", "// so\n"]))

    value = draw(st.dictionaries(texts, values, max_size=3))
    text = put(value, 0)
    match draw(st.sampled_from(["plain", "fence", "twice"])):
        case "fence":
            text = f"```json\n{text}\n```"
        case "twice":
            text = json.dumps(text)
    return text, value


@given(loosely())
@settings(max_examples=100)
def test_l1_every_liberty_has_its_one_meaning(written: tuple[str, object]) -> None:
    text, meant = written
    assert parse_arguments(text, anything) == meant


@given(loosely(), st.data())
@settings(max_examples=150)
def test_l1_no_beginning_of_a_careless_text_is_executed(written: tuple[str, object], data: st.DataObject) -> None:
    text, _ = written
    found = parse_arguments(text[: data.draw(st.integers(0, len(text) - 1))], anything)
    assert isinstance(found, Invalid)
    assert found.line >= 1
    assert found.column >= 1
    assert found.rule


@given(objects, st.data())
@settings(max_examples=150)
def test_l1_a_lost_or_doubled_character_is_never_mended(value: dict[str, object], data: st.DataObject) -> None:
    """What still reads is what strict JSON reads, but for the spellings that have one meaning."""
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text) - 1))
    slip = data.draw(st.sampled_from(["", text[at] * 2, *"{}[]\",:\\'"]))
    slipped = text[:at] + slip + text[at + 1 :]
    found = parse_arguments(slipped, anything)
    try:
        strict = json.loads(slipped, object_pairs_hook=_no_pair_twice, parse_constant=_not_json)
    except (ValueError, RecursionError):
        if not isinstance(found, Invalid):
            reading = read_lenient(slipped)
            assert isinstance(reading, Reading)
            assert reading.liberties  # each of them is told apart, none completes anything
        return
    assert isinstance(found, Invalid) or found == strict


@pytest.mark.parametrize("edge", ["\\", "\\u", "\\u0", "\\ud83d\\u", "\\ud83d", "\\x41", "\\u12g4", "\\ud83d\\ud83d"])
def test_l1_half_an_escape_is_no_character(edge: str) -> None:
    for text in (f'{{"a": "x{edge}"}}', f'{{"a": "x{edge}', f"{{'a': 'x{edge}'}}"):
        assert isinstance(parse_arguments(text, anything), Invalid)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[" * 100_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        '"' * 100_001,
        '{"a": "' + "x" * 5_000_000,
        '{"a": [' + "1," * 500_000,
        "/*" * 100_000,
        "'" + "\\'" * 200_000,
        "\\" * 200_000,
        '{"' + '\\"' * 200_000,
        " " * 2_000_000 + "{",
        "{" + '"a":1,' * 100_000 + "}",
        "```" * 50_000,
    ],
    ids=lambda text: text[:8],
)
def test_l1_however_large_or_deep_it_is_refused_soon(text: str) -> None:
    begun = time.process_time()
    assert isinstance(parse_arguments(text, anything), Invalid)
    assert time.process_time() - begun < 5


def test_l1_five_megabytes_that_are_right_are_read() -> None:
    content = "line\n" * 1_000_000
    assert parse_arguments(json.dumps({"content": content}), anything) == {"content": content}
    assert parse_arguments("{'content': " + json.dumps(content) + "}", anything) == {"content": content}


@pytest.mark.parametrize(
    "text", ['["a"]', '"[1]"', '"text"', '"\\"{}\\""', "true", "3", "[{}]", "'null'", '[{"path": "x"}]']
)
def test_l1_what_is_no_object_is_never_made_one(text: str) -> None:
    found = parse_arguments(text, anything)
    assert isinstance(found, Invalid)
    assert "JSON object" in found.rule or "value" in found.rule
