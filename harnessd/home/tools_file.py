"""What does tools.json declare: servers, scripts, rules, checks?

All of it grants or limits power, so the file is read as a whole or not at all. Values such as `${TOKEN}` stay
as written; they are filled in by `home.expand` when a server is connected.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject
from harnessd.facts.misfit import misfit
from harnessd.home.decode import decode
from harnessd.home.json_text import JsonText, read_json
from harnessd.home.problem import Problem

SIZE_LIMIT = 1024 * 1024
"""Bytes of tools.json that are read."""

Text = Annotated[str, Field(min_length=1)]
# A tool's name or pattern, optionally with what its call must look like: `execute(git status:*)`.
_RULE = r"^[^\s()]+(?:\(.*\))?$"
Rule = Annotated[str, Field(pattern=_RULE, max_length=2000)]


class _Server(Record):
    """What every server has. `timeout` in seconds; `tools` None: all that it offers."""

    enabled: bool = True
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tools: tuple[Text, ...] | None = None
    trust: Literal["local", "remote"] = "remote"


class StdioServer(_Server):
    """An MCP server that is started as a process."""

    type: Literal["stdio"] = "stdio"
    command: Text
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)
    cwd: str | None = None


class RemoteServer(_Server):
    """An MCP server that is reached at a URL, over streamable HTTP or the older SSE."""

    type: Literal["http", "sse"] = "http"
    url: Text
    headers: Mapping[str, str] = Field(default_factory=dict)


McpServer = Annotated[StdioServer | RemoteServer, Field(discriminator="type")]


class Script(Record):
    """A tool of the agent's own: `command` runs in the sandbox with the arguments as JSON on stdin."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
    description: str = ""
    command: Text
    input_schema: JsonObject = Field(default_factory=lambda: {"type": "object"})
    read_only: bool = False
    idempotent: bool = False
    concurrency_safe: bool = False
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class ResultRule(Record):
    """What the model needs of a tool's result: `select` is a JMESPath expression, `max_chars` characters."""

    select: str | None = None
    importance: Literal["key", "auxiliary"] = "key"
    max_chars: int | None = Field(default=None, gt=0)


class Check(Record):
    """A command that runs after matching calls, or before the agent may finish; `timeout` in seconds."""

    after: Rule | None = None
    before: Literal["finish"] | None = None
    command: Text
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_moment(self) -> "Check":
        if (self.after is None) == (self.before is None):
            raise ValueError('say either "after": "<rule>" or "before": "finish"')
        return self


class ToolsFile(Record):
    """tools.json in its one internal form. `offer_only_allowed`: servers came as a list, so `allow` also says
    which MCP tools are offered. Keys that are not known are kept."""

    mcp_servers: Mapping[str, McpServer] = Field(default_factory=dict)
    scripts: tuple[Script, ...] = ()
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    results: Mapping[str, ResultRule] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    offer_only_allowed: bool = False


def read_tools(raw: bytes, path: str = "tools.json") -> tuple[ToolsFile | None, tuple[Problem, ...]]:
    """The tools file in `raw`, or None if it is no JSON or breaks its schema. Never raises.

    An empty file declares nothing.
    """
    if len(raw) > SIZE_LIMIT:
        return None, (_problem(path, 1, 1, "too-large", f"the file is larger than {SIZE_LIMIT:,} bytes"),)
    decoded = decode(raw, path)
    problems = list(decoded.problems)
    if not decoded.intact:
        problems.append(_problem(path, 1, 1, "json-invalid", "the file is damaged: it is no text in UTF-8"))
        return None, tuple(problems)
    if not decoded.text.strip():
        return ToolsFile(), tuple(problems)
    parsed = read_json(decoded.text, path)
    if isinstance(parsed, Problem):
        return None, (*problems, parsed)
    problems += parsed.problems
    normal = _Normal(parsed, path)
    values = normal.tools_file()
    problems += normal.problems
    if any(problem.severity == "error" for problem in problems):
        return None, tuple(problems)
    try:
        return ToolsFile.model_validate(values), tuple(problems)
    except ValidationError as error:
        return None, (*problems, *normal.schema_problems(error))


KEYS = ("mcpServers", "scripts", "allow", "ask", "deny", "results", "checks")
SERVER_SPELLINGS = ("mcpServers", "mcp_servers", "servers", "mcp-servers")
_SERVER_KEYS = {
    "type", "command", "args", "env", "cwd", "url", "headers", "enabled", "timeout", "tools", "trust", "name",
    "description",
}  # fmt: skip
_TYPES = {
    "stdio": "stdio", "local": "stdio", "command": "stdio",
    "http": "http", "streamable-http": "http", "streamablehttp": "http", "streamable_http": "http",
    "remote": "http", "sse": "sse",
}  # fmt: skip


class _Normal:
    """Brings the many spellings of tools.json to one; remembers where each server stood in the file."""

    def __init__(self, parsed: JsonText, path: str) -> None:
        self._parsed = parsed
        self._path = path
        self._places: dict[str, tuple[str | int, ...]] = {}
        self._outer = "mcpServers"
        self.problems: list[Problem] = []

    def tools_file(self) -> dict[str, Any]:
        source = self._parsed.value
        if not isinstance(source, dict):
            self._error((), "json-schema", "tools.json must be an object: { … }")
            return {}
        values = dict(source)
        servers = self._take_servers(values)
        values["mcpServers"] = self._servers(servers)
        values["offerOnlyAllowed"] = isinstance(servers, list)
        for key in set(source) - set(KEYS) - {self._outer}:
            if key not in self._places:
                self._unknown(key)
        return values

    def _take_servers(self, values: dict[str, Any]) -> Any:
        spellings = [key for key in SERVER_SPELLINGS if key in values]
        if len(spellings) > 1:
            self._error((spellings[1],), "json-schema", f"{spellings[0]} and {spellings[1]} say the same")
        if spellings:
            self._outer = spellings[0]
            return values.pop(spellings[0])
        self._outer = ""
        bare = {
            key: value
            for key, value in values.items()
            if key not in KEYS and isinstance(value, dict) and ("command" in value or "url" in value)
        }
        for key in bare:
            del values[key]
        return bare

    def _servers(self, servers: Any) -> dict[str, Any]:
        outer: tuple[str, ...] = (self._outer,) if self._outer else ()
        if isinstance(servers, list):
            named = {}
            for index, server in enumerate(servers):
                name = server.get("name") if isinstance(server, dict) else None
                if not isinstance(name, str) or not name:
                    self._error((*outer, index), "json-schema", "a server in a list needs a name")
                    continue
                if name in named:
                    self._error((*outer, index), "json-schema", f"the name {name!r} is given twice")
                    continue
                self._places[name] = (*outer, index)
                named[name] = {key: value for key, value in server.items() if key != "name"}
        elif isinstance(servers, dict):
            named = servers
            self._places |= {name: (*outer, name) for name in servers}
        else:
            self._error(outer, "json-schema", "mcpServers must be an object or a list of servers")
            return {}
        return {name: self._server(name, server) for name, server in named.items()}

    def _server(self, name: str, server: Any) -> Any:
        place = self._places[name]
        if not isinstance(server, dict):
            self._error(place, "json-schema", f"the server {name!r} must be an object with command or url")
            return server
        values = dict(server)
        for key in set(values) - _SERVER_KEYS - {"disabled", "autoApprove", "alwaysAllow"}:
            self._notice((*place, key), f"{key!r} is not known for a server; it is kept and has no effect")
        if isinstance(values.get("disabled"), bool):
            values["enabled"] = not values.pop("disabled")
        if isinstance(command := values.get("command"), list) and command:
            values["command"], values["args"] = command[0], [*command[1:], *_list(values.get("args"))]
        for key in ("env", "headers"):
            if isinstance(inner := values.get(key), dict):
                values[key] = {name: _as_text(value) for name, value in inner.items()}
        if isinstance(values.get("args"), list):
            values["args"] = [_as_text(value) for value in values["args"]]
        values["type"] = self._type(place, values)
        return values

    def _type(self, place: tuple[str | int, ...], values: dict[str, Any]) -> str:
        given = values.get("type", values.pop("transport", None))
        if given is None:
            if "command" in values and "url" in values:
                self._error(place, "json-schema", "a server has a command or a url, not both")
            return "http" if "url" in values else "stdio"
        kind = _TYPES.get(given.lower()) if isinstance(given, str) else None
        if kind is None:
            self._error((*place, "type"), "json-schema", f"the type {given!r} is not stdio, http or sse")
        return kind or "stdio"

    def schema_problems(self, error: ValidationError) -> list[Problem]:
        """One problem for each value that breaks the schema, where it stands in the file."""
        return [
            self._at(
                self._source_place(item["loc"]),
                "json-schema",
                "error",
                f"{'.'.join(map(str, _plain(item['loc'])))}: {_message(item['msg'])}",
                "mend the value; until then the last valid version stays in force",
            )
            for item in error.errors()
        ]

    def _source_place(self, loc: tuple[int | str, ...]) -> tuple[str | int, ...]:
        steps = _plain(loc)
        if len(steps) > 1 and steps[0] == "mcpServers":
            return (*self._places.get(str(steps[1]), ()), *steps[2:])
        return steps

    def _unknown(self, key: str) -> None:
        near = difflib.get_close_matches(key.lower(), ("allow", "ask", "deny"), n=1, cutoff=0.75)
        if near:  # a rule that is not understood must not be passed over
            self._error((key,), "json-misspelt", f"{key!r} is not known; did you mean {near[0]!r}?")
        else:
            self._notice((key,), f"{key!r} is not known here; it is kept and has no effect")

    def _error(self, place: tuple[str | int, ...], code: str, message: str) -> None:
        fix = "mend the value; until then the last valid version stays in force"
        self.problems.append(self._at(place, code, "error", message, fix))

    def _notice(self, place: tuple[str | int, ...], message: str) -> None:
        self.problems.append(self._at(place, "unknown-key", "notice", message, "remove it if nothing else reads it"))

    def _at(
        self,
        place: tuple[str | int, ...],
        code: str,
        severity: Literal["notice", "error"],
        message: str,
        fix: str,
    ) -> Problem:
        line, column = self._parsed.place(place)
        return Problem(
            path=self._path, line=line, column=column, code=code, severity=severity, message=message, fix=fix
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_text(value: Any) -> Any:
    """Numbers and booleans in `env`, `headers` and `args` mean the text they are written as."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _plain(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """A pydantic location without the step that only names the variant of a server."""
    if len(loc) > 2 and loc[0] == "mcpServers":
        return (*loc[:2], *loc[3:])
    return loc


def _message(text: str) -> str:
    if _RULE in text:
        return "a rule is a tool, or a tool and what its call looks like: write, execute(git log:*)"
    return misfit(text)


def _problem(path: str, line: int, column: int, code: str, message: str) -> Problem:
    return Problem(
        path=path, line=line, column=column, code=code, severity="error", message=message, fix="mend the file"
    )
