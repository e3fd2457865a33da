"""What is a subagent, and which tools may it use?"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from harnessd.facts.base import Record
from harnessd.home.document import read_document
from harnessd.home.names import callable_name
from harnessd.home.problem import Problem
from harnessd.home.settings import AgentSettings, read_settings
from harnessd.home.skills import described, shown_title

BUILT_IN_TOOLS = (
    "read", "write", "edit", "execute", "connect", "delegate", "skill", "find_tools", "todo", "conclude",
    "remember", "forget", "artifact", "run_graph",
)  # fmt: skip

# Names that other products give to what we have; None is a tool that has no counterpart here.
_FOREIGN_TOOLS = {
    "ls": "read", "glob": "read", "grep": "read", "search": "read", "view": "read", "notebookread": "read",
    "multiedit": "edit", "notebookedit": "edit", "str_replace": "edit", "create": "write",
    "bash": "execute", "shell": "execute", "terminal": "execute", "runcommand": "execute",
    "bashoutput": "execute", "killshell": "execute", "powershell": "execute",
    "task": "delegate", "agent": "delegate", "todowrite": "todo", "todoread": "todo", "todos": "todo",
    "toolsearch": "find_tools",
}  # fmt: skip


class Subagent(Record):
    """A declared helper: called by `name`, shown as `title`; `prompt` is who it is."""

    name: str = ""
    title: str = ""
    description: str = ""
    prompt: str = ""
    path: str = ""
    settings: AgentSettings = AgentSettings()


def is_subagent_path(path: str) -> bool:
    """Whether `path` declares a subagent: `subagents/<name>.md`."""
    folder, _, name = path.partition("/")
    return folder == "subagents" and "/" not in name and name.lower().endswith(".md") and name.lower() != "readme.md"


def read_subagent(raw: bytes, path: str) -> tuple[Subagent | None, tuple[Problem, ...]]:
    """The subagent in `raw`; None if the file says nothing. Never raises."""
    document = read_document(raw, path)
    if not document.body.strip() and not document.header:
        return None, (
            *document.problems,
            Problem(
                path=path,
                code="empty",
                severity="warning",
                message="the subagent is empty; it is not offered",
                fix="write a description and a prompt, or delete the file",
            ),
        )
    stem = path.rpartition("/")[2][: -len(".md")]
    title, odd_name = shown_title(document, stem)
    description, odd_description = described(document, what="subagent")
    settings, odd_settings = read_settings(document)
    subagent = Subagent(
        name=callable_name(stem),
        title=title,
        description=description,
        prompt=document.body.strip("\n"),
        path=path,
        settings=settings,
    )
    return subagent, (*document.problems, *odd_name, *odd_description, *odd_settings)


def resolve_tools(settings: AgentSettings, parent_tools: Sequence[str]) -> tuple[str, ...] | Problem:
    """The parent's tools that an agent with `settings` may use, in the parent's order.

    No `tools`, or `*`: all of them. `disallowed_tools` are taken away first. An allow list of which nothing
    is known to the parent is a problem that names its entries, never "all" and never silently "none". A rule
    such as `execute(git log:*)` yields the tool; that only such calls are allowed is for the gate to hold.
    """
    denied = [entry for entry in settings.disallowed_tools if "(" not in entry]
    offered = [tool for tool in parent_tools if not any(names_tool(entry, tool) for entry in denied)]
    if settings.tools is None or "*" in settings.tools:
        return tuple(offered)
    chosen = tuple(tool for tool in offered if any(names_tool(entry, tool) for entry in settings.tools))
    if settings.tools and not any(names_tool(entry, tool) for entry in settings.tools for tool in parent_tools):
        return no_such_tools(settings.tools)
    return chosen


def unknown_tools(settings: AgentSettings, parent_tools: Iterable[str]) -> tuple[str, ...]:
    """The entries of the allow list that name no tool of the parent."""
    known = tuple(parent_tools)
    return tuple(
        entry for entry in settings.tools or () if entry != "*" and not any(names_tool(entry, tool) for tool in known)
    )


def no_such_tools(entries: Iterable[str], path: str = "", line: int = 0) -> Problem:
    """The problem of an allow list that resolves to nothing."""
    return Problem(
        path=path,
        line=line,
        code="no-tools",
        severity="error",
        message="no tool of this home is called " + " or ".join(entries) + ", so nothing is allowed",
        fix="name tools that exist, or write tools: * for all of the parent's",
    )


def tool_name(entry: str) -> str:
    """Our name of the tool in an entry of a tool list: `Bash(git log:*)` → `execute`; unknown names stay."""
    base = entry.partition("(")[0]
    lower = base.lower()
    if lower in BUILT_IN_TOOLS:
        return lower
    return _FOREIGN_TOOLS.get(lower, base)


def names_tool(entry: str, tool: str) -> bool:
    """Whether an entry of a tool list names `tool`: by our name or another product's, by its server or a pattern."""
    name = tool_name(entry)
    if name == tool:
        return True
    if "*" in name:
        return fnmatchcase(tool, re.sub(r"([\[?])", r"[\1]", name))
    if name.startswith("mcp__"):
        return tool.startswith(name + "__")
    return tool.startswith("mcp__") and tool.partition("__")[2].partition("__")[2] == name
