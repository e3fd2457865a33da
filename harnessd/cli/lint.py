"""What should a person mend in a home?"""

import anyio
import click

from harnessd.cli.exits import COMPLETED, FAILED
from harnessd.cli.harmless import harmless
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.home.problem import Problem


@click.command("lint")
@click.argument("agent")
@shared
def lint(agent: str, out: Output, flags: Flags) -> int:
    """Find what should be mended in the home of AGENT: file, line, what is wrong, and how to mend it.

    Exit code 5 if any finding is an error: then a file did not load, or an older version stands in for it.
    """
    return anyio.run(_lint, load_settings(flags), agent, out)


async def _lint(settings: Settings, agent: str, out: Output) -> int:
    async with Runtime.open(settings) as runtime:
        problems = await anyio.to_thread.run_sync(runtime.lint, runtime.home(agent))
    for problem in problems:
        if out.as_json:
            out.record(problem)
        else:
            out.line(_told(problem, out))
    errors = sum(problem.severity == "error" for problem in problems)
    if not out.as_json:
        counted = f"{len(problems)} finding{'s' if len(problems) != 1 else ''}, {errors} of them errors"
        out.note(counted if problems else out.side.good("nothing to mend"))
    return FAILED if errors else COMPLETED


def _told(problem: Problem, out: Output) -> str:
    style = out.style
    paint = {"error": style.bad, "warning": style.odd}.get(problem.severity, style.dim)
    place = f"{problem.path}:{problem.line}" if problem.line else problem.path
    fix = f"\n  {harmless(problem.fix)}" if problem.fix else ""
    code = style.dim(f"({problem.code})")
    return f"{style.place(harmless(place))}: {paint(problem.severity)}: {harmless(problem.message)} {code}{fix}"
