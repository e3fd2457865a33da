"""How does the operator let a home that came from elsewhere start its processes?"""

import anyio
import click

from harnessd.cli.harmless import harmless
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.home.executables import Declared, declared, executable_hash
from harnessd.home.layout import Home


@click.command("trust")
@click.argument("agent")
@click.option("--show", "only_show", is_flag=True, help="Only list what it would start; trust nothing.")
@shared
def trust(agent: str, only_show: bool, out: Output, flags: Flags) -> int:
    """Let the home of AGENT use what it declares now: servers, scripts, checks, schedules, and what it grants itself.

    A later change of these that did not come through an approval has to be trusted anew.
    """
    return anyio.run(_trust, load_settings(flags), agent, only_show, out)


async def _trust(settings: Settings, agent: str, only_show: bool, out: Output) -> int:
    async with Runtime.open(settings) as runtime:
        home = runtime.home(agent)
        starts, trusted = await anyio.to_thread.run_sync(_look, runtime, home, only_show)
    if out.as_json:
        told = [{"kind": kind, "name": name, "command": command} for kind, name, command in starts]
        out.record({"home": str(home.path), "trusted": trusted, "starts": told})
        return 0
    for kind, name, command in starts:
        out.line(f"  {kind.ljust(8)} {out.style.bold(harmless(name))}  {harmless(command)}")
    if not starts:
        out.line("  it declares nothing that needs trust")
    said = out.style.good("trusted") if trusted else out.style.odd("not trusted")
    out.line(f"{home.name} is {said}: {home.path}")
    return 0


def _look(runtime: Runtime, home: Home, only_show: bool) -> tuple[tuple[Declared, ...], bool]:
    resident = runtime.resident(home)
    _, definition = resident.read()
    if not only_show:
        resident.trust.trust(home, executable_hash(definition))
    return declared(definition), resident.trusted(definition)
