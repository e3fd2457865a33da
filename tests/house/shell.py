"""Runs commands as a reader of the README would type them, against the code of this tree."""

import os
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT


def run(script: str, folder: Path, *, code: Path = ROOT) -> str:
    """What the bash script printed, run in `folder`, which is also its HOME, with the package that lies in `code`.

    It must succeed. `harnessd` and `python3` are the tests' own; no key is set.
    """
    outcome = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=_environment(folder, code), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "Traceback" not in outcome.stderr
    return outcome.stdout


def _environment(folder: Path, code: Path) -> dict[str, str]:
    """An environment with those two programs, the offline model and a git identity."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, arguments in {"harnessd": "-P -m harnessd", "python3": "-P"}.items():
        script = f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n'
        (programs / name).write_text(script, encoding="utf-8")
        (programs / name).chmod(0o755)
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(code),
        "HARNESSD_MODEL": "offline",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Reader",
        "GIT_AUTHOR_EMAIL": "reader@example.org",
        "GIT_COMMITTER_NAME": "Reader",
        "GIT_COMMITTER_EMAIL": "reader@example.org",
    }
