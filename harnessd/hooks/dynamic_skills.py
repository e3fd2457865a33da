"""before_run, before_model: skills/ → the `skill` tool, offered while there is a skill to open.

The index of skills stands in the prompt (`home.prompt`); bodies are read when the model asks for one.
"""

from dataclasses import dataclass

from harnessd.hooks.context import RunContext
from harnessd.tools.tool import Tool


@dataclass(frozen=True)
class DynamicSkills:
    """Offers the tool that opens a skill."""

    skill: Tool

    async def take_up(self, context: RunContext) -> None:
        """Offers the tool if there are skills and the agent may use it."""
        wanted = bool(context.home_now.skills) and self.skill.name in context.permitted
        context.offer("skills", (self.skill,) if wanted else ())
