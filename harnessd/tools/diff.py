"""What does a person see of a change to a file: a unified diff around the places that changed, whatever the size.

Only the changed lines and a few around them are compared, so a word changed in 100 MB costs next to nothing.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence

from harnessd.tools.replace import Hunk

AROUND = 3
"""Unchanged lines shown on each side of a change."""

COMPARED = 1500
"""Lines up to which a changed stretch is compared line by line; a longer one is shown as taken out and put in."""

AROUND_BYTES = 2000
"""Bytes up to which those lines go: in a file that is one endless line the change itself is shown all the same."""

LINE_SHOWN = 8000
SHOWN_AT_MOST = 200_000
"""Characters of the whole diff. What is left out of a line or at the end is said."""

_NEWLINE = ord("\n")


def show_changes(old: bytes, new: bytes, hunks: Iterable[Hunk], names: tuple[str, str]) -> str:
    """The diff of two UTF-8 texts that differ nowhere outside `hunks`, which are in order; "" if there are none."""
    stretches = _stretches(old, hunks)
    shown, room = [f"--- {names[0]}\n+++ {names[1]}\n"], SHOWN_AT_MOST
    counted, line, moved, more_lines = 0, 0, 0, 0
    for number, (begin, end, grown) in enumerate(stretches, 1):
        line, counted = line + old.count(b"\n", counted, begin), begin
        before, after = old[begin:end], new[begin + moved : end + moved + grown]
        cut = (begin > 0 and old[begin - 1] != _NEWLINE, end < len(old) and old[end - 1] != _NEWLINE)
        text = "".join(_compared(_lines(before, *cut), _lines(after, *cut), line, line + more_lines))
        moved += grown
        more_lines += after.count(b"\n") - before.count(b"\n")
        shown.append(text[:room])
        if len(text) > room:
            shown.append(f"\n[… the diff is cut here, in change {number:,} of {len(stretches):,} …]\n")
            break
        room -= len(text)
    return "".join(shown) if stretches else ""


def whole_change(old: bytes, new: bytes) -> tuple[Hunk, ...]:
    """The one hunk between what both texts begin with and what both end with; none if they are equal."""
    if old == new:
        return ()
    most = min(len(old), len(new))
    head = _longest(most, lambda low, high: old[low:high] == new[low:high])
    tail = _longest(
        most - head, lambda low, high: old[len(old) - high : len(old) - low] == new[len(new) - high : len(new) - low]
    )
    return (Hunk(head, len(old) - tail, len(new) - tail - head),)


def _longest(most: int, same: Callable[[int, int], bool]) -> int:
    """Up to where all of it is the same, by halving."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _stretches(old: bytes, hunks: Iterable[Hunk]) -> list[tuple[int, int, int]]:
    """Whole lines around the hunks, those that touch made one: begin, end, and by how many bytes it grew."""
    stretches: list[tuple[int, int, int]] = []
    for hunk in hunks:
        begin, end = _lines_before(old, hunk.start), _lines_after(old, hunk.end)
        grown = hunk.length - (hunk.end - hunk.start)
        if stretches and begin <= stretches[-1][1]:
            begin, last, was = stretches.pop()
            end, grown = max(last, end), grown + was
        stretches.append((begin, end, grown))
    return stretches


def _lines_before(old: bytes, place: int) -> int:
    least = max(0, place - AROUND_BYTES)
    begin = old.rfind(b"\n", least, place) + 1
    for _ in range(AROUND):
        begin = old.rfind(b"\n", least, max(least, begin - 1)) + 1
    return max(begin, least)


def _lines_after(old: bytes, place: int) -> int:
    # One line more than is shown: a change that ends at a line's end leaves the next one as it was.
    end, most = place, min(len(old), place + AROUND_BYTES)
    for _ in range(AROUND + 1):
        found = old.find(b"\n", end, most)
        if found < 0:
            return most
        end = found + 1
    return end


def _lines(text: bytes, cut_before: bool, cut_behind: bool) -> list[str]:
    lines = [line.decode(errors="replace") for line in text.split(b"\n")]
    if cut_before:
        lines[0] = f"[…]{lines[0]}"
    last = lines.pop()
    if cut_behind:
        last += "[…]\n"
    elif last:
        last += "\n\\ No newline at end of file\n"
    return [*(f"{line}\n" for line in lines), last] if last else [f"{line}\n" for line in lines]


def _compared(old: list[str], new: list[str], old_line: int, new_line: int) -> Iterator[str]:
    """One stretch as hunks of a unified diff; its first line is number `old_line` + 1 and `new_line` + 1."""
    groups: Iterable[Sequence[tuple[str, int, int, int, int]]]
    if max(len(old), len(new)) > COMPARED:
        groups = [[("replace", 0, len(old), 0, len(new))]]
    else:
        groups = difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(AROUND)
    for group in groups:
        first, last = group[0], group[-1]
        was, now = _span(old_line + first[1], old_line + last[2]), _span(new_line + first[3], new_line + last[4])
        yield f"@@ -{was} +{now} @@\n"
        for what, begin, end, start, upto in group:
            if what == "equal":
                yield from (f" {_short(line)}" for line in old[begin:end])
                continue
            yield from (f"-{_short(line)}" for line in old[begin:end])
            yield from (f"+{_short(line)}" for line in new[start:upto])


def _span(begin: int, end: int) -> str:
    """Lines of a file as a unified diff counts them."""
    if end - begin == 1:
        return f"{begin + 1}"
    return f"{begin + 1 if end > begin else begin},{end - begin}"


def _short(line: str) -> str:
    if len(line) <= LINE_SHOWN:
        return line
    return f"{line[:LINE_SHOWN]}[… {len(line) - LINE_SHOWN:,} characters of this line left out]\n"
