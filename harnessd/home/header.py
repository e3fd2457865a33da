"""What does a YAML header say, read so that no value changes its meaning?

Values stay what their writer typed: `on`, `1.10` and `2026-01-01` are text; only an empty value, `~` and
`null` are None. Anchors are never expanded, tags never obeyed. What is no YAML is read key by key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from harnessd.home.problem import Problem

HeaderValue = str | None | list["HeaderValue"] | dict[str, "HeaderValue"]

HEADER_LIMIT = 64 * 1024
"""Characters of a header that are read."""

_DEPTH_LIMIT = 32
_DIALOGUE_LINES = 40  # a value that is broken is so within its first lines
_KEY_LINE = re.compile(r"([A-Za-z_][\w.-]*)[ ]*:(?=\s|$)(.*)", re.ASCII)
# `tools: *` is no YAML (an alias without a name), but means one thing in every product that reads it.
_STAR = re.compile(r"(?im)^((?:allowed[-_]?)?tools[ ]*:[ ]*(?:\[[ ]*)?)\*(?=[ ]*\]?[ ]*(?:#.*)?$)")
# Speakers of an example dialogue that runs on, unindented, after a description.
_DIALOGUE = {"user", "assistant", "context", "example", "examples", "commentary", "human", "note"}
# Known keys always begin a new value, also after a value that is broken.
_KNOWN = {
    "name", "description", "model", "fallbackmodels", "smallmodel", "mode", "permissionmode",
    "tools", "allowedtools", "disallowedtools", "skills", "budget", "maxturns", "workdirs",
    "network", "approvalexpiry", "schedule", "memory", "license", "compatibility", "metadata",
    "version", "color", "argumenthint", "arguments", "whentouse", "effort", "agent", "hooks",
    "paths", "shell", "isolation", "background", "mcpservers", "initialprompt",
    "disablemodelinvocation", "userinvocable", "author", "category", "tags", "target", "handoffs",
}  # fmt: skip


@dataclass(slots=True)
class Header:
    """What a header says: `values` by key, the line of each key, and whether it was YAML without repair."""

    values: dict[str, HeaderValue] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)
    strict: bool = True
    problems: list[Problem] = field(default_factory=list)


def folded(key: str) -> str:
    """A key without its spelling: `disallowed-tools`, `disallowed_tools` and `disallowedTools` are one."""
    return key.replace("-", "").replace("_", "").lower()


def read_header(block: str, path: str, first_line: int) -> Header:
    """The header `block` (LF line ends, no fences) that begins on `first_line` of the file. Never raises."""
    header = Header()
    if len(block) > HEADER_LIMIT:
        block = block[:HEADER_LIMIT].rpartition("\n")[0]
        header.strict = False
        header.problems.append(_too_long(path, first_line))
    else:
        try:
            _Builder(block, path, first_line, header).build()
        except (yaml.YAMLError, _TooDeepError, _NoHeaderError) as error:
            header.problems.append(_broken(error, path, first_line))
        else:
            return header
    by_key = _read_by_key(block, path, first_line)
    if not by_key.values:
        return Header(strict=False, problems=[_no_mapping(path, first_line)])
    by_key.problems = header.problems + by_key.problems
    return by_key


class _TooDeepError(Exception):
    """A value nests deeper than anybody writes by hand."""

    line = 0


class _NoHeaderError(Exception):
    """The block is YAML but not one list of keys and values."""


class _Builder:
    """Builds values from parse events: no constructors run, no alias is followed, each key knows its line."""

    def __init__(self, block: str, path: str, first_line: int, header: Header) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._loader = loader(_STAR.sub(r'\1"*"', block))
        self._path = path
        self._first_line = first_line
        self._header = header

    def build(self) -> None:
        values: dict[str, HeaderValue] = {}
        key_lines: dict[str, int] = {}
        try:
            self._loader.get_event()  # the stream starts
            event = self._loader.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            event = self._loader.get_event()
            if isinstance(event, yaml.MappingStartEvent):
                values = self._mapping(0, key_lines)
            elif not (isinstance(event, yaml.ScalarEvent) and event.value == ""):
                raise _NoHeaderError("no keys and values")
            self._loader.get_event()  # the document ends
            if not isinstance(self._loader.get_event(), yaml.StreamEndEvent):
                raise _NoHeaderError("it ends before its last line")
        finally:
            self._loader.dispose()
        self._header.values = values
        self._header.key_lines = key_lines

    def _value(self, event: yaml.Event, depth: int) -> HeaderValue:
        if isinstance(event, yaml.ScalarEvent):
            if event.tag is not None:
                self._odd(event, "yaml-tag", f"the tag {event.tag} is not obeyed", "remove the tag")
            is_plain = event.implicit[0]
            if is_plain and event.value in {"", "~", "null", "Null", "NULL"}:
                return None
            return str(event.value)
        if isinstance(event, yaml.AliasEvent):
            message = f"the alias *{event.anchor} is not expanded"
            self._odd(event, "yaml-alias", message, "write the value out, or quote it")
            return f"*{event.anchor}"
        if depth >= _DEPTH_LIMIT:
            error = _TooDeepError(f"values nest deeper than {_DEPTH_LIMIT}")
            error.line = _place(event)[0]
            raise error
        if isinstance(event, yaml.MappingStartEvent):
            return dict(self._mapping(depth + 1, None))
        items: list[HeaderValue] = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int, key_lines: dict[str, int] | None) -> dict[str, HeaderValue]:
        values: dict[str, HeaderValue] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._value(event, depth)
            value = self._value(self._loader.get_event(), depth)
            if not isinstance(key, str):
                message = "this key is no text" if key is not None else "this key is empty"
                self._odd(event, "header-key", message, "quote the value if it was meant as text")
                continue
            if key in values:
                message = f"{key!r} is given twice; the last one counts"
                self._odd(event, "duplicate-key", message, "remove one of them")
            values[key] = value
            if key_lines is not None:
                key_lines[key] = _place(event)[0] + self._first_line
        return values

    def _odd(self, event: yaml.Event, code: str, message: str, fix: str) -> None:
        self._header.strict = False
        if any(problem.code == code for problem in self._header.problems):
            return  # one finding of a kind is enough to mend them all
        line, column = _place(event)
        self._header.problems.append(
            Problem(
                path=self._path,
                line=line + self._first_line,
                column=column + 1,
                code=code,
                severity="warning",
                message=message,
                fix=fix,
            )
        )


def _place(event: yaml.Event) -> tuple[int, int]:
    """Line and column, from 0."""
    mark = event.start_mark
    return (mark.line, mark.column) if mark else (0, 0)


def _read_by_key(block: str, path: str, first_line: int) -> Header:
    """Each top-level key on its own: its value if that is YAML, else its text as it stands."""
    header = Header(strict=False)
    for key, start, lines in _split(block.split("\n"), path):
        part = Header()
        try:
            _Builder("\n".join(lines), path, first_line + start, part).build()
            value = part.values[key]
        except (yaml.YAMLError, _TooDeepError, _NoHeaderError, KeyError):
            value = _as_text(lines)
        if key in header.values:
            header.problems.append(
                Problem(
                    path=path,
                    line=first_line + start,
                    code="duplicate-key",
                    severity="warning",
                    message=f"{key!r} is given twice; the last one counts",
                    fix="remove one of them",
                )
            )
        header.values[key] = value
        header.key_lines[key] = first_line + start
    return header


def _split(lines: Sequence[str], path: str) -> list[tuple[str, int, list[str]]]:
    """The top-level keys of a broken header with the number of their first line and their lines."""
    blocks: list[tuple[str, int, list[str]]] = []
    for number, line in enumerate(lines):
        match = _KEY_LINE.match(line)
        if match and not (blocks and _runs_on(blocks[-1][2], match[1], path)):
            blocks.append((match[1], number, [line]))
        elif blocks:
            blocks[-1][2].append(line)
    return blocks


def _runs_on(lines: list[str], key: str, path: str) -> bool:
    """Whether a line that looks like a key belongs to the broken value before it, as a dialogue does."""
    if folded(key) in _KNOWN and key[0].islower():
        return False
    if key.lower() not in _DIALOGUE and not key[0].isupper():
        return False
    try:
        _Builder("\n".join(lines[:_DIALOGUE_LINES]), path, 0, Header()).build()
    except (yaml.YAMLError, _TooDeepError, _NoHeaderError):
        return True
    return False


def _as_text(lines: Sequence[str]) -> str:
    match = _KEY_LINE.match(lines[0])
    first = match[2].strip() if match else lines[0].strip()
    text = "\n".join([first, *(line.strip() for line in lines[1:])]).strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _broken(error: Exception, path: str, first_line: int) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = (mark.line if mark else getattr(error, "line", 0)) + first_line
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    colon = "mapping values are not allowed" in reason
    return Problem(
        path=path,
        line=line,
        column=mark.column + 1 if mark else 0,
        code="header-not-yaml",
        severity="warning",
        message="a colon in an unquoted value; the value was read as text"
        if colon
        else f"the header is not YAML ({reason}); it was read key by key",
        fix='put the value in double quotes: key: "text: more text"'
        if colon
        else "put the value in double quotes, and indent with spaces",
    )


def _no_mapping(path: str, first_line: int) -> Problem:
    return Problem(
        path=path,
        line=first_line,
        code="header-not-keys",
        severity="warning",
        message="the header holds no keys and values; it was taken as text",
        fix="write lines such as `name: tea`, or remove the --- lines",
    )


def _too_long(path: str, first_line: int) -> Problem:
    return Problem(
        path=path,
        line=first_line,
        code="header-too-long",
        severity="warning",
        message=f"the header is longer than {HEADER_LIMIT:,} characters; the rest of it was not read",
        fix="move text from the header to the body",
    )


def text_value(values: Mapping[str, HeaderValue], *names: str) -> tuple[str, str]:
    """The first of `names` (folded) whose value is text, as `(key as written, text)`, else `("", "")`."""
    for name in names:
        for key, value in values.items():
            if folded(key) == name and isinstance(value, str) and value.strip():
                return key, value.strip()
    return "", ""
