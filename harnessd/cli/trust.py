"""How does the operator let a home that came from elsewhere start its processes?"""

from dataclasses import dataclass

import anyio
import click

from harnessd.cli.harmless import harmless
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.home.executables import Declared, declared, executable_hash
from harnessd.home.layout import Home
from harnessd.tools.accepted import Difference, accepted_tools


@click.command("trust")
@click.argument("agent")
@click.option("--show", "only_show", is_flag=True, help="Only list what it would start; trust nothing.")
@shared
def trust(agent: str, only_show: bool, out: Output, flags: Flags) -> int:
    """Let the home of AGENT use what it declares now: servers, scripts, checks, schedules, and what it grants itself.

    A later change of these that did not come through an approval has to be trusted anew. So has a tool of an MCP
    server that says something else of itself than before: what changed is shown, and accepted with the rest.
    """
    return anyio.run(_trust, load_settings(flags), agent, only_show, out)


async def _trust(settings: Settings, agent: str, only_show: bool, out: Output) -> int:
    async with Runtime.open(settings) as runtime:
        home = runtime.home(agent)
        looked = await anyio.to_thread.run_sync(_look, runtime, home, only_show)
    if out.as_json:
        told = [{"kind": kind, "name": name, "command": command} for kind, name, command in looked.starts]
        changed = [
            {"server": one.server, "tool": one.tool, "kind": one.kind, "diff": one.diff} for one in looked.differences
        ]
        out.record({"home": str(home.path), "trusted": looked.trusted, "starts": told, "tools": changed})
        return 0
    for kind, name, command in looked.starts:
        out.line(f"  {kind.ljust(8)} {out.style.bold(harmless(name))}  {harmless(command)}")
    if not looked.starts:
        out.line("  it declares nothing that needs trust")
    for one in looked.differences:
        out.line(f"  {one.kind.ljust(8)} {out.style.bold(harmless(f'{one.server}: {one.tool}'))}")
        for line in one.diff.splitlines():
            out.line(f"    {harmless(line)}")
    said = out.style.good("trusted") if looked.trusted else out.style.odd("not trusted")
    out.line(f"{home.name} is {said}: {home.path}")
    if looked.differences:
        waits = "waiting; accepted when this is run without --show" if only_show else "accepted"
        many = len(looked.differences)
        out.line(f"{many} tool{'' if many == 1 else 's'} of its servers: {waits}")
    return 0


@dataclass(frozen=True)
class _Looked:
    starts: tuple[Declared, ...]
    differences: tuple[Difference, ...]
    trusted: bool


def _look(runtime: Runtime, home: Home, only_show: bool) -> _Looked:
    resident = runtime.resident(home)
    _, definition = resident.read()
    accepted = accepted_tools(runtime.settings.state_dir, home)
    differences = accepted.differences()
    if not only_show:
        resident.trust.trust(home, executable_hash(definition))
        if differences:
            accepted.accept(differences)
    return _Looked(declared(definition), differences, resident.trusted(definition))
