"""Ids ascend, look as they should, and are not given twice, not even by a forked child."""

import subprocess
import sys

import pytest

from harnessd.ids import ID, IdSource, derived_id

FORKS = """
import os
from harnessd.ids import IdSource
source = IdSource(lambda: 10**18)
source.new("run")
if os.fork():
    os.wait()
print(source.new("run"), flush=True)
"""


@pytest.mark.parametrize("clock", [lambda: 10**18, iter(range(10**18, 0, -(10**9))).__next__])
def test_ids_ascend_also_within_a_moment_and_when_the_clock_steps_back(clock) -> None:  # type: ignore[no-untyped-def]
    source = IdSource(clock)
    made = [source.new("run") for _ in range(2000)]
    assert made == sorted(set(made))
    assert all(ID.fullmatch(one) for one in made)


def test_a_derived_id_stays_what_it_was_in_former_versions() -> None:
    assert derived_id("art", "x", "y") == "art_hkvspdygp-48mhc7t"
    assert derived_id("art", "run_01kbc3fqz-7h2m9xw", "y") == "art_01kbc3fqz-48mhc7t"


def test_a_forked_child_does_not_give_its_parents_ids() -> None:
    told = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True).stdout.split()
    assert len(set(told)) == 2
