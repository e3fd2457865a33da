"""F1-F5: the kit run as a user runs it, on this build and on one that is broken."""

import io
import sys
from pathlib import Path

import pytest

from harnessd.cli.conformance.evidence import Finding
from harnessd.cli.conformance.matrix import Outcome
from harnessd.cli.conformance.points import Point
from harnessd.cli.conformance.report import report
from harnessd.cli.conformance.scenarios import CHECKS, SCENARIOS
from harnessd.cli.output import Output
from tests.cli.command_line import ROOT, Said, harnessd
from tests.conformance.trials import scenario

FORGETFUL = Path(__file__).with_name("forgetful.py")


@pytest.fixture(scope="module")
def sample() -> Said:
    """One kill of each scenario."""
    return harnessd("conformance", "--quick", "--json")


@pytest.mark.timeout(110)
def test_f2_a_sample_of_all_kills_finds_every_promise_kept(sample: Said) -> None:
    assert sample.code == 0, [record for record in sample.records if record.get("findings")]


def test_records_tell_each_trial_and_each_check(sample: Said) -> None:
    trials = [record for record in sample.records if "scenario" in record]
    rows = [record for record in sample.records if "scenario" not in record]
    assert {record["scenario"] for record in trials} == {scenario.name for scenario in SCENARIOS}
    assert {"check", "scenario", "point", "where", "status", "seconds"} == set(trials[0])
    assert [row["check"] for row in rows] == list(CHECKS)
    assert all(row["tried"] == row["passed"] and row["failed"] == 0 for row in rows)
    assert sum(row["tried"] + row["skipped"] for row in rows) == len(trials)


@pytest.mark.matrix
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("check", CHECKS)
def test_f1_f2_f4_f5_hundreds_of_kills_find_every_promise_kept(check: str) -> None:
    said = harnessd("conformance", "--full", "--only", check)
    assert said.code == 0, said.out


@pytest.mark.timeout(60)
def test_f2_a_build_that_forgets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = f"{sys.executable} {FORGETFUL}"
    said = harnessd(
        "conformance", "--command", command, "--only", "text", "--points", 1, "--keep", tmp_path / "kept", "--json"
    )
    assert said.code == 5
    trials = [record for record in said.records if "scenario" in record]
    assert trials[0]["status"] == "passed", "nothing is lost while it is not killed"
    failed = [record for record in trials if record["status"] == "failed"]
    assert failed
    for record in failed:
        assert {"tells_what_stays", "keeps_the_record", "comes_up"} & {one["judge"] for one in record["findings"]}
        assert list(Path(record["kept"]).glob("workspaces/ada/agents/main/sessions/*.jsonl"))
    rows = {record["check"]: record for record in said.records if "scenario" not in record}
    assert rows["resume"]["failed"] == len(failed)


def test_the_table_has_a_row_for_each_check_that_was_tried() -> None:
    outcomes = [
        Outcome(scenario("text"), Point("step", 3), "passed", died_at="after a sync", seconds=1.5),
        Outcome(
            scenario("text"), Point("step", 4), "failed", (Finding("does_once", "one", "two"),), kept=Path("/kept")
        ),
        Outcome(scenario("artifact"), Point(), "skipped", said="no tool"),
    ]
    printed = io.StringIO()
    report(Output(out=printed), outcomes, 2.0)
    said = printed.getvalue()
    for line in ("step 4 of writing", "does once", "expected  one", "found     two", "/kept", "artifact: no tool"):
        assert line in said
    rows = {line.split()[0]: line.split()[1:4] for line in said.splitlines() if line.startswith(CHECKS)}
    assert rows == {"resume": ["2", "1", "1"], "artifact": ["0", "0", "0"]}


def test_what_there_is_to_try_can_be_listed() -> None:
    said = harnessd("conformance", "--list", "--json")
    assert [record["scenario"] for record in said.records] == [scenario.name for scenario in SCENARIOS]
    assert {record["check"] for record in said.records} == set(CHECKS)
    assert "a call is allowed" in harnessd("conformance", "--list", "--only", "approval").out


@pytest.mark.parametrize(
    ("args", "where"),
    [
        (("--only", "nonsense"), "--only"),
        (("--keep", __file__), __file__),
        (("--command", "no-such-program"), "--command"),
        (("--command", "'"), "--command"),
    ],
    ids=["unknown check", "place in use", "no program", "open quote"],
)
def test_bad_input_names_what_is_wrong(args: tuple[str, ...], where: str) -> None:
    said = harnessd("conformance", *args, "--json")
    assert said.code == 2
    assert said.problem["where"] == where
    assert said.problem["hint"]
