"""How does a person make a home?"""

import shlex
from pathlib import Path

import click

from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.templates import DEFAULT, find_template, with_model
from harnessd.daemon.config import load_settings
from harnessd.home.create import Created, create
from harnessd.home.trust import TrustStore
from harnessd.ids import check_name


@click.command("init")
@click.argument("path")
@click.option("--template", default=DEFAULT, show_default=True, help="A template that ships, or a folder.")
@click.option("--model", help="The agent's model; default: auto, which takes what is there.")
@shared
def init(path: str, template: str, model: str | None, out: Output, flags: Flags) -> int:
    """Make a home at PATH, or add what an existing folder lacks. Nothing is ever overwritten.

    A bare name makes it in the workspaces folder, where every command finds it by that name; a PATH with a
    "/" (./ada, /srv/ada) makes it there.

    Templates: default, assistant, coder, researcher.
    """
    settings = load_settings(flags)
    place = place_of(path, settings.workspaces)
    with with_model(find_template(template), model) as source:
        made = create(place, template=source, trust=TrustStore(settings.state_dir))
    notes = list(made.notes)
    if model is not None and "AGENTS.md" not in made.added:
        notes.append("AGENTS.md was there and stays as it is; write the model into its header yourself")
    if out.as_json:
        home = str(made.home.path)
        out.record({"home": home, "added": list(made.added), "commit": made.commit, "notes": notes})
    else:
        _tell(made, notes, path, out)
    return 0


def place_of(path: str, workspaces: Path) -> Path:
    """Where `init PATH` makes the home: a bare name under `workspaces`, anything else where it says."""
    if "/" in path or path in {".", ".."} or path.startswith("~"):
        return Path(path).expanduser()
    return workspaces / check_name(path, "home")


def _tell(made: Created, notes: list[str], path: str, out: Output) -> None:
    style = out.style
    place = made.home.path
    if made.added:
        out.line(f"{style.bold(made.home.name)} lives in {style.place(str(place))}")
        for name in made.added:
            out.line(f"  {style.good('+')} {name}")
    else:
        out.line(f"{style.bold(made.home.name)} lacks nothing; {style.place(str(place))} is as it was")
    if made.commit:
        out.line(style.dim(f"  commit {made.commit[:10]}"))
    for note in notes:
        out.line(f"  {style.odd('note')} {note}")
    out.line()
    out.line("Next:")
    out.line(f'  harnessd run {shlex.quote(path)} "Who are you?"')
    out.line(f"  edit {place / 'AGENTS.md'}; the next call obeys it")
