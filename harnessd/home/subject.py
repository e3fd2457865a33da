"""What a change is called in the log: the subject line, derived from the real difference."""

import difflib
import re
from typing import Any

from harnessd.home.json_text import JsonText, read_json
from harnessd.home.layout import MEMORY, TOOLS

_LENGTH = 72


def subject_of(path: str, old: bytes | None, new: bytes | None) -> str:
    """One line of at most 72 characters: "Remember: …", "Allow execute(make)", "Edit AGENTS.md: 2 lines added"."""
    added, removed = _lines(old, new)
    name = _name(path)
    if path == MEMORY or path.endswith("/" + MEMORY):
        told = _memory(added, removed)
        if told and new is not None:
            return _one_line(told if path == MEMORY else f"{told} (of {path.split('/')[1]})")
    if path == TOOLS and new is not None and (told := _tools(old, new)):
        return _one_line(told)
    if new is None:
        return _one_line(f"Remove {name}")
    if old is None:
        return _one_line(f"Add {name}")
    counts = [f"{len(lines)} {word}" for lines, word in ((added, "added"), (removed, "removed")) if lines]
    if counts:
        number, _, word = counts[0].partition(" ")
        counts[0] = f"{number} {'line' if number == '1' else 'lines'} {word}"
    return _one_line(f"Edit {name}" + (f": {', '.join(counts)}" if counts else ""))


def diff_of(path: str, old: bytes | None, new: bytes | None) -> str:
    """A unified diff for a person to judge; bytes that are no text are named by their size."""
    before, after = _text(old), _text(new)
    if before is None or after is None:
        return f"{path}: {len(old or b'')} bytes become {len(new or b'')} bytes, which are no text\n"
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        "/dev/null" if old is None else f"a/{path}",
        "/dev/null" if new is None else f"b/{path}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _memory(added: list[str], removed: list[str]) -> str | None:
    facts = [(_fact(line), True) for line in added] + [(_fact(line), False) for line in removed]
    new = [fact for fact, is_new in facts if fact and is_new]
    gone = [fact for fact, is_new in facts if fact and not is_new]
    if new and not gone:
        return f"Remember: {new[0]}" if len(new) == 1 else f"Remember {len(new)} facts: {new[0]}"
    if gone and not new:
        return f"Forget: {gone[0]}" if len(gone) == 1 else f"Forget {len(gone)} facts: {gone[0]}"
    if len(new) == 1 and len(gone) == 1:
        return f"Correct: {new[0]}"
    return None


def _fact(line: str) -> str:
    found = re.match(r"\s*(?:[-*+]|\d+[.)])\s+(.+)", line)
    return found.group(1) if found else ""


def _tools(old: bytes | None, new: bytes | None) -> str | None:
    """A change of nothing but rules of one kind, or of one server."""
    before, after = _object(old), _object(new)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if len(changed) != 1:
        return None
    was, now = before.get(changed[0]), after.get(changed[0])
    verbs = {
        "allow": ("Allow", "No longer allow"),
        "ask": ("Ask about", "No longer ask about"),
        "deny": ("Deny", "No longer deny"),
    }
    if changed[0] in verbs and isinstance(was or [], list) and isinstance(now or [], list):
        added, removed = _but(now or [], was or []), _but(was or [], now or [])
        verb, rules = (verbs[changed[0]][0], added) if added else (verbs[changed[0]][1], removed)
        if rules and not (added and removed):
            return f"{verb} {rules[0]}" + (f" and {len(rules) - 1} more" if len(rules) > 1 else "")
    if changed[0] == "mcpServers" and isinstance(was or {}, dict) and isinstance(now or {}, dict):
        names = [name for name in {**(was or {}), **(now or {})} if (was or {}).get(name) != (now or {}).get(name)]
        if len(names) == 1:
            verb = "Add" if names[0] not in (was or {}) else "Remove" if names[0] not in (now or {}) else "Change"
            return f"{verb} the MCP server {names[0]}"
    return None


def _but(these: list[Any], those: list[Any]) -> list[Any]:
    return [one for one in these if one not in those]


def _object(raw: bytes | None) -> dict[str, Any]:
    parsed = read_json(_text(raw) or "{}", TOOLS)
    return parsed.value if isinstance(parsed, JsonText) and isinstance(parsed.value, dict) else {}


def _name(path: str) -> str:
    steps = path.split("/")
    kinds = {"skills": "skill", "subagents": "subagent", "graphs": "graph", "evals": "eval"}
    kind = kinds.get(steps[0])
    if kind and len(steps) == 2:
        return f"{kind} {steps[1].rsplit('.', 1)[0]}"
    if kind == "skill" and len(steps) == 3 and steps[2] == "SKILL.md":
        return f"skill {steps[1]}"
    return path


def _lines(old: bytes | None, new: bytes | None) -> tuple[list[str], list[str]]:
    before, after = (_text(old) or "").splitlines(), (_text(new) or "").splitlines()
    before, after = _without_ends(before, after)
    added: list[str] = []
    removed: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, low, high, start, end in matcher.get_opcodes():
        if tag != "equal":
            removed += before[low:high]
            added += after[start:end]
    return added, removed


def _without_ends(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Both without their common beginning and end: a small change in a long file is compared quickly."""
    start, limit = 0, min(len(before), len(after))
    while start < limit and before[start] == after[start]:
        start += 1
    end = 0
    while end < limit - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return before[start : len(before) - end], after[start : len(after) - end]


def _text(raw: bytes | None) -> str | None:
    try:
        return (raw or b"").decode()
    except UnicodeDecodeError:
        return None


def _one_line(text: str) -> str:
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _LENGTH else plain[: _LENGTH - 1].rstrip() + "…"
