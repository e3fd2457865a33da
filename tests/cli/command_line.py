"""What the tests of the command line share: one command, in this process or in one of its own."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnessd.cli.main import run

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output as JSON, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def problem(self) -> dict[str, Any]:
        """Standard error's last line as JSON."""
        return dict(json.loads(self.err.splitlines()[-1]))


def harnessd(*args: object, stdin: bytes = b"") -> Said:
    """Runs one command in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run([str(arg) for arg in args])
    finally:
        sys.stdin = before
    assert "Traceback" not in err.getvalue()
    return Said(code, out.getvalue(), err.getvalue())


def start(*args: object, env: dict[str, str] | None = None, **how: Any) -> subprocess.Popen[str]:
    """Starts one command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "harnessd", *map(str, args)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        stdin=how.pop("stdin", subprocess.DEVNULL),
        stdout=how.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def workspaces() -> Path:
    """The folder of homes of this test: HOME is its own, unless it shares one with a daemon."""
    return Path(os.environ.get("HARNESSD_WORKSPACES") or Path(os.environ["HOME"]) / "harnessd" / "workspaces")


def make(name: str = "ada", **files: str | bytes) -> Path:
    """A home made by `init`, then given these files (`__` stands for `/` in a name)."""
    assert harnessd("init", name).code == 0
    home = workspaces() / name
    for key, content in files.items():
        write(home, key, content)
    return home


def write(home: Path, key: str, content: str | bytes) -> Path:
    """Writes a file of the home; `__` in its name stands for `/`, a last `_md`, `_json` for the ending."""
    name = key.replace("__", "/")
    for ending in ("md", "json", "yaml"):
        name = name.removesuffix(f"_{ending}") + (f".{ending}" if name.endswith(f"_{ending}") else "")
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


ASKS = "read AGENTS.md\nthen in AGENTS.md replace Short with Brief"
"""What makes the offline model do something that waits for a person."""


def waiting(home: str = "ada") -> str:
    """Runs into an approval; returns its id."""
    said = harnessd("run", home, ASKS)
    assert said.code == 3, said
    return str(harnessd("sessions", home, "--json").records[0]["waiting"][0])
