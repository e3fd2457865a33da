"""What in tools.json loads, and does not do what its writer thinks?"""

import difflib
import json
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harnessd.facts.base import Record
from harnessd.home.definition import Definition, Files
from harnessd.home.json_text import JsonText, read_json
from harnessd.home.layout import TOOLS
from harnessd.home.lint_descriptions import about_description, unclear_parameters
from harnessd.home.literal_secrets import literal_secrets
from harnessd.home.problem import Problem
from harnessd.home.subagents import BUILT_IN_TOOLS, tool_name
from harnessd.home.tools_file import SERVER_SPELLINGS, Check, ResultRule, Script, StdioServer

Unreadable = Callable[[str], str | None]
"""Why a rule can't be read; None if it can. Rules are understood a floor above."""


def lint_tools(files: Files, definition: Definition, unreadable: Unreadable) -> tuple[Problem, ...]:
    """The findings in tools.json; none if it is invalid, which is reported by whoever read it."""
    if TOOLS not in files.blobs:
        return ()
    try:
        parsed = read_json(files.load(TOOLS).decode("utf-8-sig"), TOOLS)
    except (OSError, KeyError, UnicodeDecodeError):
        return ()
    if isinstance(parsed, Problem) or not isinstance(parsed.value, dict):
        return ()
    lint = _Lint(files, definition, parsed, unreadable)
    return (
        *lint.rules(),
        *lint.servers(),
        *lint.scripts(),
        *lint.checks(),
        *lint.results(),
        *lint.keys(),
        *lint.secrets(),
    )


@dataclass(frozen=True)
class _Lint:
    files: Files
    definition: Definition
    parsed: JsonText
    unreadable: Unreadable

    def rules(self) -> Iterator[Problem]:
        for kind in ("allow", "ask", "deny"):
            for at, rule in enumerate(getattr(self.definition.tools, kind)):
                why = self.unreadable(rule)
                if why is not None:
                    message = f"the rule {rule!r} can't be read: {why}"
                    yield self._at((kind, at), "rule-unreadable", message, "write it like execute(git status:*)")
                else:
                    yield from self._unknown(_name_of(rule), (kind, at), f"the rule {rule!r}")

    def servers(self) -> Iterator[Problem]:
        for name, server in self.definition.tools.mcp_servers.items():
            if isinstance(server, StdioServer) and len(words := server.command.split()) > 1 and "/" not in words[0]:
                message = f"the server {name}: its command is one program, and there is hardly one of that name"
                fix = f'write "command": {json.dumps(words[0])}, and the rest into "args"'
                yield self._at((*self._server_place(name), "command"), "server-command", message, fix)

    def scripts(self) -> Iterator[Problem]:
        for at, script in enumerate(self.definition.tools.scripts):
            place = ("scripts", at)
            line, _ = self.parsed.place((*place, "description"))
            if not script.description.strip():
                message = f"the script {script.name} has no description; the model can't know when to use it"
                yield self._at(place, "no-description", message, "add: what it does, when to use it and when not")
            yield from about_description(script.description, "tool", TOOLS, line)
            for name in unclear_parameters(script.input_schema):
                steps = [step for part in name.split(".") for step in ("properties", part)]
                message = f"{script.name}: the parameter {name} has neither a format nor an example"
                fix = 'add a description with an example ("a day, e.g. 2026-03-01"), an enum or a format'
                yield self._at((*place, "inputSchema", *steps), "parameter-unclear", message, fix, "notice")
            for path in self._missing(script.command):
                message = f"{script.name}: there is no file {path}, which its command names"
                yield self._at((*place, "command"), "script-missing", message, "commands start in work/; mend the path")

    def checks(self) -> Iterator[Problem]:
        for at, check in enumerate(self.definition.tools.checks):
            if check.after is None:
                continue
            why = self.unreadable(check.after)
            if why is not None:
                message = f"{check.after!r} can't be read: {why}"
                yield self._at(("checks", at, "after"), "rule-unreadable", message, "write it like write(**/*.py)")
            else:
                yield from self._unknown(_name_of(check.after), ("checks", at, "after"), "the check")

    def results(self) -> Iterator[Problem]:
        for name in self.definition.tools.results:
            yield from self._unknown(name, ("results", name), "what is said of its result")

    def keys(self) -> Iterator[Problem]:
        """Keys that nothing reads; those of servers and of the file itself are told by whoever read them."""
        for outer, kind in (("scripts", Script), ("checks", Check), ("results", ResultRule)):
            names = _keys_of(kind)
            held = self.parsed.value.get(outer)
            inside = held.items() if isinstance(held, dict) else enumerate(held if isinstance(held, list) else ())
            for step, one in inside:
                for key in set(one) - names if isinstance(one, dict) else ():
                    near = difflib.get_close_matches(key, names, n=1, cutoff=0.75)
                    fix = f"did you mean {near[0]!r}?" if near else "remove it if nothing else reads it"
                    message = f"{key!r} is not known in {outer}; it is kept and has no effect"
                    yield self._at((outer, step, key), "unknown-key", message, fix, "warning" if near else "notice")

    def _server_place(self, name: str) -> tuple[str | int, ...]:
        """Where in the file that server stands, however the servers are written down."""
        outer = next((key for key in SERVER_SPELLINGS if key in self.parsed.value), None)
        holder = self.parsed.value[outer] if outer else self.parsed.value
        step: str | int = name
        if isinstance(holder, list):
            step = next((at for at, one in enumerate(holder) if isinstance(one, dict) and one.get("name") == name), 0)
        return (*((outer,) if outer else ()), step)

    def secrets(self) -> Iterator[Problem]:
        for name, server in self.definition.tools.mcp_servers.items():
            for found in literal_secrets(server):
                place = ".".join(map(str, found.place))
                message = f"the server {name}: {place} stands here as it is; {found.why}"
                fix = "keep it in the secret store, write ${NAME} here, and change the secret"
                yield self._at((*self._server_place(name), *found.place), "secret-literal", message, fix)

    def _unknown(self, written: str, place: tuple[str | int, ...], what: str) -> Iterator[Problem]:
        """A name that no tool has or can have. With a server declared, any name may be one of its tools'."""
        tools = self.definition.tools
        name = tool_name(written)
        known = (*BUILT_IN_TOOLS, *(script.name for script in tools.scripts))
        if not name or "*" in written or "." in written or name in known:
            return
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if name.startswith("mcp__"):
            if (
                any(name.startswith(f"mcp__{server}__") for server in tools.mcp_servers)
                or "-" in name.rpartition("__")[2]
            ):
                return
            near = []
        elif tools.mcp_servers and not near:
            return
        hint = (
            f"did you mean {near[0]}?" if near else "name a built-in tool, a script or a tool of a server; or remove it"
        )
        yield self._at(place, "unknown-tool", f"{what} is about {written}, and there is no such tool", hint)

    def _missing(self, command: str) -> Iterator[str]:
        """The files of the home outside work/ that a command names and that are not there."""
        try:
            words = shlex.split(command)
        except ValueError:
            return
        for word in words:
            if word.startswith(("/", "~", "-")) or "$" in word or "*" in word or not word.startswith("../"):
                continue
            path = os.path.normpath(os.path.join("work", word))  # noqa: PTH118 - text, nothing is looked up
            folder = any(known.startswith(f"{path}/") for known in self.files.blobs)
            if path.split("/")[0] not in {"..", ".", "work"} and path not in self.files.blobs and not folder:
                yield path

    def _at(
        self, place: tuple[str | int, ...], code: str, message: str, fix: str, severity: str = "warning"
    ) -> Problem:
        line, column = self.parsed.place(place)
        found = {"path": TOOLS, "line": line, "column": column, "code": code, "severity": severity}
        return Problem.model_validate({**found, "message": message, "fix": fix})


def _name_of(rule: str) -> str:
    return rule.partition("(")[0].strip()


def _keys_of(kind: type[Record]) -> set[str]:
    return {spelling for name, field in kind.model_fields.items() for spelling in (name, field.alias or name)}
