"""The MCP project's own suite judges our client: the tools.json reader, the connection, the calls, the answers."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp.peers import NODE, needs, npm

CLIENT = Path(__file__).parent / "conformance_client.py"
ROOT = Path(__file__).parents[2]

SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
)
"""All that are about clients, but for signing in by OAuth and for skills over MCP, which harnessd does not offer."""


@needs("conformance")
@pytest.mark.timeout(90)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_m1_our_client_is_judged_by_the_mcp_projects_suite(
    scenario: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    command = [
        *npm("conformance"),
        *("client", "--command", f"{sys.executable} {CLIENT}"),
        *("--scenario", scenario, "-o", str(tmp_path)),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    said = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=80, check=False)
    (verdict,) = tmp_path.rglob("checks.json")
    checks = [one for one in json.loads(verdict.read_text()) if one["status"] in {"SUCCESS", "FAILURE", "WARNING"}]
    passed = sum(one["status"] == "SUCCESS" for one in checks)
    record_property("score: checks of the MCP conformance suite passed", [passed, len(checks)])
    assert checks, said.stdout + said.stderr
    assert passed == len(checks), said.stdout + said.stderr
