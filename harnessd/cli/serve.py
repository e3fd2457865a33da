"""How is the daemon started, and what does it say of itself?"""

from typing import TYPE_CHECKING

import anyio
import click

from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.daemon.config import load_settings

if TYPE_CHECKING:
    from harnessd.api.serve import Serving, Stopping

FEW = 5
"""How many things that cannot be read are told one by one."""


@click.command("serve")
@click.option("--host", help="The address to listen on; 127.0.0.1 if nothing else is set.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port to listen on; 0 is any that is free.")
@shared
def serve(host: str | None, port: int | None, out: Output, flags: Flags) -> int:
    """Run every home in the workspaces as a daemon, until Ctrl-C or SIGTERM.

    It takes up what a former process left, listens on a port and on a socket in the state directory, and lets the
    other commands work through it. When it is asked to end, turns may finish within the grace time; a second
    Ctrl-C ends it at once. What was not finished goes on at the next start.
    """
    settings = load_settings({**flags, "host": host, "port": port})
    from harnessd.api.serve import serve as live  # the whole machine: not before the settings are right

    async def until_told() -> int:
        return await live(
            settings, told=lambda serving: _tell(serving, out), stopping=lambda asked: _tell_stopping(asked, out)
        )

    code = anyio.run(until_told)
    if out.as_json:
        out.record({"type": "stopped"})
    else:
        out.note("stopped")
    return code


def _tell(serving: "Serving", out: Output) -> None:
    found, where = serving.recovered, serving.addresses
    host = f"[{where.host}]" if ":" in where.host else where.host
    url = f"http://{host}:{where.port}"
    if out.as_json:
        told = {
            "type": "ready",
            "url": url,
            "socket": None if where.socket is None else str(where.socket),
            "noSocket": where.no_socket or None,
            "homes": found.homes,
            "resumed": found.resumed,
            "parked": found.parked,
            "waiting": found.waiting,
            "unreadable": [{"where": one.where, "reason": one.reason} for one in found.unreadable],
            "safeMode": serving.safe_mode,
        }
        out.record({key: value for key, value in told.items() if value is not None})
        return
    style = out.style
    also = "" if where.socket is None else "  " + style.dim(str(where.socket))
    out.line(f"{style.good('ready')}  {style.place(url)}  {_count(found.homes, 'home')}{also}")
    if where.socket is None:
        out.line(style.odd(f"there is no unix socket, only the port: {where.no_socket}"))
    if serving.safe_mode is not None:
        out.line(style.odd(f"safe mode, no run goes on by itself: {serving.safe_mode}"))
    if found.resumed:
        out.line(f"{_count(len(found.resumed), 'session')} went on with what a former process left")
    if found.parked or found.waiting:
        parked, waiting = len(found.parked), _count(len(found.waiting), "session")
        out.line(style.odd(f"{parked} parked, {waiting} waiting for you; harnessd ps lists them"))
    for one in found.unreadable[:FEW]:
        out.line(style.bad(f"cannot be read: {one.where}: {one.reason}"))
    if len(found.unreadable) > FEW:
        out.line(style.bad(f"… and {len(found.unreadable) - FEW} more"))


def _tell_stopping(asked: "Stopping", out: Output) -> None:
    if out.as_json:
        out.record({"type": "stopping", "signal": asked.signal, "running": asked.running, "seconds": asked.seconds})
    elif asked.running:
        runs = _count(asked.running, "session")
        out.note(f"\nstopping: {runs} may end the turn within {asked.seconds:.0f} s; Ctrl-C again leaves at once")
    else:
        out.note("\nstopping")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
