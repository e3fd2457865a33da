"""Do the types hold, strictly?"""

import subprocess
import sys

import pytest

from tests.house.tree import ROOT


@pytest.mark.timeout(400)
def test_types_hold() -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary"],
        cwd=ROOT, capture_output=True, text=True, timeout=380, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
