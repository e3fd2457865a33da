"""Which tools are on offer, in which order, and which one does the model mean."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harnessd.models.request import ToolSpec
from harnessd.tools.find_tools import find_tools_tool
from harnessd.tools.near import near_names
from harnessd.tools.tool import Tool

OFFERED_AT_MOST = 15
_ORDER = {"builtin": 0, "script": 1, "mcp": 2}


@dataclass(frozen=True)
class UnknownTool:
    """No tool of that name can be called; `near` are names that look like it."""

    name: str
    near: tuple[str, ...]

    @property
    def message(self) -> str:
        """What the model is told."""
        hint = f" Did you mean {' or '.join(self.near)}?" if self.near else ""
        return f"There is no tool named {self.name[:80]!r}; nothing was run.{hint}"


class Toolbox:
    """The tools of one moment: built-ins in the order given, then scripts and MCP tools by name.

    Of two tools with one name the first in that order stands and the other is in `shadowed`. `hidden` says which
    tools are denied whole: those are neither offered nor found.
    """

    def __init__(self, tools: Iterable[Tool], *, hidden: Callable[[Tool], bool] = lambda _: False) -> None:
        listed = [tool for tool in tools if not hidden(tool)]
        ordered = [tool for tool in listed if tool.kind == "builtin"]
        ordered += sorted((t for t in listed if t.kind != "builtin"), key=lambda tool: (_ORDER[tool.kind], tool.name))
        self._tools: dict[str, Tool] = {}
        self.shadowed: tuple[Tool, ...] = ()
        for tool in ordered:
            if tool.name in self._tools:
                self.shadowed = (*self.shadowed, tool)
                continue
            self._tools[tool.name] = tool
        self._offered = tuple(self._tools)[:OFFERED_AT_MOST]
        if len(self._tools) > OFFERED_AT_MOST:
            rest = tuple(self._tools.values())[OFFERED_AT_MOST:]
            self._tools["find_tools"] = find_tools_tool(rest)
            self._offered = (*self._offered, "find_tools")
        self._specs: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {}

    def find(self, name: str) -> Tool | UnknownTool:
        """The tool the model named, exactly; else `UnknownTool` with names that come near."""
        tool = self._tools.get(name)
        if tool is not None:
            return tool
        return UnknownTool(name, near_names(name, tuple(self._tools)))

    def specs(self, found: Sequence[str] = ()) -> tuple[ToolSpec, ...]:
        """What the model is offered: the first fifteen, `find_tools` if there are more, then those `found`, in order.

        The same object is given back as long as nothing changed.
        """
        key = tuple(found)
        specs = self._specs.get(key)
        if specs is None:
            wanted = dict.fromkeys([*self._offered, *(name for name in key if name in self._tools)])
            specs = self._specs[key] = tuple(_spec(self._tools[name]) for name in wanted)
        return specs

    @cached_property
    def offered_as(self) -> Mapping[str, tuple[str, ...]]:
        """The names under which tools are offered, by the name that each has where it comes from."""
        names: dict[str, tuple[str, ...]] = {}
        for tool in self._tools.values():
            names[tool.own_name] = (*names.get(tool.own_name, ()), tool.name)
        return names

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool that can be called, in order."""
        return tuple(self._tools.values())


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(name=tool.name, description=tool.description, input_schema=tool.input_schema)
