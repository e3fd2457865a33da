"""Where do the homes that ship as templates lie, and which are there?"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import harnessd
from harnessd.errors import HarnessdError, UsageError
from harnessd.ids import NAME

DEFAULT = "default"


def templates_folder() -> Path:
    """The folder of templates: inside the installed package, or beside it in a checkout."""
    package = Path(harnessd.__file__).parent
    for folder in (package / "workspaces", package.parent / "workspaces"):
        if (folder / DEFAULT / "AGENTS.md").is_file():
            return folder
    raise HarnessdError("the templates are missing", where=str(package / "workspaces"), hint="install harnessd again")


def template_names() -> list[str]:
    """The names that `--template` takes."""
    return sorted(entry.name for entry in templates_folder().iterdir() if (entry / "AGENTS.md").is_file())


def find_template(name: str) -> Path:
    """The folder of a template, which is one that ships or a path. Raises `UsageError` that lists those that ship."""
    if NAME.fullmatch(name) and (templates_folder() / name / "AGENTS.md").is_file():
        return templates_folder() / name
    folder = Path(name).expanduser()
    if "/" in name and folder.is_dir():
        return folder
    known = ", ".join(template_names())
    raise UsageError(f"there is no template {name!r}", hint=f"there are: {known}; or give a folder, with a '/' in it")


@contextmanager
def with_model(template: Path, model: str | None) -> Iterator[Path]:
    """A copy of the template whose agent has this model; the template itself if `model` is None."""
    if model is None:
        yield template
        return
    with TemporaryDirectory(prefix="harnessd-") as scratch:
        copy = Path(scratch) / template.name
        shutil.copytree(template, copy, ignore=shutil.ignore_patterns(".git", "agents", "work"))
        agents = copy / "AGENTS.md"
        agents.write_text(set_model(agents.read_text(encoding="utf-8"), model), encoding="utf-8")
        yield copy


def set_model(text: str, model: str) -> str:
    """AGENTS.md with `model` in its header, which is added if there is none."""
    if "\n" in model or "\r" in model:
        raise UsageError("a model's name is one line", where="--model")
    line = f'model: "{model}"' if re.search(r"""[^\w./:@-]|^\W""", model) else f"model: {model}"
    header = re.match(r"---[ \t]*\n(.*?)^---[ \t]*$", text, re.DOTALL | re.MULTILINE)
    if header is None:
        return f"---\n{line}\n---\n\n{text}"
    body, count = re.subn(r"^model:.*$", lambda _: line, header[1], count=1, flags=re.MULTILINE)
    return text[: header.start(1)] + (body if count else body + line + "\n") + text[header.end(1) :]
