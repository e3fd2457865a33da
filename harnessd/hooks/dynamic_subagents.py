"""before_run, before_model: subagents/ and the built-in roles → the `delegate` tool, where the agent may delegate."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from harnessd.home.as_subagent import may_delegate
from harnessd.home.roles import helpers, roles_of
from harnessd.home.subagents import Subagent
from harnessd.hooks.context import RunContext
from harnessd.tools.delegate import DELEGATE, delegate_tool
from harnessd.tools.tool import Outcome, StillOpen, ToolContext

Wake = Callable[[RunContext, ToolContext, Subagent, str], Awaitable[Outcome | StillOpen]]
"""Has a subagent do a task for a run; see `daemon.delegation`."""


@dataclass(frozen=True)
class DynamicSubagents:
    """Offers the tool that delegates. The home's own subagents stand in the prompt, the roles in the tool."""

    wake: Wake

    async def take_up(self, context: RunContext) -> None:
        """Offers the tool, made anew if the home changed."""
        definition = context.home_now
        if context.helpers_from is definition:
            return
        context.helpers_from = definition
        everybody = helpers(definition)
        if not everybody or DELEGATE not in context.permitted or not may_delegate(definition):
            context.offer("subagents", ())
            return
        tool = delegate_tool(everybody, roles_of(definition), partial(self.wake, context))
        context.offer("subagents", (tool,))
