"""What is an agent, as its home says it at one pin?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from harnessd.home.document import Document
from harnessd.home.names import callable_name
from harnessd.home.problem import Problem
from harnessd.home.settings import AgentSettings
from harnessd.home.skills import Skill
from harnessd.home.subagents import Subagent
from harnessd.home.tools_file import ToolsFile


class Files(Protocol):
    """The definition files at one pin."""

    @property
    def tree(self) -> str:
        """The pin: a git tree id."""
        ...

    @property
    def blobs(self) -> Mapping[str, str]:
        """Paths relative to the home, with `/`, and the blob id of each."""
        ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was odd when the pin was taken, such as a file in whose place an older version is used."""
        ...

    def load(self, path: str) -> bytes:
        """The bytes of the file, of its last valid version if it is invalid. Raises OSError or KeyError."""
        ...


@dataclass(frozen=True, eq=False)
class Definition:
    """An agent as it is in one call. One object for one state of the files: compare it by identity.

    `knowledge`, `memory` and `user_memory` are whole; what of them is shown is said in `prompt`. `subagents`
    are those that may be offered. `tools_valid` false: only read-only built-ins may run. `above` is empty for the
    main agent; for a subagent (see `as_subagent`) it holds the settings of those above it, the main agent's first.
    """

    agents: Document
    settings: AgentSettings = field(default_factory=AgentSettings)
    knowledge: str = ""
    memory: str = ""
    user_id: str | None = None
    user_memory: str | None = None
    skills: tuple[Skill, ...] = ()
    subagents: tuple[Subagent, ...] = ()
    tools: ToolsFile = field(default_factory=ToolsFile)
    tools_valid: bool = True
    graphs: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    prompt: str = ""
    above: tuple[AgentSettings, ...] = ()

    def skill(self, name: str) -> Skill | None:
        """The skill called `name`, in any case and spelling, or else the only one that is shown so."""
        return _named(self.skills, name)

    def subagent(self, name: str) -> Subagent | None:
        """The subagent called `name`, or else the only one that is shown so."""
        return _named(self.subagents, name)


Named = TypeVar("Named", Skill, Subagent)


def _named(entries: tuple[Named, ...], name: str) -> Named | None:
    wanted = callable_name(name.strip())
    for entry in entries:
        if entry.name == wanted:
            return entry
    titled = [entry for entry in entries if callable_name(entry.title) == wanted]
    return titled[0] if len(titled) == 1 else None
