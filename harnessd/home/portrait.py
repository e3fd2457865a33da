"""What would one say of an agent at a glance?"""

from typing import Literal

from harnessd.facts.base import Record
from harnessd.facts.run import Mode
from harnessd.home.definition import Definition
from harnessd.home.problem import Problem
from harnessd.home.settings import Budget, ScheduleEntry
from harnessd.home.tools_file import StdioServer


class PortraitEntry(Record):
    """A skill, subagent or script: what it is called and what it is for."""

    name: str = ""
    title: str = ""
    description: str = ""
    path: str = ""


class PortraitServer(Record):
    """An MCP server as declared; `target` is its command or URL with its `${VARIABLES}` as written.

    `status` is how it is in this process, "" as long as no run has wanted it; `failure` says why it failed, `held` are
    its tools that wait until the operator has looked at them.
    """

    name: str = ""
    type: Literal["stdio", "http", "sse"] = "stdio"
    target: str = ""
    enabled: bool = True
    trust: Literal["local", "remote"] = "remote"
    status: Literal["", "connected", "failed"] = ""
    failure: str = ""
    held: tuple[str, ...] = ()


class Portrait(Record):
    """The agent as its home describes it at `pin`; `dirty`: files differ from the commit `head`."""

    agent: str = ""
    title: str = ""
    description: str = ""
    model: str | None = None
    mode: Mode | None = None
    budget: Budget = Budget()
    network: Literal["none", "full"] = "none"
    workdirs: tuple[str, ...] = ()
    powers_withheld: bool = False
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    servers: tuple[PortraitServer, ...] = ()
    scripts: tuple[PortraitEntry, ...] = ()
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    skills: tuple[PortraitEntry, ...] = ()
    subagents: tuple[PortraitEntry, ...] = ()
    graphs: tuple[str, ...] = ()
    schedule: tuple[ScheduleEntry, ...] = ()
    problems: tuple[Problem, ...] = ()
    prompt_characters: int = 0
    pin: str = ""
    head: str | None = None
    dirty: bool = False
    last_good: tuple[str, ...] = ()


def portrait(
    agent: str,
    definition: Definition,
    *,
    pin: str,
    head: str | None = None,
    dirty: bool = False,
    last_good: tuple[str, ...] = (),
) -> Portrait:
    """The portrait of the agent called `agent` from its definition and its pin."""
    settings, tools = definition.settings, definition.tools
    return Portrait(
        agent=agent,
        title=settings.name or agent,
        description=settings.description,
        model=settings.model,
        mode=settings.mode,
        budget=settings.budget,
        network=settings.network,
        workdirs=settings.workdirs,
        powers_withheld=settings.powers_withheld,
        tools=settings.tools,
        disallowed_tools=settings.disallowed_tools,
        servers=_servers(definition),
        scripts=tuple(
            PortraitEntry(name=script.name, title=script.name, description=script.description, path="tools.json")
            for script in tools.scripts
        ),
        allow=tools.allow,
        ask=tools.ask,
        deny=tools.deny,
        skills=tuple(
            PortraitEntry(name=skill.name, title=skill.title, description=skill.description, path=skill.path)
            for skill in definition.skills
        ),
        subagents=tuple(
            PortraitEntry(name=helper.name, title=helper.title, description=helper.description, path=helper.path)
            for helper in definition.subagents
        ),
        graphs=definition.graphs,
        schedule=settings.schedule,
        problems=definition.problems,
        prompt_characters=len(definition.prompt),
        pin=pin,
        head=head,
        dirty=dirty,
        last_good=last_good,
    )


def _servers(definition: Definition) -> tuple[PortraitServer, ...]:
    return tuple(
        PortraitServer(
            name=name,
            type=server.type,
            target=" ".join((server.command, *server.args)) if isinstance(server, StdioServer) else server.url,
            enabled=server.enabled,
            trust=server.trust,
        )
        for name, server in definition.tools.mcp_servers.items()
    )
