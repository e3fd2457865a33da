"""What does a markdown file of the home say? The one tolerant reader.

A file is an optional YAML header between two lines `---`, and a body. Every odd file has one outcome,
whatever it describes; see `tests/home/cases/`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harnessd.home.decode import decode
from harnessd.home.header import Header, HeaderValue, read_header
from harnessd.home.problem import Problem

_FENCE = re.compile(r"---[ \t]*")
_KEY = re.compile(r"[A-Za-z_][\w.-]*[ ]*:(\s|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Document:
    """A markdown file as read.

    `body` has LF line ends and no hidden characters, and begins on line `body_line` of the file; `key_lines`
    are the lines of the header's keys. `strict`: the header was YAML without any repair, or there is none.
    `intact`: every byte could be decoded and none was NUL.
    """

    path: str
    header: Mapping[str, HeaderValue] = field(default_factory=dict)
    body: str = ""
    problems: tuple[Problem, ...] = ()
    strict: bool = True
    key_lines: Mapping[str, int] = field(default_factory=dict)
    body_line: int = 1
    has_header: bool = False
    intact: bool = True


def read_document(raw: bytes, path: str) -> Document:
    """The document in `raw`; `path` is for its problems. Never raises: what is odd becomes a problem."""
    decoded = decode(raw, path)
    lines = decoded.text.split("\n")
    span = _find_header(lines)
    if span is None:
        return Document(path=path, body=decoded.text, problems=decoded.problems, intact=decoded.intact)
    header = read_header("\n".join(lines[span.first : span.end]), path, span.first + 1)
    shape = _odd_shape(span, path)
    if not header.values and not header.strict:  # no keys at all: two rules around a text
        return Document(
            path=path,
            body=decoded.text,
            problems=(*decoded.problems, *header.problems),
            strict=False,
            intact=decoded.intact,
        )
    header.strict = header.strict and not 0 < decoded.hidden_line <= span.end
    return _document(path, decoded.problems + shape, decoded.intact, header, span, lines)


@dataclass(frozen=True, slots=True)
class _Span:
    """Line indexes: the header is `first` to `end` (exclusive), the body starts at `body`."""

    first: int
    end: int
    body: int
    closed: bool


def _find_header(lines: list[str]) -> _Span | None:
    start = 0
    while start < len(lines) and not lines[start].strip():
        start += 1
    if start == len(lines) or not _FENCE.fullmatch(lines[start]):
        return None
    for end in range(start + 1, len(lines)):
        if _FENCE.fullmatch(lines[end]):
            return _Span(start + 1, end, end + 1, closed=True)
    if not (start + 1 < len(lines) and _KEY.match(lines[start + 1])):
        return None  # a rule on top of a text
    for end in range(start + 1, len(lines)):
        if not lines[end].strip():
            return _Span(start + 1, end, end + 1, closed=False)
    return _Span(start + 1, len(lines), len(lines), closed=False)


def _odd_shape(span: _Span, path: str) -> tuple[Problem, ...]:
    problems = []
    if not span.closed:
        problems.append(
            Problem(
                path=path,
                line=span.end + 1,
                code="header-unclosed",
                severity="warning",
                message="the header is never closed; it was read up to the first blank line",
                fix="put a line --- after the last key",
            )
        )
    if span.first > 1:
        problems.append(
            Problem(
                path=path,
                line=1,
                code="header-not-first",
                message="there are blank lines before the header; other products will not see it",
                fix="let the file begin with ---",
            )
        )
    return tuple(problems)


def _document(
    path: str, problems: tuple[Problem, ...], intact: bool, header: Header, span: _Span, lines: list[str]
) -> Document:
    return Document(
        path=path,
        header=header.values,
        body="\n".join(lines[span.body :]),
        problems=(*problems, *header.problems),
        strict=header.strict and span.closed,
        key_lines=header.key_lines,
        body_line=span.body + 1,
        has_header=True,
        intact=intact,
    )


def first_paragraph(body: str) -> str:
    """The first paragraph of prose in `body`, on one line; no heading, rule, fence or comment."""
    paragraph: list[str] = []
    fence = ""
    for line in re.sub(r"<!--.*?(?:-->|\Z)", "", body, flags=re.DOTALL).split("\n"):
        text = line.strip()
        if fence or text.startswith(("```", "~~~")):
            fence = "" if fence and text.startswith(fence) else fence or text[:3]
            if paragraph:
                break
            continue
        if not text or text.startswith("#") or re.fullmatch(r"[-=*_ ]{3,}", text):
            if paragraph:
                break
            continue
        paragraph.append(text)
    return " ".join(paragraph)
