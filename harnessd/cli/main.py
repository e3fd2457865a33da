"""Which commands are there, and what does a person get when one cannot be done?

A command's module is imported only when the command is used, so that `--help` and a short command pay for
nothing else. This is the outermost door: whatever broke ends here as a message and an exit code.
"""

import difflib
import gc
import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from harnessd import __version__
from harnessd.cli.exits import FAILED, STOPPED, USAGE
from harnessd.cli.harmless import harmless
from harnessd.errors import HarnessdError

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("harnessd.cli.init", "Make a home, or add what an existing folder lacks."),
    "serve": ("harnessd.cli.serve", "Run every home in the workspaces as a daemon."),
    "run": ("harnessd.cli.run", "Say something to an agent and print its answer."),
    "chat": ("harnessd.cli.chat", "Talk with an agent; approvals are decided in place."),
    "approve": ("harnessd.cli.approvals", "Allow a call that waits, and let its run go on."),
    "deny": ("harnessd.cli.approvals", "Refuse a call that waits, and let its run go on."),
    "stop": ("harnessd.cli.stop", "End what runs, waits or is parked in a session."),
    "ps": ("harnessd.cli.ps", "List what runs, waits for you or is parked, across agents."),
    "sessions": ("harnessd.cli.sessions", "List an agent's sessions."),
    "show": ("harnessd.cli.sessions", "Show what was said and done in a session or a run."),
    "log": ("harnessd.cli.history", "Tell how an agent changed: who learned what, when and why."),
    "why": ("harnessd.cli.history", "Tell which version of which file a run used."),
    "permissions": ("harnessd.cli.permissions", "Tell what an agent may do, or explain one call layer by layer."),
    "lint": ("harnessd.cli.lint", "Find what should be mended in a home."),
    "fsck": ("harnessd.cli.fsck", "Check every journal, checkpoint and artifact of a home."),
    "trust": ("harnessd.cli.trust", "Let a home that came from elsewhere start its processes."),
    "schema": ("harnessd.cli.schema", "Print the JSON Schemas of events, state, view and controls."),
    "doctor": ("harnessd.cli.doctor", "Say what is missing on this machine and how to fix it."),
    "conformance": ("harnessd.cli.conformance.command", "Kill a daemon at many points; see if it keeps its promises."),
    "demo": ("harnessd.cli.demo", "See it all in ten seconds, with no key and no network."),
}
"""Name → (the module that holds it as an attribute of that name, what `--help` says of it)."""

LOOKS_FOR_GARBAGE = (10_000, 5, 3)
"""After how many new objects Python looks: records are freed without it, so 700 find next to nothing. At what is older
it looks sooner than by default, else what sessions leave behind would pile up."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point: runs one command line and exits with its code."""
    sys.exit(run(list(sys.argv[1:] if args is None else args)))


def run(args: list[str]) -> int:
    """Runs one command line; what it could not do is told on standard error. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
    try:
        code = commands.main(args, prog_name="harnessd", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the outermost door; what is not for it is raised again
        return _end(_first_cause(error), as_json)
    return code if isinstance(code, int) else 0


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # hundreds of classes are made now, none is garbage, and looking costs a sixth of the start
        try:
            found = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        finally:
            gc.freeze()
            gc.set_threshold(*LOOKS_FOR_GARBAGE)
            gc.enable()
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a name that is none names the nearest that is one."""
        near = difflib.get_close_matches(args[0], COMMANDS, n=1) if args[0] not in COMMANDS else []
        if near and not args[0].startswith("-"):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in `--help`, without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="harnessd")
def commands() -> None:
    """Agents that live in directories under git.

    AGENT is the name of a home in the workspaces folder, or a path to a home (it holds a "/").
    Every command takes --json. New here? Try: harnessd demo

    Exit codes: 0 completed, 2 wrong usage, 3 waiting for an approval, 4 ended by a budget or limit,
    5 failed, 130 stopped.
    """


def _first_cause(error: BaseException) -> BaseException:
    """What broke first, when tasks that ran side by side broke together."""
    while isinstance(error, BaseExceptionGroup):
        known = [one for one in error.exceptions if isinstance(one, HarnessdError)]
        error = (known or error.exceptions)[0]
    return error


def _end(error: BaseException, as_json: bool) -> int:
    match error:
        case SystemExit():
            raise error
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            return STOPPED
        case BrokenPipeError():
            # Nobody reads any more: give the interpreter something to flush into, and end quietly.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        case click.ClickException() if not as_json:
            error.show()
            return USAGE
        case click.ClickException():
            _problem("Usage", error.format_message(), None, None, USAGE)
            return USAGE
        case HarnessdError():
            if as_json:
                _problem(type(error).__name__, error.message, error.where, error.hint, error.exit_code)
            else:
                _say(str(error))
            return error.exit_code
    return _fault(error, as_json)


def _fault(error: BaseException, as_json: bool) -> int:
    """A disk or a system that refuses, or a fault of our own; the traceback is for who asks for it."""
    if os.environ.get("HARNESSD_LOG") == "debug":
        raise error
    if isinstance(error, OSError):
        title, message, hint = "SystemRefused", error.strerror or str(error), "nothing that was confirmed is lost"
        where = str(error.filename) if error.filename else None
    else:
        title, message, where = "Fault", f"{type(error).__name__}: {error}", None
        hint = "this is a fault of harnessd; HARNESSD_LOG=debug shows where"
    if as_json:
        _problem(title, message, where, hint, FAILED)
    else:
        _say(str(HarnessdError(message, where=where, hint=hint)))
    return FAILED


def _say(text: str) -> None:
    click.echo(f"harnessd: {harmless(text)}", err=True)


def _problem(title: str, detail: str, where: str | None, hint: str | None, code: int) -> None:
    """One line of JSON with the members of RFC 9457, and the exit code in place of an HTTP status."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", title).lower()
    told = {"type": f"urn:harnessd:problem:{name}", "title": title, "detail": detail, "where": where, "hint": hint}
    given = {key: value for key, value in told.items() if value is not None}
    click.echo(json.dumps({**given, "exitCode": code}, ensure_ascii=False), err=True)
