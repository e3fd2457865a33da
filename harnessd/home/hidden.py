"""Which characters of a text a person cannot see but a model can read?

Tag characters, bidi controls, zero-width and control characters carry instructions past a reviewer. What a
script or an emoji needs (a joiner between two letters, one variation selector, the three tagged flags) stays.
"""

import re
import unicodedata
from dataclasses import dataclass

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"
_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)


@dataclass(frozen=True, slots=True)
class HiddenCharacter:
    """One invisible character; `line` and `column` from 1, `name` like `U+202E RIGHT-TO-LEFT OVERRIDE`."""

    line: int
    column: int
    name: str


def find_hidden(text: str) -> tuple[HiddenCharacter, ...]:
    """Every hidden character of `text` in order; tab, line feed and carriage return are none."""
    found = []
    line, line_start, seen = 1, 0, 0
    for position in _positions(text):
        line += text.count("\n", seen, position)
        line_start = max(line_start, text.rfind("\n", seen, position) + 1)
        seen = position
        name = unicodedata.name(text[position], "CONTROL CHARACTER")
        found.append(HiddenCharacter(line, position - line_start + 1, f"U+{ord(text[position]):04X} {name}"))
    return tuple(found)


def strip_hidden(text: str) -> str:
    """`text` without its hidden characters; line numbers do not change."""
    positions = _positions(text)
    if not positions:
        return text
    kept, start = [], 0
    for position in positions:
        kept.append(text[start:position])
        start = position + 1
    kept.append(text[start:])
    return "".join(kept)


def _positions(text: str) -> list[int]:
    if not _HIDDEN.search(text):
        return []
    flags = _flag_positions(text)
    return [
        match.start()
        for match in _HIDDEN.finditer(text)
        if match.start() not in flags and not _belongs(text, match.start())
    ]


def _flag_positions(text: str) -> frozenset[int]:
    if "\U0001f3f4" not in text:
        return frozenset()
    return frozenset(
        position for match in re.finditer("|".join(_FLAGS), text) for position in range(match.start() + 1, match.end())
    )


def _belongs(text: str, position: int) -> bool:
    """Whether a joiner or variation selector does what it is for: alone, after a visible character."""
    before = text[position - 1 : position] if position else ""
    if not before or _HIDDEN.match(before):
        # 🏳️‍🌈 has a joiner right after a variation selector
        after_selector = before in ("\ufe0e", "\ufe0f") and text[position] == "\u200d" and position > 1
        if not (after_selector and _belongs(text, position - 1)):
            return False
    character = text[position]
    if character in _JOINERS:
        after = text[position + 1 : position + 2]
        return not before.isascii() and bool(after) and not after.isascii() and not _HIDDEN.match(after)
    if character in "\ufe0e\ufe0f":
        return before in "#*0123456789" or not before.isascii()
    if "\U000e0100" <= character <= "\U000e01ef":
        return unicodedata.category(before) == "Lo"
    return False
