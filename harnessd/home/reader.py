"""How does a set of files become a definition, without reading again what did not change?"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from harnessd.home.definition import Definition, Files
from harnessd.home.document import Document, read_document
from harnessd.home.not_yet import not_run_yet
from harnessd.home.problem import Problem
from harnessd.home.prompt import prompt_problems, render_prompt, user_memory_path
from harnessd.home.settings import AgentSettings, read_settings
from harnessd.home.skills import Skill, is_skill_path, read_skill
from harnessd.home.subagents import (
    BUILT_IN_TOOLS,
    Subagent,
    is_subagent_path,
    no_such_tools,
    read_subagent,
    unknown_tools,
)
from harnessd.home.tools_file import ToolsFile, read_tools

Problems = tuple[Problem, ...]
Named = TypeVar("Named", Skill, Subagent)
Parsed = TypeVar("Parsed")

MAIN = "main"
_CONTEXT = ("AGENTS.md", "KNOWLEDGE.md", "MEMORY.md")
_DEFINITIONS_KEPT = 16  # one per user that talks to the home at a time


class DefinitionReader:
    """Reads definitions of one home. Blocking; safe to call from several threads.

    A file whose blob is known is not parsed again; one set of files always gives one `Definition` object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parsed: dict[tuple[str, str], object] = {}
        self._used: set[tuple[str, str]] = set()
        self._definitions: dict[tuple[str, Problems, str | None], Definition] = {}
        self._last: dict[str | None, tuple[Files, Definition]] = {}

    def read(self, files: Files, user_id: str | None = None) -> Definition:
        """The definition in `files`, with what is known of `user_id`. Never raises for a broken file."""
        with self._lock:
            last = self._last.get(user_id)
            if last and last[0] is files:
                return last[1]
            key = (files.tree, files.problems, user_id)
            definition = self._definitions.pop(key, None) or self._read(files, user_id)
            self._definitions[key] = definition
            while len(self._definitions) > _DEFINITIONS_KEPT:
                del self._definitions[next(iter(self._definitions))]
            self._last.pop(user_id, None)
            self._last[user_id] = (files, definition)
            while len(self._last) > _DEFINITIONS_KEPT:
                del self._last[next(iter(self._last))]
            return definition

    def _read(self, files: Files, user_id: str | None) -> Definition:
        self._used = set()
        problems: list[Problem] = list(files.problems)
        paths = sorted(files.blobs)
        context = {name: self._context(files, name, problems) for name in _CONTEXT}
        settings, odd_settings = read_settings(context["AGENTS.md"])
        problems += odd_settings
        tools, tools_valid = self._tools(files, problems)
        odd = _unknown_tools(settings, "AGENTS.md", tools)
        problems += [odd] if odd else []
        skills = self._skills(files, paths, problems)
        subagents = self._subagents(files, paths, tools, problems)
        user_memory = self._user_memory(files, user_id, problems)
        definition = Definition(
            agents=context["AGENTS.md"],
            settings=settings if tools_valid else settings.model_copy(update={"powers_withheld": True}),
            knowledge=context["KNOWLEDGE.md"].body,
            memory=context["MEMORY.md"].body,
            user_id=user_id,
            user_memory=user_memory,
            skills=skills,
            subagents=subagents,
            tools=tools,
            tools_valid=tools_valid,
            graphs=_graphs(paths),
        )
        problems = _told_once([*problems, *prompt_problems(definition), *not_run_yet(definition)])
        self._parsed = {key: value for key, value in self._parsed.items() if key in self._used}
        return replace(definition, prompt=render_prompt(definition), problems=tuple(dict.fromkeys(problems)))

    def _context(self, files: Files, name: str, problems: list[Problem]) -> Document:
        spellings = [path for path in sorted(files.blobs) if path.lower() == name.lower()]
        path = name if name in spellings else spellings[0] if spellings else name
        problems += [_twice(other, path) for other in spellings if other != path]
        document = self._parse(files, path, read_document, problems) or Document(path=name)
        problems += document.problems
        if name != "AGENTS.md" and document.has_header:
            problems.append(_header_unused(path))
        if name == "AGENTS.md" and not document.body.strip() and not document.header:
            problems.append(_nobody(name, bool(spellings)))
        return document

    def _tools(self, files: Files, problems: list[Problem]) -> tuple[ToolsFile, bool]:
        path = "tools.json"
        if path not in files.blobs:
            return ToolsFile(), True
        if any(problem.code == "tools-denied" for problem in files.problems):
            return ToolsFile(), False
        parsed = self._parse(files, path, read_tools, problems)
        if parsed is None:
            return ToolsFile(), False
        tools, odd = parsed
        problems += odd
        return tools or ToolsFile(), tools is not None

    def _skills(self, files: Files, paths: list[str], problems: list[Problem]) -> tuple[Skill, ...]:
        found = []
        for path in paths:
            if is_skill_path(path):
                parsed = self._parse(files, path, read_skill, problems)
                if parsed:
                    problems += parsed[1]
                    found += [parsed[0]] if parsed[0] else []
        # the directory form wins over the flat one; among equals the first by path does
        found.sort(key=lambda skill: (skill.folder == "", skill.path))
        return _without_doubles(found, problems)

    def _subagents(
        self, files: Files, paths: list[str], tools: ToolsFile, problems: list[Problem]
    ) -> tuple[Subagent, ...]:
        found = []
        for path in paths:
            if is_subagent_path(path):
                parsed = self._parse(files, path, read_subagent, problems)
                if parsed:
                    problems += parsed[1]
                    found += [parsed[0]] if parsed[0] else []
        offered = []
        for subagent in _without_doubles(found, problems):
            odd = _unknown_tools(subagent.settings, subagent.path, tools)
            problems += [odd] if odd else []
            if subagent.name == MAIN:
                problems.append(_reserved(subagent))
            elif not odd or odd.code != "no-tools":
                offered.append(subagent)
        return tuple(offered)

    def _user_memory(self, files: Files, user_id: str | None, problems: list[Problem]) -> str | None:
        if user_id is None or user_memory_path(user_id) not in files.blobs:
            return None
        document = self._parse(files, user_memory_path(user_id), read_document, problems)
        if document is None:
            return None
        problems += document.problems
        return document.body

    def _parse(
        self, files: Files, path: str, parse: Callable[[bytes, str], Parsed], problems: list[Problem]
    ) -> Parsed | None:
        """What `parse` makes of the file, from memory if its blob was parsed before; None if it can't be
        read.
        """
        if path not in files.blobs:
            return None
        # `load` may give an older version of a file that the pin found a problem in
        key = (path, files.blobs[path])
        replaced = any(problem.path == path for problem in files.problems)
        if not replaced and key in self._parsed:
            self._used.add(key)
            return self._parsed[key]  # type: ignore[return-value]
        try:
            parsed = parse(files.load(path), path)
        except (OSError, KeyError) as error:
            problems.append(_unreadable(path, error))
            return None
        if not replaced:
            self._parsed[key] = parsed
            self._used.add(key)
        return parsed


def _graphs(paths: list[str]) -> tuple[str, ...]:
    files = (path.removeprefix("graphs/") for path in paths if path.startswith("graphs/"))
    return tuple(name.rpartition(".")[0] for name in files if "/" not in name and name.endswith((".yaml", ".yml")))


def _without_doubles(found: list[Named], problems: list[Problem]) -> tuple[Named, ...]:
    """One entry a name, the first; the others are reported. Sorted by name."""
    kept: dict[str, Named] = {}
    titles: dict[str, Named] = {}
    for entry in found:
        first = kept.setdefault(entry.name, entry)
        if first is not entry:
            problems.append(_same_name(entry, first))
            continue
        title = entry.title.casefold()
        same = titles.setdefault(title, entry)
        if same is not entry:
            problems.append(_same_title(entry, same))
    return tuple(kept[name] for name in sorted(kept))


def _unknown_tools(settings: AgentSettings, path: str, tools: ToolsFile) -> Problem | None:
    """The problem of an allow list that names what can't exist: no built-in, script or server has it."""
    if not settings.tools or tools.mcp_servers:
        return None
    known = (*BUILT_IN_TOOLS, *(script.name for script in tools.scripts))
    unknown = unknown_tools(settings, known)
    if unknown and len(unknown) == len(settings.tools):
        return no_such_tools(settings.tools, path)
    if unknown:
        return Problem(
            path=path,
            code="unknown-tool",
            severity="warning",
            message="no tool of this home is called " + " or ".join(unknown),
            fix="take it out of tools, or add the server or script that has it",
        )
    return None


def _same_name(entry: Skill | Subagent, first: Skill | Subagent) -> Problem:
    return Problem(
        path=entry.path,
        code="same-name",
        severity="error",
        message=f"{first.path} is called {entry.name!r} too and is used; this one is not offered",
        fix="rename or delete one of the two",
    )


def _same_title(entry: Skill | Subagent, first: Skill | Subagent) -> Problem:
    return Problem(
        path=entry.path,
        code="same-title",
        severity="warning",
        message=f"{first.path} is shown as {entry.title!r} too; call them {first.name!r} and {entry.name!r}",
        fix="give one of the two another name",
    )


def _reserved(subagent: Subagent) -> Problem:
    return Problem(
        path=subagent.path,
        code="reserved-name",
        severity="error",
        message=f"{MAIN!r} is the agent that AGENTS.md describes; this subagent is not offered",
        fix="give the file another name",
    )


def _twice(path: str, used: str) -> Problem:
    return Problem(
        path=path,
        code="same-name",
        severity="error",
        message=f"{used} is used; this file differs from it only in case and is not read",
        fix="delete or rename it",
    )


def _header_unused(path: str) -> Problem:
    return Problem(
        path=path,
        line=1,
        code="header-unused",
        severity="warning",
        message="a header has no meaning here; the model does not see it",
        fix="move what it says below the second ---, as text",
    )


def _nobody(path: str, present: bool) -> Problem:
    return Problem(
        path=path,
        code="empty" if present else "missing",
        severity="warning",
        message="AGENTS.md says nothing: no persona, no rules" if present else "there is no AGENTS.md",
        fix="write who the agent is and what it is to do",
    )


def _unreadable(path: str, error: Exception) -> Problem:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is gone"
    return Problem(
        path=path,
        code="unreadable",
        severity="error",
        message=f"the file can't be read: {reason}",
        fix="look at its permissions",
    )


def _told_once(problems: list[Problem]) -> list[Problem]:
    """One finding for one fault: what a pin says of it goes on where the reader's own finding ends."""
    by_place: dict[tuple[str, int, str], list[str]] = {}
    for one in problems:
        by_place.setdefault((one.path, one.line, one.code), []).append(one.message)
    return [
        one
        for one in problems
        if not any(
            other != one.message and other.startswith(one.message) for other in by_place[one.path, one.line, one.code]
        )
    ]
