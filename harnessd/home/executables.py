"""What in a home starts a process, opens a door or widens what it may do by itself: the parts that trust is about."""

import hashlib
import os
import shlex
from dataclasses import replace
from typing import Literal, NamedTuple

import orjson

from harnessd.home.definition import Definition
from harnessd.home.expand import variables
from harnessd.home.problem import Problem
from harnessd.home.settings import AgentSettings
from harnessd.home.tools_file import McpServer, StdioServer

_NARROW = {None, "plan", "dontAsk", "default"}


class Declared(NamedTuple):
    """One thing that waits for trust, for a person to look at."""

    kind: Literal["server", "script", "check", "schedule", "allow", "mode", "workdir", "network"]
    name: str
    command: str


def needs_trust(server: McpServer) -> bool:
    """Whether a server stays out until the operator has looked at it.

    It starts a process, is sent values of the operator's (`${VAR}`), or is vouched for by nobody but the home.
    """
    return isinstance(server, StdioServer) or server.trust == "local" or bool(variables(server))


def as_foreign(definition: Definition) -> Definition:
    """The definition of a home that nobody has trusted: what it limits counts, what it grants itself does not."""
    granted = [one for one in declared(definition) if one.kind in {"mode", "workdir", "network"}]
    if not granted:
        return definition
    settings = definition.settings
    mode = settings.mode if settings.mode in _NARROW else None
    narrowed = settings.model_copy(update={"mode": mode, "workdirs": (), "network": "none"})
    told = Problem(
        path="AGENTS.md",
        code="untrusted",
        severity="error",
        message="this home came from elsewhere and is not trusted, so its header does not grant "
        + ", ".join(f"{one.kind} {one.command}" for one in granted),
        fix="look at it, then run: harnessd trust AGENT",
    )
    return replace(definition, settings=narrowed, problems=(*definition.problems, told))


def declared(definition: Definition) -> tuple[Declared, ...]:
    """Everything that waits for trust, in words."""
    tools, settings = definition.tools, definition.settings
    found = [
        Declared("server", name, " ".join((one.command, *one.args)) if isinstance(one, StdioServer) else one.url)
        for name, one in tools.mcp_servers.items()
        if needs_trust(one)
    ]
    found += [Declared("script", script.name, str(script.command)) for script in tools.scripts]
    found += [Declared("check", check.after or f"before {check.before}", str(check.command)) for check in tools.checks]
    found += [Declared("allow", rule, "without asking") for rule in tools.allow]
    found += [Declared("schedule", entry.name, f"{entry.cron}: {entry.prompt}") for entry in settings.schedule]
    found += _grants(settings)
    return tuple(found)


def programs(definition: Definition, home: str) -> tuple[str, ...]:
    """The files and folders that tools.json has run, so that whoever writes there decides what runs: full paths.

    A file that a command names counts with its folder, from which it may load others, unless that is the home
    or `work/` itself. Symlinks are not followed. `home` is the home's real path.
    """
    tools, found = definition.tools, set[str]()
    stdio = [one for one in tools.mcp_servers.values() if isinstance(one, StdioServer)]
    lines = [(one.cwd or "", [one.command, *one.args]) for one in stdio]
    commands = [script.command for script in tools.scripts] + [check.command for check in tools.checks]
    lines += [("work", _split(command)) for command in commands]
    for folder, words in lines:
        for word in words:
            name = word.rpartition("=")[2]
            path = os.path.normpath(os.path.join(home, folder, name))  # noqa: PTH118 - text, nothing is looked up
            if name and path.startswith(f"{home}/") and ("." in name or "/" in name):
                above = os.path.dirname(path)  # noqa: PTH120
                found |= {path} if above in {home, f"{home}/work"} else {path, above}
    return tuple(sorted(found))


def _split(command: str) -> list[str]:
    """The words of a command line, roughly: what is no word of it names no file either."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def executable_hash(definition: Definition) -> str:
    """SHA-256 of all that waits for trust; the order of servers is no matter."""
    tools, settings = definition.tools, definition.settings
    parts = {
        "servers": {name: one.model_dump(mode="json") for name, one in tools.mcp_servers.items() if needs_trust(one)},
        "scripts": [script.model_dump(mode="json") for script in tools.scripts],
        "checks": [check.model_dump(mode="json") for check in tools.checks],
        "allow": list(tools.allow),
        "schedule": [entry.model_dump(mode="json") for entry in settings.schedule],
        "grants": [[one.kind, one.command] for one in _grants(settings)],
    }
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _grants(settings: AgentSettings) -> list[Declared]:
    found = [] if settings.mode in _NARROW else [Declared("mode", "AGENTS.md", str(settings.mode))]
    found += [Declared("workdir", "AGENTS.md", folder) for folder in settings.workdirs]
    return found if settings.network == "none" else [*found, Declared("network", "AGENTS.md", settings.network)]
