"""Of which skills and subagents is the model told in every call?

All by name and description while that fits; then with short descriptions; then by name; then as a number,
with the way to find the rest. Whatever is left out is said in the index itself and as a problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harnessd.home.problem import Problem
from harnessd.home.skills import Skill
from harnessd.home.subagents import Subagent

INDEX_LIMIT = 24_000
"""Characters of each of the two indexes."""

_FULL, _SHORT = 400, 100
_WAY = {
    "skills": " Ask the tool `skill` for a word of what you need: it tells which skills fit.",
    "subagents": " Their descriptions stand in subagents/.",
}


@dataclass(frozen=True, slots=True)
class Index:
    """The lines of the index, and the problem if something was left out."""

    text: str
    problem: Problem | None = None


def index_of(entries: Sequence[Skill | Subagent], folder: Literal["skills", "subagents"]) -> Index:
    """The index of `entries` (in the order given) that lie in `folder`: `- name: description` each."""
    for length in (_FULL, _SHORT):
        lines = [_line(entry, length) for entry in entries]
        if sum(map(len, lines)) + len(lines) <= INDEX_LIMIT:
            return Index("\n".join(lines), _shortened(entries, length, folder))
    names, rest = _names(entries)
    note = f"({rest} more are not listed here.{_WAY[folder]})" if rest else f"(Names only.{_WAY[folder]})"
    message = f"{len(entries)} in {folder}: the prompt lists names without descriptions"
    message += f" and leaves out {rest}" if rest else ""
    problem = Problem(
        path=folder,
        code="index-cut",
        severity="warning",
        message=message,
        fix="remove what is not used, or shorten names and descriptions",
    )
    return Index(f"{', '.join(names)}\n{note}", problem)


def find_skills(skills: Sequence[Skill], words: str, limit: int = 20) -> tuple[Skill, ...]:
    """The skills that `words` lead to, best first: by name, then by title, then by how many words fit."""
    wanted = words.casefold().split()
    scored = []
    for order, skill in enumerate(skills):
        name, title = skill.name.casefold(), skill.title.casefold()
        description = skill.description.casefold()
        exact = " ".join(wanted) in {name, title}
        points = sum(3 * (word in name or word in title) + (word in description) for word in wanted)
        if exact or points:
            scored.append((-100 * exact - points, order, skill))
    return tuple(skill for _, _, skill in sorted(scored, key=lambda item: item[:2])[:limit])


def _line(entry: Skill | Subagent, length: int) -> str:
    description = " ".join(entry.description.split())
    if len(description) > length:
        description = description[:length].rpartition(" ")[0] + " …"
    shown = f" ({entry.title})" if entry.title not in {"", entry.name} else ""
    return f"- {entry.name}{shown}: {description}" if description else f"- {entry.name}{shown}"


def _shortened(entries: Sequence[Skill | Subagent], length: int, folder: str) -> Problem | None:
    long = [entry for entry in entries if len(" ".join(entry.description.split())) > length]
    if not long:
        return None
    return Problem(
        path=long[0].path if len(long) == 1 else folder,
        code="index-shortened",
        severity="notice",
        message=f"the prompt shows {length} characters of {len(long)} description(s), … where they were cut",
        fix="say first what it does and when to use it",
    )


def _names(entries: Sequence[Skill | Subagent]) -> tuple[list[str], int]:
    names: list[str] = []
    room = INDEX_LIMIT
    for entry in entries:
        room -= len(entry.name) + 2
        if room < 0:
            break
        names.append(entry.name)
    return names, len(entries) - len(names)
