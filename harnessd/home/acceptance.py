"""May this become the next version of a definition file? Asked by the one door before anything changes.

Reading is tolerant, writing is not: what the agent writes must load without a single finding that a person
would have to mend, and must be shown in full.
"""

from collections.abc import Callable, Iterable

from harnessd.home.bounded import shown
from harnessd.home.decode import decode
from harnessd.home.layout import MEMORY
from harnessd.home.memory import parse_memory
from harnessd.home.problem import Problem
from harnessd.home.secrets import find_secrets
from harnessd.home.skills import is_skill_path, read_skill, skill_name
from harnessd.home.subagents import is_subagent_path, read_subagent
from harnessd.home.validity import invalid

_FATAL = frozenset({"warning", "error"})


def acceptance(known_secrets: Callable[[], Iterable[str]]) -> Callable[[str, bytes, bytes | None], tuple[Problem, ...]]:
    """The check of one home's door; `known_secrets` gives the values of the secret store at that moment."""

    def check(path: str, raw: bytes, committed: bytes | None) -> tuple[Problem, ...]:
        return acceptable(path, raw, committed, known_secrets())

    return check


def acceptable(
    path: str, raw: bytes, committed: bytes | None, known_secrets: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """Why `raw` may not become the file at `path`; nothing if it may. Every problem has severity "error"."""
    broken = invalid(path, raw, committed)
    if broken is not None and not _is_last_forgotten(path, broken, committed):
        return (broken.model_copy(update={"severity": "error"}),)
    decoded = decode(raw, path)  # its text is without hidden characters; that there were some is a problem of it
    problems = [_secret(path, found.line, found.kind) for found in find_secrets(decoded.text, known_secrets)]
    problems += [found for found in decoded.problems if found.code == "hidden-characters"]
    problems += _about_entry(path, raw)
    if path.rpartition("/")[2] == MEMORY and (cut := shown(decoded.text, path).problem) is not None:
        problems.append(cut)
    return tuple(problem.model_copy(update={"severity": "error"}) for problem in dict.fromkeys(problems))


def _is_last_forgotten(path: str, broken: Problem, committed: bytes | None) -> bool:
    """Whether a memory is empty because its one fact was forgotten, and not because it was wiped."""
    if broken.code != "emptied" or path.rpartition("/")[2] != MEMORY:
        return False
    return len(parse_memory(decode(committed or b"", path).text)) <= 1


def _about_entry(path: str, raw: bytes) -> list[Problem]:
    """A skill or subagent must load as its writer means it."""
    if is_skill_path(path):
        skill, odd = read_skill(raw, path)
        if skill is not None and not skill.description.strip():
            odd = (*odd, _bare(path, "the skill has no description", skill_name(path)))
    elif is_subagent_path(path):
        subagent, odd = read_subagent(raw, path)
        if subagent is not None and not subagent.description.strip():
            odd = (*odd, _bare(path, "the subagent has no description", subagent.name))
    else:
        return []
    return [problem for problem in odd if problem.severity in _FATAL]


def _secret(path: str, line: int, kind: str) -> Problem:
    return Problem(
        path=path,
        line=line,
        code="secret",
        message=f"this looks like a secret ({kind}); secrets never enter a home",
        fix="leave it out, or name the variable of the secret store that holds it",
    )


def _bare(path: str, message: str, name: str) -> Problem:
    return Problem(
        path=path,
        line=1,
        code="no-description",
        message=message,
        fix=f"begin the file with ---, name: {name}, description: what it does and when to use it, ---",
    )
