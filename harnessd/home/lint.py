"""What in a home should a person mend, where, and how?"""

import re

from harnessd.home.decode import decode
from harnessd.home.definition import Definition, Files
from harnessd.home.lint_descriptions import about_description
from harnessd.home.lint_tools import Unreadable, lint_tools
from harnessd.home.memory import normalised, parse_memory
from harnessd.home.problem import Problem
from harnessd.home.reader import DefinitionReader
from harnessd.home.secrets import find_secrets
from harnessd.home.skills import Skill

BODY_LINES = 500
"""Lines of a skill's body above which the Agent Skills format advises to split it."""

_SCANNED = (
    ".md",
    ".json",
    ".yaml",
    ".yml",
    ".txt",
    ".toml",
    ".sh",
    ".py",
    ".js",
    ".ts",
    ".env",
    ".ini",
    ".cfg",
)
_ORDER = {"error": 0, "warning": 1, "notice": 2}


def lint_files(
    files: Files, definition: Definition | None = None, *, unreadable: Unreadable = lambda _rule: None
) -> tuple[Problem, ...]:
    """Every finding in the home's definition files, sorted by file and line, the gravest of a line first.

    `definition` saves reading `files` again. `unreadable` says why a rule can't be read.
    Reads every text file, so it is not for the path of a call.
    """
    definition = definition or DefinitionReader().read(files)
    problems = list(definition.problems)
    for skill in definition.skills:
        problems += about_description(skill.description, "skill", skill.path, 1)
        problems += _about_length(skill)
    for subagent in definition.subagents:
        problems += about_description(subagent.description, "subagent", subagent.path, 1)
    problems += lint_tools(files, definition, unreadable)
    problems += _about_memory(definition.memory, "MEMORY.md", definition)
    for path in sorted(files.blobs):
        problems += _about_secrets(files, path)
        if re.fullmatch(r"users/[^/]+/MEMORY\.md", path):
            problems += _about_memory(_text(files, path), path, None)
    ordered = sorted(
        dict.fromkeys(problems),
        key=lambda problem: (
            problem.path,
            problem.line,
            _ORDER[problem.severity],
            problem.code,
            problem.message,
        ),
    )
    return tuple(ordered)


def _about_length(skill: Skill) -> list[Problem]:
    lines = skill.body.count("\n") + 1
    if lines <= BODY_LINES:
        return []
    return [
        Problem(
            path=skill.path,
            line=BODY_LINES,
            code="skill-long",
            message=f"the recipe has {lines} lines; all of them are read whenever it is used",
            fix="move details to files in references/ beside it",
        )
    ]


def _about_memory(text: str, path: str, definition: Definition | None) -> list[Problem]:
    problems = []
    seen: dict[str, int] = {}
    for entry in parse_memory(text):
        first = seen.setdefault(normalised(entry.text), entry.line)
        if first != entry.line:
            problems.append(
                Problem(
                    path=path,
                    line=entry.line,
                    code="memory-twice",
                    message=f"line {first} says the same",
                    fix="remove one of them",
                )
            )
    return problems


def _about_secrets(files: Files, path: str) -> list[Problem]:
    if not path.lower().endswith(_SCANNED):
        return []
    return [
        Problem(
            path=path,
            line=finding.line,
            code="secret",
            severity="error",
            message=f"this looks like a secret ({finding.kind})",
            fix="keep it in the secret store or the environment, write ${NAME} here, and change the secret",
        )
        for finding in find_secrets(_text(files, path))
    ]


def _text(files: Files, path: str) -> str:
    try:
        return decode(files.load(path), path).text
    except (OSError, KeyError):
        return ""  # the reader has reported it
