"""What stands for a server's tool while nobody has connected to the server? A writer, of which the name is known."""

from collections.abc import Mapping

from harnessd.facts.message import JsonObject
from harnessd.home.mcp_names import mcp_tool_name
from harnessd.home.tools_file import McpServer
from harnessd.tools.tool import Kind, Outcome, Tool, ToolContext, failed


def unconnected_tool(name: str, servers: Mapping[str, McpServer]) -> Tool | None:
    """The tool that `name` (`mcp__<server>__<tool>`) would be; None if no server that is enabled could offer it.

    Whether a server has such a tool, what its schema is and whether it only reads is for the server to say. A name that
    had to be shortened or changed leads to no server.
    """
    for server, declared in servers.items():
        own_name = name.removeprefix(f"mcp__{server}__")
        if not declared.enabled or own_name in {name, ""} or mcp_tool_name(server, own_name) != name:
            continue
        if declared.tools is not None and own_name not in declared.tools:
            continue
        return _unrunnable(name, own_name, "mcp", server=server, remote=declared.trust != "local")
    return None


def absent_tool(name: str, kind: Kind = "builtin") -> Tool:
    """What stands for a tool that this agent is not offered."""
    return _unrunnable(name, name, kind)


def _unrunnable(name: str, own_name: str, kind: Kind, *, server: str | None = None, remote: bool = False) -> Tool:
    return Tool(
        name=name,
        own_name=own_name,
        kind=kind,
        description="",
        input_schema={"type": "object"},
        run=_not_run,
        origin="remote" if remote else "local",
        server=server,
    )


async def _not_run(context: ToolContext, arguments: JsonObject) -> Outcome:
    return failed("not_connected", "There is nothing here that could run it.")
