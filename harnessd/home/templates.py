"""Where do the homes that ship as templates lie, and which are there?"""

from pathlib import Path

import harnessd
from harnessd.errors import HarnessdError, UsageError
from harnessd.ids import NAME

DEFAULT = "default"


def find_template(name: str) -> Path:
    """The folder of the template of that name. Raises `UsageError` that lists those that ship."""
    if NAME.fullmatch(name) and (templates_folder() / name / "AGENTS.md").is_file():
        return templates_folder() / name
    raise UsageError(f"there is no template {name!r}", hint=f"there are: {', '.join(template_names())}")


def template_names() -> list[str]:
    """The names of those that ship."""
    return sorted(entry.name for entry in templates_folder().iterdir() if (entry / "AGENTS.md").is_file())


def templates_folder() -> Path:
    """The folder of templates: inside the installed package, or beside it in a checkout."""
    package = Path(harnessd.__file__).parent
    for folder in (package / "workspaces", package.parent / "workspaces"):
        if (folder / DEFAULT / "AGENTS.md").is_file():
            return folder
    raise HarnessdError("the templates are missing", where=str(package / "workspaces"), hint="install harnessd again")
