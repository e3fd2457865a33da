"""How far a file of the home is open to the agent: `free`, `auto`, `ask` or `locked`."""

from typing import Literal

from harnessd.facts.base import Record
from harnessd.facts.message import Origin
from harnessd.home.layout import AGENTS, KNOWLEDGE, MEMORY, TOOLS

Tier = Literal["free", "auto", "ask", "locked"]


class Tiers(Record):
    """What the operator's settings may move: the tier of each kind of definition file."""

    memory: Tier = "auto"
    users: Tier = "auto"
    skills: Tier = "auto"
    agents: Tier = "ask"
    knowledge: Tier = "ask"
    tools: Tier = "ask"
    subagents: Tier = "ask"
    graphs: Tier = "ask"
    evals: Tier = "ask"


def tier_of(path: str, user_id: str | None, *, tiers: Tiers | None = None, origin: Origin = "agent") -> Tier:
    """The tier of `path` (from the home) in a session of `user_id`, for a change of that origin.

    Whatever is not known is locked: so are hidden names at any depth, another user's folder, and a path that
    is not in its plainest form (`..`, `//`, another case). A remote origin turns `auto` into `ask`.
    """
    tier = _tier(path, user_id, tiers or Tiers())
    return "ask" if tier == "auto" and origin == "remote" else tier


def _tier(path: str, user_id: str | None, tiers: Tiers) -> Tier:
    steps = path.split("/")
    if any(step in {"", ".", ".."} or step.startswith(".") or "\0" in step for step in steps):
        return "free" if steps[0] == "work" and not {"", ".", ".."} & set(steps) else "locked"
    if len(steps) == 1:
        single: dict[str, Tier] = {
            AGENTS: tiers.agents,
            MEMORY: tiers.memory,
            KNOWLEDGE: tiers.knowledge,
            TOOLS: tiers.tools,
        }
        return single.get(path, "locked")
    if steps[0] == "work":
        return "free"
    if steps[0] == "users":
        return tiers.users if user_id is not None and steps[1:] == [user_id, MEMORY] else "locked"
    folders: dict[str, Tier] = {
        "skills": tiers.skills,
        "subagents": tiers.subagents,
        "graphs": tiers.graphs,
        "evals": tiers.evals,
    }
    return folders.get(steps[0], "locked")
