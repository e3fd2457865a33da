"""Does a start pay only for what it uses?"""

import json
import subprocess
import sys

from tests.house.tree import PACKAGE, modules

HEAVY = {
    "litellm": "several seconds and 190 MB",
    "mcp": "over a second and 65 MB",
    "apscheduler": "only the daemon schedules",
    "watchdog": "only the daemon watches",
    "git": "GitPython; the path of a call uses pygit2",
    "aiohttp": "only a run that calls a model needs it",
    "jsonschema": "only a run that calls a tool needs it",
    "regex": "only a call whose schema holds an expression needs it",
    "tree_sitter": "only a command line needs it",
    "markdown_it": "only a change of memory needs it",
}
OWNERS: dict[str, set[str]] = {
    "harnessd.models.litellm_worker": {"litellm"},
    "harnessd.models.scripted": {"aiohttp"},
}
"""Programs in their own right: they are started, never imported by the rest."""

SERVES_HTTP = "harnessd.api."
"""Loaded by a process that serves, and by no other; it may have aiohttp at its top. Looked at last."""

PROBE = """
import importlib, json, sys
heavy, found = set(sys.argv[1].split(",")), {}
for name in sys.argv[2:]:
    before = heavy & sys.modules.keys()
    importlib.import_module(name)
    if loaded := sorted(heavy & sys.modules.keys() - before):
        found[name] = loaded
print(json.dumps(found))
"""

HELP = """
import sys
heavy = set(sys.argv[1].split(","))
sys.argv = ["harnessd", "--help"]
from harnessd.cli.main import main
try:
    main()
finally:
    print("loaded:", sorted(heavy & sys.modules.keys()))
"""


def module_names() -> list[str]:
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in modules())
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    found = [name for name in names if name not in OWNERS and not name.endswith("__main__")]
    return sorted(found, key=lambda name: name.startswith(SERVES_HTTP))


def test_no_module_loads_what_only_some_calls_need() -> None:
    """Each module is imported after the other in one process; who loads something heavy is named."""
    outcome = subprocess.run(
        [sys.executable, "-c", PROBE, ",".join(HEAVY), *module_names()],
        cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    loads = {
        name: found
        for name, found in json.loads(outcome.stdout).items()
        if not (name.startswith(SERVES_HTTP) and found == ["aiohttp"])
    }
    assert loads == {}, {name: HEAVY[name] for names in loads.values() for name in names}


def test_the_judge_of_command_lines_is_loaded_with_the_first_line() -> None:
    looked = "import sys, harnessd.daemon.assemble; print(*(name for name in sys.modules if '.shell.' in name))"
    outcome = subprocess.run(
        [sys.executable, "-c", looked],
        cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert outcome.stdout.strip() == ""


def test_help_loads_nothing_heavy() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", HELP, ",".join([*HEAVY, "pygit2"])],
        cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1] == "loaded: []"
