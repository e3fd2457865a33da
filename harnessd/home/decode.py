"""What text do a file's bytes stand for?"""

import codecs
import re
from dataclasses import dataclass

from harnessd.home.hidden import find_hidden, strip_hidden
from harnessd.home.problem import Problem


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file as text: line ends are LF, bad bytes are U+FFFD, hidden characters are gone.

    `intact` is false when the bytes are not what their writer meant: undecodable, or holding NUL.
    `hidden_line` is the first line that held a hidden character, 0 if none did.
    """

    text: str
    intact: bool
    problems: tuple[Problem, ...]
    hidden_line: int = 0


def decode(raw: bytes, path: str) -> Decoded:
    """The text of `raw`: UTF-8 with or without a byte order mark, or UTF-16 with one. Never raises."""
    problems: list[Problem] = []
    intact = True
    utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if utf16 else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw.decode(encoding, "replace")
        intact = False
        line = len(re.findall(r"\r\n?|\n", raw[: error.start].decode(encoding, "replace"))) + 1
        problems.append(_undecodable(path, line))
    if utf16:
        problems.append(_utf16(path))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        intact = False
        problems.append(_nul(path, text.count("\n", 0, text.index("\0")) + 1))
        text = text.replace("\0", "\ufffd")
    shown = strip_hidden(text)
    if shown == text:
        return Decoded(text, intact, tuple(problems))
    problems.append(_hidden(path, text))
    return Decoded(shown, intact, tuple(problems), problems[-1].line)


def _undecodable(path: str, line: int) -> Problem:
    return Problem(
        path=path,
        line=line,
        code="undecodable",
        severity="warning",
        message="this is not UTF-8; what could not be read was replaced by \ufffd",
        fix="save the file as UTF-8",
    )


def _utf16(path: str) -> Problem:
    return Problem(
        path=path,
        code="utf-16",
        severity="notice",
        message="the file is UTF-16; git and most tools take it for binary",
        fix="save the file as UTF-8",
    )


def _nul(path: str, line: int) -> Problem:
    return Problem(
        path=path,
        line=line,
        code="nul",
        severity="warning",
        message="the file holds a NUL byte, which was replaced by \ufffd",
        fix="remove the byte; an interrupted copy or a full disk leaves such bytes",
    )


def _hidden(path: str, text: str) -> Problem:
    found = find_hidden(text)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return Problem(
        path=path,
        line=found[0].line,
        column=found[0].column,
        code="hidden-characters",
        severity="warning",
        message=f"suspicious: an invisible character ({found[0].name}){more}; the model does not see it",
        fix="remove the invisible characters, and look at who wrote the file",
    )
