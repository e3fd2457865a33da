"""Is this file text, and if not, what is it?"""

import codecs
from dataclasses import dataclass

from harnessd.tools.replace import plain_lines

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"BM", "a BMP image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "a SQLite database"),
)


@dataclass(frozen=True, slots=True)
class Text:
    """Text with plain line feeds, as a model reads it."""

    text: str


@dataclass(frozen=True, slots=True)
class Binary:
    """Anything else, with a name for it."""

    kind: str


def look(data: bytes) -> Text | Binary:
    """The text in `data` (UTF-8, or UTF-16 with its mark), or what it is instead.

    A few bytes that are no UTF-8 do not make a text binary; they are shown as U+FFFD.
    """
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            try:
                return Text(plain_lines(data[len(mark) :].decode(encoding)))
            except UnicodeDecodeError:
                return Binary("a binary file")
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Binary("a WebP image")
    binary = b"\0" in data
    named = next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), "a binary file")
    if binary or (named != "a binary file" and _odd(data) > 0):
        return Binary(named)
    text = data.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    if text.count("\ufffd") > max(8, len(text) // 10):
        return Binary("a binary file, or text in another encoding than UTF-8")
    return Text(plain_lines(text))


def describe(binary: Binary, size: int) -> str:
    """For a message: what it is and how large."""
    return f"{binary.kind} of {size:,} bytes"


def _odd(data: bytes) -> int:
    return data[:4096].decode(errors="replace").count("\ufffd")
