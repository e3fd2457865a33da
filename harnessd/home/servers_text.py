"""How a server is put into the text of tools.json or taken out of it, leaving the rest as its writer wrote it."""

import codecs
import json
import re
from collections.abc import Mapping

from harnessd.facts.message import JsonObject
from harnessd.home.json_text import JsonText, inserted, read_json
from harnessd.home.layout import TOOLS
from harnessd.home.problem import Problem
from harnessd.home.rules_text import NoPlace
from harnessd.home.tools_file import KEYS, SERVER_SPELLINGS, McpServer, ToolsFile, read_tools

_LINE = 100
"""Characters up to which a server stands in one line."""


def with_server(raw: bytes, name: str, server: JsonObject) -> bytes | NoPlace:
    """`raw` with the declaration `server` under `name`, which must be new there. Comments and layout stay."""
    opened = _opened(raw)
    if isinstance(opened, NoPlace):
        return opened
    text, parsed, before = opened
    if name in before.mcp_servers:
        return NoPlace(f"there is a server named {name} already")
    outer, servers = _servers(parsed)
    if not parsed.value:
        return _checked(
            raw, json.dumps({"mcpServers": {name: server}}, indent=2, ensure_ascii=False) + "\n", before, name
        )
    if isinstance(servers, list):
        item: JsonObject = {"name": name, **server}
        written = _written(text, parsed, outer, servers, "", item)
    elif outer or _is_bare(servers):
        written = _written(text, parsed, outer, servers, f"{_quoted(name)}: ", server)
    else:
        written = _written(text, parsed, (), servers, '"mcpServers": ', {name: server})
    return _checked(raw, written, before, name)


def without_server(raw: bytes, name: str) -> bytes | NoPlace:
    """`raw` without the server called `name`. Comments and layout stay."""
    opened = _opened(raw)
    if isinstance(opened, NoPlace):
        return opened
    text, parsed, before = opened
    if name not in before.mcp_servers:
        return NoPlace(f"there is no server named {name}")
    outer, servers = _servers(parsed)
    members = parsed.members(outer)
    if isinstance(servers, list):
        keys = [one.get("name") if isinstance(one, dict) else None for one in servers]
    else:
        keys = list(servers)
    at = keys.index(name)
    start, end = members[at]
    if at + 1 < len(members):
        after = re.match(r"[ \t\r\n]*,", parsed.text[end:])
        end += after.end() if after else 0
        end += len(text[end:]) - len(text[end:].lstrip())  # a comment that follows stays
    else:
        start = members[at - 1][1] if at else start
        trailing = re.match(r"\s*,", text[end:])  # one that JSON does not allow, and editors write
        end += trailing.end() if trailing else 0
    return _checked(raw, text[:start] + text[end:], before, name)


def _opened(raw: bytes) -> tuple[str, JsonText, ToolsFile] | NoPlace:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return NoPlace("it is no text in UTF-8")
    text = text if text.strip() else "{}\n"
    parsed = read_json(text, TOOLS)
    if isinstance(parsed, Problem):
        return NoPlace(str(parsed))
    tools, problems = read_tools(raw)
    if tools is None:
        wrong = next((str(problem) for problem in problems if problem.severity == "error"), "it is invalid")
        return NoPlace(wrong)
    return text, parsed, tools


def _servers(parsed: JsonText) -> tuple[tuple[str, ...], Mapping[str, object] | list[object]]:
    """Where the servers stand: the steps to what holds them, none for a bare map; and that."""
    outer = next((key for key in SERVER_SPELLINGS if key in parsed.value), None)
    if outer is None:
        return (), parsed.value
    return (outer,), parsed.value[outer]


def _is_bare(values: Mapping[str, object]) -> bool:
    return any(
        key not in KEYS and isinstance(one, dict) and ("command" in one or "url" in one) for key, one in values.items()
    )


def _written(
    text: str,
    parsed: JsonText,
    outer: tuple[str, ...],
    holder: Mapping[str, object] | list[object],
    key: str,
    value: JsonObject,
) -> str:
    at = parsed.offset(outer) + 1
    indent = re.match(r"\s*?\n([ \t]*)", text[at:])
    item = key + json.dumps(value, ensure_ascii=False)
    if indent and holder and len(item) > _LINE:
        step = indent[1] or "  "
        item = key + json.dumps(value, ensure_ascii=False, indent=step if "\t" in step else 2).replace(
            "\n", f"\n{step}"
        )
    return inserted(text, at, item, first_of=holder)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _checked(raw: bytes, text: str, before: ToolsFile, name: str) -> bytes | NoPlace:
    """The new bytes, if they mean what was there before and differ in that one server."""
    new = (codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b"") + text.encode()
    after, problems = read_tools(new)
    if after is None:
        wrong = next((str(problem) for problem in problems if problem.severity == "error"), "")
        return NoPlace(f"it would not be valid any more: {wrong}")
    if _rest(before, name) != _rest(after, name) or (name in before.mcp_servers) == (name in after.mcp_servers):
        return NoPlace("the change would touch more than this server; edit the file by hand")
    return new


def _rest(tools: ToolsFile, name: str) -> tuple[dict[str, McpServer], ToolsFile]:
    others = {key: server for key, server in tools.mcp_servers.items() if key != name}
    return others, tools.model_copy(update={"mcp_servers": {}})
