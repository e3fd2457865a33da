"""When is a file of the home invalid, so that its last valid version is used in its place?

A file that broke must not loosen what it limited. So besides damage itself (undecodable, emptied, a header
that can't be read strictly) this looks at what the committed version limited and whether its loss looks like
damage.
"""

import re
from collections.abc import Mapping

from harnessd.home.decode import decode
from harnessd.home.document import Document, read_document
from harnessd.home.header import HEADER_LIMIT, folded
from harnessd.home.problem import Problem
from harnessd.home.settings import near_power, power_keys, read_settings
from harnessd.home.skills import is_skill_path
from harnessd.home.subagents import is_subagent_path
from harnessd.home.tools_file import read_tools

_LOADED = {"agents.md", "memory.md", "knowledge.md", "tools.json"}


def invalid(path: str, raw: bytes, committed: bytes | None) -> Problem | None:
    """What makes `raw` unusable as the file at `path` (relative to the home), or None if it may be used.

    `committed` is the version of HEAD, None if there is none. Never raises.
    """
    if not _is_loaded(path):
        return None
    if not raw and committed:
        return _problem(path, 0, "emptied", "the file is empty, its committed version is not",
                        "commit the empty file if that is meant")  # fmt: skip
    if path == "tools.json":
        return _invalid_tools(raw, path)
    if path == "AGENTS.md" or is_subagent_path(path):
        return _invalid_powers(path, raw, committed)
    decoded = decode(raw, path)
    return None if decoded.intact else _damaged(path, decoded.problems)


def _is_loaded(path: str) -> bool:
    """Whether the harness itself reads the file; scripts and assets of a skill may hold any bytes."""
    folder, _, name = path.rpartition("/")
    if not folder:
        return name.lower() in _LOADED
    if path.startswith(("graphs/", "evals/")):
        return name.lower().endswith((".yaml", ".yml"))
    return is_skill_path(path) or is_subagent_path(path) or re.fullmatch(r"users/[^/]+/MEMORY\.md", path) is not None


def _invalid_tools(raw: bytes, path: str) -> Problem | None:
    tools, problems = read_tools(raw, path)
    if tools is not None:
        return None
    return next(problem for problem in problems if problem.severity == "error")


def _invalid_powers(path: str, raw: bytes, committed: bytes | None) -> Problem | None:
    document = read_document(raw, path)
    if not document.intact:
        return _damaged(path, document.problems)
    _, problems = read_settings(document)
    withheld = next((problem for problem in problems if problem.severity == "error"), None)
    if withheld:
        return withheld
    if not committed or committed == raw:
        return None
    before = read_document(committed, path)
    lost = power_keys(before) - power_keys(document)
    return _torn(path, raw, document, committed, lost) if lost else None


def _torn(path: str, raw: bytes, document: Document, committed: bytes, lost: frozenset[str]) -> Problem | None:
    """Whether the lost limits were lost by damage; a header taken out on purpose leaves no remains."""
    names = ", ".join(sorted(lost))
    fix = "mend the header, or commit the file if that is meant"
    if not document.strict:
        line = document.problems[0].line if document.problems else 1
        return _problem(path, line, "power-lost", f"the header is damaged and no longer sets {names}", fix)
    if committed.startswith(raw):
        return _problem(path, 1, "torn", f"the file ends within its header; {names} would be lost", fix)
    for key in document.header:
        odd = re.fullmatch(r"[A-Za-z_][\w.-]*", key) is None  # `budget; {turns: 3}` is a key `budget; {turns`
        if odd or near_power(key) in lost or _near_turns(key, lost):
            line = document.key_lines.get(key, 0)
            return _problem(path, line, "power-misspelt", f"{key!r} takes the place of {names}", fix)
    if not document.has_header:
        line = _remains(document.body, lost)
        if line:
            message = f"the header has lost its first line ---, and with it {names}"
            return _problem(path, line, "power-lost", message, fix)
    return None


def _near_turns(key: str, lost: frozenset[str]) -> bool:
    return "budget" in lost and near_power(key) == "maxTurns"


def _remains(body: str, lost: frozenset[str]) -> int:
    """The line on which a lost setting still stands, though no longer in a header; 0 if none does."""
    wanted: Mapping[str, str] = {folded(name): name for name in lost} | {
        "permissionmode": "mode",
        "maxturns": "budget",
    }
    for number, line in enumerate(body[:HEADER_LIMIT].split("\n"), 1):
        match = re.match(r"([A-Za-z][\w-]*)[ ]*:", line, re.ASCII)
        if match and wanted.get(folded(match[1])) in lost:
            return number
    return 0


def _damaged(path: str, problems: tuple[Problem, ...]) -> Problem:
    found = next(problem for problem in problems if problem.code in {"undecodable", "nul"})
    return found.model_copy(update={"severity": "error"})


def _problem(path: str, line: int, code: str, message: str, fix: str) -> Problem:
    return Problem(path=path, line=line, code=code, severity="error", message=message, fix=fix)
