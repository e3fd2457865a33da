"""What does the gate decide about: one tool call, and the paths that it would touch."""

from typing import Literal

from pydantic import Field

from harnessd.facts.base import Record
from harnessd.facts.message import JsonObject, Origin

Access = Literal["read", "write", "delete"]
Within = Literal["home", "work", "workdir", "outside", "hidden"]
Tier = Literal["auto", "ask", "locked"]
Effect = Literal["read", "write"]
ToolKind = Literal["builtin", "script", "mcp"]

EDITORS = frozenset({"write", "edit", "remember", "forget"})
"""The built-in tools that change files, and whose targets are therefore all that they change."""


class Target(Record):
    """One path that a call would touch, after every symlink.

    `path` is absolute; `home_path` the same relative to the home, None outside it; `tier` is None where tiers do not
    apply. `shared` marks a file that has another name (a hard link). `note` says why a path could not be resolved;
    such a target is `outside`.
    """

    path: str
    access: Access
    within: Within
    home_path: str | None = None
    tier: Tier | None = None
    shared: bool = False
    note: str = ""


class GateCall(Record):
    """One tool call before anything has happened.

    `tool_call_id` is empty for a call that nobody makes, as when a decision is explained. `tool` is the name offered to
    the model, `own_name` the name on its server (equal for built-ins and scripts).
    `origin_of_context` is the lowest origin in what the model has seen; `remote` says that the arguments leave this
    machine's trust (an MCP server not marked local).
    """

    tool_call_id: str = ""
    tool: str
    own_name: str
    kind: ToolKind
    arguments: JsonObject = Field(default_factory=dict)
    effect: Effect = "write"
    targets: tuple[Target, ...] = ()
    origin_of_context: Origin = "remote"
    remote: bool = False
    server: str | None = None


def changed_targets(call: GateCall) -> tuple[Target, ...]:
    """The targets that the call would change or delete."""
    return tuple(target for target in call.targets if target.access != "read")


def effective_tier(target: Target, origin: Origin) -> Tier | None:
    """The target's tier for this context: remote content turns `auto` into `ask`."""
    return "ask" if target.tier == "auto" and origin == "remote" else target.tier
