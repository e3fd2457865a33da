"""What JSON did the model mean, where that is certain, and where in the text does each value stand.

Models write JSON with single quotes, comments, trailing commas, Python's `True` and `None`, unquoted keys, raw
line ends inside strings. Each of these has one meaning, so it is read. Everything else is refused with its
place: a text that ends early, an unclosed string or bracket, a missing comma or value, an unknown escape, two
equal keys, text after the end. Nothing is ever completed, so no prefix of a text reads as a whole one.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from harnessd.facts.message import JsonObject

MAX_DEPTH = 100
MAX_DIGITS = 400

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why the text is no JSON: the rule it breaks and the offset in characters. `early` means that it ends too soon."""

    rule: str
    offset: int
    early: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The value, the offset of each part of it by its path, and which liberties the writer took."""

    value: Any
    places: dict[Path, int]
    liberties: tuple[str, ...]


def read_lenient(text: str) -> Reading | Unreadable:
    """The one value in `text`, or why there is none. Never raises."""
    reader = _Reader(text)
    try:
        value = reader.whole()
    except _Stop as stop:
        # Nothing but the beginning of a word or number follows: `{"a": tru`.
        early = re.fullmatch(r"[\w.+-]*\s*", text[stop.offset :]) is not None
        return Unreadable(stop.rule, stop.offset, early)
    return Reading(value, reader.places, tuple(dict.fromkeys(reader.liberties)))


class _Stop(Exception):
    def __init__(self, rule: str, offset: int) -> None:
        self.rule = rule
        self.offset = offset


_BLANK = re.compile(r"[ \t\r\n]+")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z0-9]*[ \t]*\r?\n")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])", re.ASCII)
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f]+")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _Reader:
    """A recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.places: dict[Path, int] = {}
        self.liberties: list[str] = []

    def whole(self) -> Any:
        self._blank()
        fence = _FENCE.match(self.text, self.at)
        if fence:
            self.at = fence.end()
            self.liberties.append("a code fence")
            self._blank()
        value = self._value(())
        self._blank()
        if fence:
            self._expect("```", "the code fence is not closed")
            self._blank()
        if self.at < len(self.text):
            raise _Stop("there is text after the end of the value", self.at)
        return value

    def _value(self, path: Path) -> Any:
        self.places[path] = self.at
        character = self.text[self.at : self.at + 1]
        if character == "{":
            return self._nested(self._object, path)
        if character == "[":
            return self._nested(self._array, path)
        if character in {'"', "'"} and character:
            return self._string()
        if number := _NUMBER.match(self.text, self.at):
            return self._number(number)
        if word := _WORD.match(self.text, self.at):
            if word.group() in _WORDS:
                self.at = word.end()
                if word.group()[0].isupper():
                    self.liberties.append("a Python literal")
                return _WORDS[word.group()]
            raise _Stop(f"{word.group()[:40]!r} is no value; text needs quotes", self.at)
        raise _Stop("a value is missing" if character else "the text ends where a value is due", self.at)

    def _nested(self, read: Any, path: Path) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Stop(f"it is nested deeper than {MAX_DEPTH} levels", self.at)
        self.at += 1
        value = read(path)
        self.depth -= 1
        return value

    def _object(self, path: Path) -> JsonObject:
        found: JsonObject = {}
        while not self._closes("}"):
            start = self.at
            key = self._key()
            if key in found:
                raise _Stop(f"the key {key!r} occurs twice", start)
            self._blank()
            self._expect(":", "a ':' is missing after the key")
            self._blank()
            found[key] = self._value((*path, key))
            self._separator("}")
        return found

    def _array(self, path: Path) -> list[Any]:
        found: list[Any] = []
        while not self._closes("]"):
            found.append(self._value((*path, len(found))))
            self._separator("]")
        return found

    def _key(self) -> str:
        if self.text[self.at : self.at + 1] in {'"', "'"}:
            return self._string()
        if word := _WORD.match(self.text, self.at):
            self.at = word.end()
            self.liberties.append("an unquoted key")
            return word.group()
        raise _Stop("a key is missing" if self.at < len(self.text) else "the text ends inside an object", self.at)

    def _closes(self, bracket: str) -> bool:
        self._blank()
        if self.text.startswith(bracket, self.at):
            self.at += 1
            return True
        return False

    def _separator(self, bracket: str) -> None:
        """A comma, unless the bracket closes; a comma before it is one too many and harmless."""
        self._blank()
        if self.text.startswith(",", self.at):
            self.at += 1
            self._blank()
            if self.text.startswith(bracket, self.at):
                self.liberties.append("a trailing comma")
        elif not self.text.startswith(bracket, self.at):
            raise _Stop(f"a ',' or {bracket!r} is missing", self.at)

    def _string(self) -> str:
        quote, start = self.text[self.at], self.at
        if quote == "'":
            self.liberties.append("single quotes")
        self.at += 1
        pieces: list[str] = []
        while True:
            if plain := _PLAIN.match(self.text, self.at):
                pieces.append(plain.group())
                self.at = plain.end()
            character = self.text[self.at : self.at + 1]
            if not character:
                raise _Stop("the string is not closed", len(self.text))
            if character == quote:
                self.at += 1
                break
            pieces.append(self._escape() if character == "\\" else self._literal(character))
        text = "".join(pieces)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Stop("the string holds half of a surrogate pair", start) from None
        return text

    def _literal(self, character: str) -> str:
        if character == "\0":
            raise _Stop("the string holds a NUL character", self.at)
        if character < " ":
            self.liberties.append("a raw control character in a string")
        self.at += 1
        return character

    def _escape(self) -> str:
        start = self.at
        kind = self.text[start + 1 : start + 2]
        self.at = start + 2
        if kind == "u":
            return self._code_unit(start)
        if kind == "'":
            self.liberties.append("an escaped single quote")
        if kind in _ESCAPES and kind:
            return _ESCAPES[kind]
        if not kind:
            raise _Stop("the string is not closed", len(self.text))
        raise _Stop(f"'\\{kind}' is no escape; write '\\\\{kind}'", start)

    def _code_unit(self, start: int) -> str:
        unit = self._hex(start)
        if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", self.at):
            after = self.at
            self.at += 2
            low = self._hex(after)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + (unit - 0xD800) * 0x400 + low - 0xDC00)
            self.at = after
        return chr(unit)

    def _hex(self, start: int) -> int:
        digits = self.text[self.at : self.at + 4]
        if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            raise _Stop("'\\u' needs four hexadecimal digits", start if len(digits) == 4 else len(self.text))
        self.at += 4
        return int(digits, 16)

    def _number(self, number: re.Match[str]) -> int | float:
        text = number.group()
        if len(text) > MAX_DIGITS:
            raise _Stop("the number is too long", self.at)
        value: int | float = float(text) if set(text) & set(".eE") else int(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise _Stop("the number is too large", self.at)
        self.at = number.end()
        return value

    def _expect(self, token: str, rule: str) -> None:
        if not self.text.startswith(token, self.at):
            raise _Stop(rule, self.at)
        self.at += len(token)

    def _blank(self) -> None:
        while True:
            if blank := _BLANK.match(self.text, self.at):
                self.at = blank.end()
            elif self.text.startswith("/", self.at):
                comment = _COMMENT.match(self.text, self.at)
                if not comment:
                    raise _Stop("the comment is not closed", len(self.text))
                self.at = comment.end()
                self.liberties.append("a comment")
            else:
                return
