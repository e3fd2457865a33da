"""Which template does `--template` mean, and how does its agent get another model?"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from harnessd.errors import UsageError
from harnessd.home import templates
from harnessd.home.templates import DEFAULT, template_names, templates_folder

__all__ = ["DEFAULT", "find_template", "set_model", "template_names", "templates_folder", "with_model"]


def find_template(name: str) -> Path:
    """The folder of a template, which is one that ships or a path. Raises `UsageError` that lists those that ship."""
    folder = Path(name).expanduser()
    if "/" in name and folder.is_dir():
        return folder
    try:
        return templates.find_template(name)
    except UsageError as error:
        raise UsageError(error.message, hint=f"{error.hint}; or give a folder, with a '/' in it") from None


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
