"""Where the things lie that the house's own tests look at."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "harnessd"
WORKSPACES = ROOT / "workspaces"


def modules() -> list[Path]:
    """Every Python file of the package, by path."""
    return sorted(PACKAGE.rglob("*.py"))


def documents() -> list[Path]:
    """Every markdown file that people read: the top level, docs/ and the shipped homes."""
    folders = (ROOT / "docs", WORKSPACES)
    return sorted([*ROOT.glob("*.md"), *(file for folder in folders for file in folder.rglob("*.md"))])


def templates() -> list[Path]:
    """The homes that ship, by name."""
    return sorted(folder for folder in WORKSPACES.iterdir() if (folder / "AGENTS.md").is_file())


def fenced_after(mark: str, text: str) -> list[str]:
    """The bodies of the fenced blocks in `text` that directly follow the line `<!-- mark -->`."""
    pattern = rf"^<!-- {re.escape(mark)} -->\n```\w*\n(.*?)^```$"
    return re.findall(pattern, text, flags=re.MULTILINE | re.DOTALL)
