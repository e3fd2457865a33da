"""Which options do all commands share?"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from harnessd.cli.output import Output

Flags = dict[str, object]


def shared(function: Callable[..., int]) -> Callable[..., int]:
    """Adds `--json`, `--workspaces` and `--state-dir`.

    The function is called with `out`, where it prints, and `flags`, the settings given as flags.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line where there are many.")
    @click.option("--workspaces", type=click.Path(path_type=Path), help="The folder of homes.")
    @click.option("--state-dir", type=click.Path(path_type=Path), help="The folder of harnessd's own state.")
    @functools.wraps(function)
    def command(*, as_json: bool, workspaces: Path | None, state_dir: Path | None, **rest: Any) -> int:
        return function(out=Output(as_json), flags={"workspaces": workspaces, "state_dir": state_dir}, **rest)

    return command


def conversation(function: Callable[..., int]) -> Callable[..., int]:
    """Adds `--session`, `--model`, `--mode` and `--user`, as `run` and `chat` take them."""
    modes = ["plan", "default", "acceptEdits", "auto", "dontAsk", "bypassPermissions"]
    for option in (
        click.option("--user", "user_id", metavar="ID", help="Who speaks; their own MEMORY.md is read and written."),
        click.option("--mode", type=click.Choice(modes), help="How strict; it can narrow what the home says."),
        click.option("--model", help="The model, e.g. anthropic/claude-sonnet-4-5, ollama/qwen3 or offline."),
        click.option("--session", metavar="ID", help='A session to go on with; "last" is the latest. Else a new one.'),
    ):
        function = option(function)
    return function
