"""A desk for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessd.journal.committer import Committer
from tests.journal.desk import Desk


@pytest.fixture
def committer() -> Iterator[Committer]:
    committer = Committer()
    yield committer
    committer.close()


@pytest.fixture
def desk(tmp_path: Path, committer: Committer) -> Desk:
    return Desk(tmp_path, committer)
