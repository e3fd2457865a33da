"""What is the home to one of its subagents? Who it is, what it may, and what it is told.

A subagent sees a part of what the main agent sees: its own file in place of AGENTS.md, KNOWLEDGE.md, the skills
that it may use. The memories are not told to it: what matters of them belongs into the task.
"""

from collections.abc import Sequence
from dataclasses import replace

from harnessd.home.definition import Definition
from harnessd.home.document import Document
from harnessd.home.names import callable_name
from harnessd.home.prompt import render_subagent_prompt
from harnessd.home.settings import AgentSettings, MemorySettings
from harnessd.home.skills import Skill
from harnessd.home.subagents import Subagent, names_tool

DEEPEST = 3
"""How far below the main agent a subagent may stand."""


def as_subagent(definition: Definition, line: Sequence[Subagent]) -> Definition:
    """The main agent's `definition` as the last of `line` sees it; `line` are the subagents from the main one's
    delegate down. No power of it is wider than that of those above, in `Definition.above`.
    """
    own, settings, skills = line[-1], definition.settings, definition.skills
    above: tuple[AgentSettings, ...] = ()
    for subagent in line:
        above = (*above, settings)
        settings = _within(settings, subagent.settings)
        skills = _listed(skills, subagent.settings)
    seen = replace(
        definition,
        agents=Document(path=own.path, body=own.prompt),
        settings=settings,
        above=above,
        skills=skills,
        memory="",
        user_memory=None,
        prompt="",
    )
    return replace(seen, prompt=render_subagent_prompt(seen, delegates=may_delegate(seen)))


def may_delegate(definition: Definition) -> bool:
    """Whether this agent may give tasks on: the main one may, a subagent whose `tools` name `delegate`, to a depth."""
    depth = len(definition.above)
    named = any(names_tool(entry, "delegate") for entry in definition.settings.tools or () if "*" not in entry)
    return depth == 0 or (named and depth < DEEPEST)


def _within(above: AgentSettings, own: AgentSettings) -> AgentSettings:
    """A subagent's settings: what it does not say is as above it, and what it says does not reach further.

    Mode, tools and budget stay as written; they are held against each of those above when they are used.
    """
    inherits_network = "network" not in own.model_fields_set
    full = above.network == "full" and (inherits_network or own.network == "full")
    return own.model_copy(
        update={
            "fallback_models": own.fallback_models or (() if own.model else above.fallback_models),
            "small_model": own.small_model or above.small_model,
            "workdirs": tuple(folder for folder in own.workdirs or above.workdirs if folder in above.workdirs),
            "network": "full" if full else "none",
            "schedule": (),
            "memory": MemorySettings(),
            "powers_withheld": own.powers_withheld or above.powers_withheld,
        }
    )


def _listed(skills: Sequence[Skill], settings: AgentSettings) -> tuple[Skill, ...]:
    """The skills that the subagent's `skills` name; all of them if it has no such line."""
    if settings.skills is None:
        return tuple(skills)
    wanted = {callable_name(name) for name in settings.skills}
    return tuple(skill for skill in skills if skill.name in wanted)
