"""What the tests of the sandbox share."""

from pathlib import Path

import pytest

from tests.sandbox.boxes import make_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)
