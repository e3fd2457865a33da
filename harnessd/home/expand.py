"""What is a server's declaration once its `${VARIABLES}` are filled in? Asked only when it is connected."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harnessd.home.tools_file import McpServer, RemoteServer, StdioServer

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class MissingVariable:
    """A variable that is neither granted nor set and has no default; the server that needs it is disabled."""

    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} needs ${{{self.name}}}, which is not set or not granted"


def expand(server: McpServer, lookup: Callable[[str], str | None]) -> McpServer | MissingVariable:
    """`server` with `${VAR}` and `${VAR:-default}` filled in by `lookup`; the first that can't be, else.

    The result holds secrets: it goes to the connection and nowhere else. An empty value counts as unset where
    there is a default, as in a shell.
    """
    try:
        if isinstance(server, StdioServer):
            return server.model_copy(
                update={
                    "command": _filled(server.command, "command", lookup),
                    "args": tuple(_filled(value, "args", lookup) for value in server.args),
                    "env": _filled_map(server.env, "env", lookup),
                    "cwd": None if server.cwd is None else _filled(server.cwd, "cwd", lookup),
                }
            )
        return _expand_remote(server, lookup)
    except _MissingError as missing:
        return MissingVariable(missing.name, missing.field)


def variables(server: McpServer) -> tuple[str, ...]:
    """The names of all variables that a server's declaration speaks of, sorted."""
    found = set(_VARIABLE.findall(server.model_dump_json()))
    return tuple(sorted({name for name, _ in found}))


class _MissingError(Exception):
    def __init__(self, name: str, field: str) -> None:
        super().__init__(name)
        self.name = name
        self.field = field


def _expand_remote(server: RemoteServer, lookup: Callable[[str], str | None]) -> RemoteServer:
    return server.model_copy(
        update={
            "url": _filled(server.url, "url", lookup),
            "headers": _filled_map(server.headers, "headers", lookup),
        }
    )


def _filled_map(values: Mapping[str, str], field: str, lookup: Callable[[str], str | None]) -> dict[str, str]:
    return {key: _filled(value, f"{field}.{key}", lookup) for key, value in values.items()}


def _filled(text: str, field: str, lookup: Callable[[str], str | None]) -> str:
    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        found = lookup(name)
        if default is not None and not found:
            return str(default)
        if found is None:
            raise _MissingError(name, field)
        return found

    return _VARIABLE.sub(value, text)
