"""What does a hand-written JSON file say, and where does each value stand?

Comments and trailing commas are tolerated and reported, since editors write them; anything else that is no
JSON is an error with line and column. A key given twice is an error: nobody knows which one counts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harnessd.home.problem import Problem


@dataclass(frozen=True, slots=True)
class JsonText:
    """Parsed JSON: its `value`, what was odd, and the plain JSON `text` with every character where it was."""

    value: Any
    text: str
    problems: tuple[Problem, ...]

    def place(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Line and column, from 1, of the value at `path`, or of the nearest value around it."""
        return _line_column(self.text, self.offset(path))

    def offset(self, path: Sequence[str | int]) -> int:
        """Where in the text the value at `path` begins, or the nearest value around it."""
        return _locate(self.text, path)

    def members(self, path: Sequence[str | int]) -> list[tuple[int, int]]:
        """Start and end in the text of each member of the object or list at `path`; of an object with its key."""
        return _members(self.text, self.offset(path))


def read_json(text: str, path: str) -> JsonText | Problem:
    """The JSON in `text`, or the problem that keeps it from being read. Never raises."""
    plain, comment, comma = _blank_out(text)
    try:
        value = json.loads(plain, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except _DuplicateKeyError as error:
        line, column = _line_column(plain, max(0, plain.rfind(json.dumps(error.key, ensure_ascii=False))))
        return _error(path, line, column, "json-duplicate-key", f"the key {error.key!r} is given twice")
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        return _error(path, error.lineno, error.colno, "json-invalid", f"this is not JSON: {message}")
    except RecursionError:
        return _error(path, 1, 1, "json-invalid", "this is not JSON that anybody wrote: it nests too deep")
    except ValueError as error:
        return _error(path, 1, 1, "json-invalid", f"this is not JSON: {error}")
    problems = []
    if comment >= 0:
        line, column = _line_column(text, comment)
        problems.append(_notice(path, line, column, "json-comment", "JSON has no comments; this one was passed over"))
    if comma >= 0:
        line, column = _line_column(text, comma)
        problems.append(_notice(path, line, column, "json-comma", "JSON has no trailing commas; passed over"))
    return JsonText(value, plain, tuple(problems))


def inserted(text: str, at: int, item: str, *, first_of: Sequence[object] | Mapping[str, object]) -> str:
    """`text` with `item` before what the list or object holds that was opened just before `at`, laid out like it."""
    if not first_of:
        return text[:at] + item + text[at:]
    layout = re.match(r"\s*", text[at:])
    space = layout.group() if layout else ""
    return f"{text[:at]}{space}{item},{'' if space else ' '}{text[at:]}"


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKeyError(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return values


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _blank_out(text: str) -> tuple[str, int, int]:
    """`text` with comments and trailing commas turned to spaces, and where the first of each was (or -1)."""
    if "//" not in text and "/*" not in text and "," not in text:
        return text, -1, -1
    characters = list(text)
    comment = comma = pending = -1
    position, length = 0, len(text)
    while position < length:
        character = text[position]
        if character == '"':
            pending = -1
            position += 1
            while position < length and text[position] != '"':
                position += 2 if text[position] == "\\" else 1
        elif text.startswith(("//", "/*"), position):
            end = _comment_end(text, position)
            comment = position if comment < 0 else comment
            characters[position:end] = ["\n" if text[at] == "\n" else " " for at in range(position, end)]
            position = end
            continue
        elif character == ",":
            pending = position
        elif character in "}]":
            if pending >= 0:
                characters[pending] = " "
                comma = pending if comma < 0 else comma
            pending = -1
        elif not character.isspace():
            pending = -1
        position += 1
    return "".join(characters), comment, comma


def _comment_end(text: str, start: int) -> int:
    if text.startswith("//", start):
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    end = text.find("*/", start + 2)
    return len(text) if end < 0 else end + 2


def _locate(text: str, path: Sequence[str | int]) -> int:
    """The offset in valid JSON `text` of the value at `path`."""
    decoder = json.JSONDecoder()
    position = _skip(text, 0)
    for step in path:
        if position >= len(text) or text[position] not in "{[":
            break
        is_object = text[position] == "{"
        at, index, found = _skip(text, position + 1), 0, -1
        while at < len(text) and text[at] not in "}]":
            key: object = index
            if is_object:
                key, at = decoder.raw_decode(text, at)
                at = _skip(text, _skip(text, at) + 1)
            if key == step:
                found = at
                break
            _, at = decoder.raw_decode(text, at)
            at = _skip(text, at)
            at = _skip(text, at + 1) if text[at : at + 1] == "," else at
            index += 1
        if found < 0:
            break
        position = found
    return position


def _members(text: str, offset: int) -> list[tuple[int, int]]:
    decoder = json.JSONDecoder()
    is_object, at = text[offset] == "{", _skip(text, offset + 1)
    found = []
    while text[at] not in "}]":
        start = at
        if is_object:
            _, at = decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, at = decoder.raw_decode(text, at)
        found.append((start, at))
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\n\r":
        position += 1
    return position


def _line_column(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _error(path: str, line: int, column: int, code: str, message: str) -> Problem:
    return Problem(
        path=path,
        line=line,
        column=column,
        code=code,
        severity="error",
        message=message,
        fix="mend the file here",
    )


def _notice(path: str, line: int, column: int, code: str, message: str) -> Problem:
    return Problem(path=path, line=line, column=column, code=code, message=message, fix="remove it")
