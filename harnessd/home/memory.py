"""Which facts does MEMORY.md hold, and how is one added or removed without touching another byte?

A fact is one list item. Headings, prose, line ends and a missing last line end around it stay as they are.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One list item: its text on one line, the headings above it, and its lines (from 1, end inclusive).

    `depth` is 1 for an item of an outer list, 2 for one below such an item, whose lines are its own too.
    """

    text: str
    headings: tuple[str, ...]
    line: int
    end_line: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class NoSuchEntry:
    """No entry, or more than one, fits `match`; `candidates` are texts of entries that come near."""

    match: str
    candidates: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.candidates:
            return f"memory holds no entry like {self.match!r}"
        return f"{self.match!r} fits more than one entry; say which: " + "; ".join(self.candidates[:5])


def parse_memory(text: str) -> tuple[MemoryEntry, ...]:
    """The entries of a memory file in order."""
    return tuple(_walk(text)[0])


def add_entry(text: str, entry: str, heading: str | None = None) -> str:
    """`text` with `entry` added as a list item: at the end of the section `heading`, else at the end.

    The section is made when it is missing. An entry that says the same as one that is there changes nothing.
    Raises `ValueError` for an entry without text.
    """
    fact = _fact(entry)
    if not any(character.isalnum() or not character.isascii() for character in fact):
        raise ValueError("an entry needs text")
    entries, headings = _walk(text)
    if _same(entries, fact):
        return text
    for attempt in _insertions(text, entries, headings, fact, heading):
        if len(parse_memory(attempt)) == len(entries) + 1:
            return attempt
    # an open code fence or comment would swallow the entry wherever it goes below: above everything, then
    newline = _newline(text)
    return f"- {_escaped(fact)}{newline}{newline}{text}"


def remove_entry(text: str, match: str) -> str | NoSuchEntry:
    """`text` without the one entry that says `match`, else the one that contains it, and what is below it."""
    entries = parse_memory(text)
    wanted = normalised(match)
    found = [entry for entry in entries if normalised(entry.text) == wanted] if wanted else []
    if not found and wanted:
        found = [entry for entry in entries if wanted in normalised(entry.text)]
    if not found:
        return NoSuchEntry(match)
    if len(found) > 1 and len({normalised(entry.text) for entry in found}) > 1:
        return NoSuchEntry(match, tuple(entry.text for entry in found))
    lines = _lines(text)
    for entry in reversed(found):  # the same fact twice goes twice
        del lines[entry.line - 1 : entry.end_line]
    return "".join(lines)


def find_duplicate(text: str, entry: str) -> MemoryEntry | None:
    """The entry that says the same as `entry`, apart from case, spaces, punctuation and emphasis."""
    return _same(parse_memory(text), _fact(entry))


def normalised(text: str) -> str:
    """What two spellings of one fact have in common: its words and signs that carry meaning, lower case."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = re.sub(r"[*_`\"'“”‘’\\]|[.,;:!?](?=\s|$)", "", folded).split()
    return " ".join(words)


def _same(entries: Iterable[MemoryEntry], fact: str) -> MemoryEntry | None:
    wanted = normalised(fact)
    return next((found for found in entries if normalised(found.text) == wanted), None)


def _fact(entry: str) -> str:
    """`entry` on one line, without the marker of a list item."""
    return re.sub(r"^(?:[-*+]|\d{1,9}[.)])(?:\s+|$)", "", " ".join(entry.split()))


def _walk(text: str) -> tuple[list[MemoryEntry], list[tuple[str, int, int]]]:
    """The entries, and the headings as `(text, level, line)`."""
    from markdown_it import MarkdownIt  # a parser that only those need who look into a memory file

    tokens = MarkdownIt("commonmark").parse(text)
    lines = _lines(text)
    entries: list[MemoryEntry] = []
    headings: list[tuple[str, int, int]] = []
    above: list[tuple[int, str]] = []
    depth = 0
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            level = int(token.tag[1:])
            title = " ".join(tokens[index + 1].content.split())
            above = [(other, name) for other, name in above if other < level] + [(level, title)]
            headings.append((title, level, token.map[0] + 1))
        elif token.type == "list_item_open" and token.map:
            depth += 1
            start, end = token.map
            while end > start + 1 and not lines[end - 1].strip():
                end -= 1
            inline = next((other for other in tokens[index + 1 : index + 6] if other.type in _ENDS), None)
            content = inline.content if inline and inline.type == "inline" else ""
            names = tuple(name for _, name in above)
            entries.append(MemoryEntry(" ".join(content.split()), names, start + 1, end, depth))
        elif token.type == "list_item_close":
            depth -= 1
    return [entry for entry in entries if entry.text], headings


_ENDS = {"inline", "list_item_close", "list_item_open"}


def _insertions(
    text: str,
    entries: list[MemoryEntry],
    headings: list[tuple[str, int, int]],
    fact: str,
    heading: str | None,
) -> Iterable[str]:
    """Where the entry could go, best first; each is `text` with one insertion."""
    lines = _lines(text)
    if heading is None:
        return _at_end_of(text, lines, entries, fact, 0, len(lines))
    wanted = normalised(heading.lstrip("# "))
    section = next((place for place in headings if normalised(place[0]) == wanted), None)
    if section is None:
        newline = _newline(text)
        title = " ".join(heading.lstrip("# ").split()) or "Notes"
        gap = "" if not text.strip() else newline if text.endswith(("\n", "\r")) else newline * 2
        last = "" if text.strip() and not text.endswith(("\n", "\r")) else newline
        return [f"{text}{gap}## {title}{newline}{newline}- {_escaped(fact)}{last}"]
    line = section[2]
    end = min([*(place[2] for place in headings if place[2] > line), len(lines) + 1]) - 1
    # what follows the list of a section is about that list
    lists = [entry.end_line for entry in entries if entry.depth == 1 and line < entry.line and entry.end_line <= end]
    end = lists[-1] if lists else end
    return _at_end_of(text, lines, entries, fact, line, end)


def _at_end_of(text: str, lines: list[str], entries: list[MemoryEntry], fact: str, start: int, end: int) -> list[str]:
    """The entry after the last list of lines `start` to `end` (indexes), or after their last text."""
    while end > start and not lines[end - 1].strip():
        end -= 1
    newline = _newline(text)
    inside = [entry for entry in entries if entry.depth == 1 and start < entry.line and entry.end_line <= end]
    last = inside[-1] if inside else None
    follows_list = last is not None and last.end_line == end
    marker = _marker(lines[last.line - 1]) if last and follows_list else "- "
    gap = "" if follows_list or end == 0 else newline
    attempts = []
    for item in (f"{marker}{_escaped(fact)}", f"{newline if not gap else ''}- {_escaped(fact)}"):
        head, tail = "".join(lines[:end]), "".join(lines[end:])
        if head and not head.endswith(("\n", "\r")):
            attempts.append(f"{head}{newline}{gap}{item}{tail}")
        else:
            below = newline if tail.strip() and not tail.startswith(("\n", "\r")) else ""
            attempts.append(f"{head}{gap}{item}{newline}{below}{tail}")
    return attempts


def _marker(line: str) -> str:
    match = re.match(r"\s{0,3}([-*+])(\s+)", line)
    return match[0].rstrip("\r\n") if match else "- "


def _escaped(fact: str) -> str:
    """`fact` so that markdown reads it as text: its start opens no heading, quote, list or fence."""
    if re.match(r"(?:#{1,6}(?:\s|$)|>|[-*+](?:\s|$)|```|~~~|[-*_=](?:\s*[-*_=]){2,}\s*$|<|\[[^\]]*\]:)", fact):
        return "\\" + fact
    return re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", fact)


def _lines(text: str) -> list[str]:
    """Lines with their ends, broken where markdown breaks them (and nowhere else, as `splitlines` would)."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)


def _newline(text: str) -> str:
    match = re.search(r"\r\n|\r|\n", text)
    return match[0] if match else "\n"
