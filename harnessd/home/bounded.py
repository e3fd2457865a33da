"""How much of a file reaches the prompt, and how is it told what does not?"""

from dataclasses import dataclass

from harnessd.home.problem import Problem

# Characters of each file that are shown in every call. About four characters are one token.
LIMITS = {"AGENTS.md": 64_000, "KNOWLEDGE.md": 64_000, "MEMORY.md": 32_000}
SUBAGENT_LIMIT, USER_MEMORY_LIMIT = 64_000, 16_000


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a file that is shown, and the problem if it is not the whole."""

    text: str
    problem: Problem | None = None


def shown(text: str, path: str) -> Shown:
    """`text` of the file at `path`, cut in the middle to its limit at line ends; a note stands in the cut."""
    text = text.strip("\n")
    limit = LIMITS.get(path, USER_MEMORY_LIMIT if path.endswith("MEMORY.md") else SUBAGENT_LIMIT)
    if len(text) <= limit:
        return Shown(text)
    # New facts are added at the end of a memory; who an agent is, is said at the beginning of its file.
    head_room = limit // 4 if path.endswith("MEMORY.md") else limit * 3 // 4
    head = text[:head_room]
    head = head[: head.rfind("\n") + 1] or head
    tail = text[len(text) - (limit - head_room) :]
    tail = tail[tail.find("\n") + 1 :] or tail
    missing = len(text) - len(head) - len(tail)
    first = text.count("\n", 0, len(head)) + 1
    last = first + text.count("\n", len(head), len(text) - len(tail)) - 1
    last = max(first, last)
    place = f"(lines {first} to {last})"
    note = f"[{missing:,} characters of {path} are not shown here {place}; read the file to see them]"
    problem = Problem(
        path=path,
        line=first,
        code="not-shown",
        severity="warning",
        message=f"{missing:,} of {len(text):,} characters are not in the prompt (limit {limit:,})",
        fix="shorten the file, or move parts of it to skills, which are read on demand",
    )
    return Shown(f"{head.rstrip()}\n\n{note}\n\n{tail}", problem)
