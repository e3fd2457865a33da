"""A home in a temporary folder, with git as a user runs it, and simple judges."""

import subprocess
from pathlib import Path

from harnessd.home.change import AppendEntry, Change, Entries
from harnessd.home.door import Author, Cause, Door, Outcome
from harnessd.home.layout import Home
from harnessd.home.problem import Problem

SECRET = "ghp_" + "a1B2" * 9
ADA = Author(kind="agent", name="ada", email="ada@agents")
CAUSE = Cause(agent="main", session="ses_1", run="run_1", call="call_1", pin="f" * 40, model="m", origin="agent")


def git(path: Path, *arguments: str) -> str:
    """Run git as the user would; returns what it prints."""
    command = ["git", "-c", "user.name=Uma", "-c", "user.email=uma@users", *arguments]
    return subprocess.run(command, cwd=path, check=True, capture_output=True, text=True).stdout


def make_home(path: Path, files: dict[str, str | bytes] | None = None) -> Home:
    """A repository on main with one commit of the user's."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    for name, content in (files or {"AGENTS.md": "# Ada\nBe kind.\n", "MEMORY.md": "# Memory\n- likes tea\n"}).items():
        put(path / name, content)
    put(path / ".gitignore", "/agents/\n/work/\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "Begin")
    return Home(path)


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def judge(path: str, raw: bytes, committed: bytes | None) -> Problem | None:
    """Invalid: NUL, not UTF-8, emptied, a tools.json that does not end in a brace, an open header."""
    text = raw.decode("utf-8", "replace")
    broken = (
        b"\0" in raw
        or "\ufffd" in text
        or (not raw and bool(committed))
        or (path == "tools.json" and not text.strip().endswith("}"))
        or (text.startswith("---\n") and text.count("---\n") < 2)
    )
    return Problem(path=path, code="broken", severity="error", message="it is broken") if broken else None


def check(path: str, raw: bytes, committed: bytes | None) -> tuple[Problem, ...]:
    found = judge(path, raw, committed)
    if found is not None:
        return (found,)
    return tuple(
        Problem(path=path, line=number, code="secret", severity="error", message="it holds a secret")
        for number, line in enumerate(raw.decode().splitlines(), 1)
        if "ghp_" in line
    )


def _add(text: str, entry: str, _heading: str | None) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    return text + (end if text and not text.endswith("\n") else "") + f"- {entry}{end}"


def _remove(text: str, match: str) -> str | None:
    lines = text.splitlines(keepends=True)
    found = [line for line in lines if match in line]
    return "".join(line for line in lines if line != found[0]) if len(found) == 1 else None


ENTRIES = Entries(_add, _remove)


def open_door(home: Home, **more: object) -> Door:
    return Door(home, check=check, entries=ENTRIES, **more)  # type: ignore[arg-type]


def remember(door: Door, text: str, path: str = "MEMORY.md", **more: object) -> Outcome:
    return door.commit_now(Change(path, AppendEntry(None, text), None), ADA, CAUSE, "auto", **more)  # type: ignore[arg-type]
