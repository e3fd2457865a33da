"""What a writer asks of the home: a change, whose operation can be applied again to newer text."""

from collections.abc import Callable
from dataclasses import dataclass

ANY = "*"


@dataclass(frozen=True, slots=True)
class PutFile:
    """Make these bytes the file."""

    content: bytes


@dataclass(frozen=True, slots=True)
class EditFile:
    """Replace exact pieces of text, in order; each must occur exactly once."""

    replacements: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AppendEntry:
    """Add a fact to a memory file, under a heading or at its end."""

    heading: str | None
    text: str


@dataclass(frozen=True, slots=True)
class RemoveEntry:
    """Remove the one fact that matches."""

    match: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Remove the file."""


Operation = PutFile | EditFile | AppendEntry | RemoveEntry | DeleteFile


@dataclass(frozen=True, slots=True)
class Change:
    """One operation on one path (from the home, `/` between steps).

    `base` is the blob id of the bytes that the writer read, None if there was no file, `ANY` if it does not
    matter. A put or a delete of a file that moved since is a conflict; the other operations are applied anew.
    """

    path: str
    operation: Operation
    base: str | None


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """The operation cannot be applied to this text."""

    message: str


@dataclass(frozen=True, slots=True)
class Entries:
    """How facts are added to and removed from the text of a memory file.

    `add(text, entry, heading)` gives the new text; `remove(text, match)` gives it, or None if no single entry
    matches. Every byte outside the entry stays.
    """

    add: Callable[[str, str, str | None], str]
    remove: Callable[[str, str], str | None]


def apply(operation: Operation, raw: bytes | None, entries: Entries) -> bytes | DoesNotFit | None:
    """The file after the operation; `raw` and the result are None where there is no file."""
    match operation:
        case PutFile(content):
            return content
        case DeleteFile():
            return DoesNotFit("there is no such file") if raw is None else None
        case EditFile(replacements):
            return _edit(replacements, raw)
        case AppendEntry(heading, text):
            return _on_text(raw or b"", lambda known: entries.add(known, text, heading))
        case RemoveEntry(match):
            if raw is None:
                return DoesNotFit("there is no such file")
            return _on_text(raw, lambda known: entries.remove(known, match))


def smallest_edit(before: bytes, after: bytes) -> EditFile | PutFile:
    """The change from `before` to `after` as one replacement of whole lines, which also fits a text that differs
    elsewhere; a put where that can't be said. Both are UTF-8.
    """
    old, new = before.decode(), after.decode()
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    same = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    end = len(old) - same
    while True:
        start = old.rfind("\n", 0, max(start, 0)) + 1
        end = old.find("\n", end) + 1 or len(old)
        passage = old[start:end]
        if passage and old.count(passage) == 1 and old.find(passage) == start:
            return EditFile(((passage, new[start : len(new) - (len(old) - end)]),))
        if start == 0 and end == len(old):
            return PutFile(after)
        start -= 1


def _edit(replacements: tuple[tuple[str, str], ...], raw: bytes | None) -> bytes | DoesNotFit:
    if raw is None:
        return DoesNotFit("there is no such file")
    for old, new in replacements:
        before, after = old.encode(), new.encode()
        if not before:
            return DoesNotFit("the text to replace is empty")
        if raw.count(before) == 0 and b"\r\n" in raw and b"\r" not in before:
            before, after = before.replace(b"\n", b"\r\n"), after.replace(b"\n", b"\r\n")
        count = raw.count(before)
        if count != 1:
            where = "does not occur" if not count else f"occurs {count} times"
            return DoesNotFit(f"the text to replace {where}: {old[:80]!r}")
        raw = raw.replace(before, after)
    return raw


def _on_text(raw: bytes, work: Callable[[str], str | None]) -> bytes | DoesNotFit:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return DoesNotFit("the file is no UTF-8 text")
    done = work(text)
    return DoesNotFit("no single entry matches") if done is None else done.encode()
