"""Calls and contexts that the tests of the gate share."""

from typing import Any

from harnessd.permissions.call import Access, GateCall, Target, Tier, Within


def target(
    path: str = "work/x.txt", access: Access = "write", within: Within = "work", tier: Tier | None = None
) -> Target:
    """A target in the home `/h`; a path that begins with `/` lies outside it."""
    if path.startswith("/"):
        return Target(path=path, access=access, within=within, tier=tier)
    return Target(path=f"/h/{path}", access=access, within=within, home_path=path, tier=tier)


def builtin(tool: str, /, *targets: Target, effect: str = "write", origin: str = "user", **arguments: Any) -> GateCall:
    """A call of a built-in tool."""
    return GateCall.model_validate(
        {
            "tool": tool,
            "own_name": tool,
            "kind": "builtin",
            "effect": effect,
            "targets": targets,
            "origin_of_context": origin,
            "arguments": arguments,
        }
    )


def mcp(server: str, name: str, /, effect: str = "write", remote: bool = True, **arguments: Any) -> GateCall:
    """A call of an MCP tool."""
    return GateCall.model_validate(
        {
            "tool": f"mcp__{server}__{name}",
            "own_name": name,
            "server": server,
            "kind": "mcp",
            "effect": effect,
            "remote": remote,
            "origin_of_context": "user",
            "arguments": arguments,
        }
    )


def script(name: str, /, effect: str = "write", **arguments: Any) -> GateCall:
    """A call of a script tool of the home."""
    return GateCall.model_validate(
        {
            "tool": name,
            "own_name": name,
            "kind": "script",
            "effect": effect,
            "origin_of_context": "user",
            "arguments": arguments,
        }
    )


READER = builtin("read", target(access="read"), effect="read")
AUTO_EDIT = builtin("edit", target("skills/tea/SKILL.md", within="home", tier="auto"))
ROOT_EDIT = builtin("write", target())
WRITER = mcp("github", "create_issue")
ASK_TIER = builtin("write", target("AGENTS.md", within="home", tier="ask"))
LOCKED = builtin("write", target(".gitignore", within="home", tier="locked"))
ROW_CALLS = {
    "reader": (READER, builtin("todo", effect="read"), mcp("github", "search", effect="read")),
    "auto_edit": (
        AUTO_EDIT,
        builtin("remember", target("MEMORY.md", within="home", tier="auto"), text="tea"),
        builtin("forget", target("MEMORY.md", within="home", tier="auto"), text="tea"),
    ),
    "root_edit": (
        ROOT_EDIT,
        builtin("edit", target("/srv/app/x.py", within="workdir")),
        builtin("write", target(), target("skills/a/SKILL.md", within="home", tier="auto")),
    ),
    "writer": (WRITER, script("deploy")),
    "ask_tier": (ASK_TIER, builtin("connect", target("tools.json", within="home", tier="ask"))),
}
