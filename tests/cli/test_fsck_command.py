"""`harnessd fsck`: a sound home is 0, damage is 5 and told by file and line, and repair takes only copies away."""

from pathlib import Path

from tests.cli.command_line import harnessd, make, waiting


def test_f3_a_home_that_is_sound_ends_with_0_and_says_so() -> None:
    home = make()
    assert harnessd("fsck", "ada").code == 0
    waiting()
    assert harnessd("run", "ada", "remember that tea is green").code == 0
    said = harnessd("fsck", str(home))
    assert (said.code, said.out) == (0, "")
    assert "nothing is wrong" in said.err


def test_f3_damage_ends_with_5_and_is_told_by_file_and_line() -> None:
    home = make()
    waiting()
    (journal,) = (home / "agents").glob("*/sessions/*.jsonl")
    data = bytearray(journal.read_bytes())
    data[data.index(b"run.started")] ^= 1
    journal.write_bytes(data)
    said = harnessd("fsck", "ada")
    assert said.code == 5
    assert f"{journal.relative_to(home)}:3: error:" in said.out
    found = harnessd("fsck", "ada", "--json").records
    assert {"error"} <= {one["severity"] for one in found}
    assert all(one["fix"] and one["message"] and one["code"] for one in found)
    assert journal.read_bytes() == bytes(data)


def test_f3_repair_removes_a_checkpoint_that_is_no_use_and_then_all_is_well() -> None:
    home = make()
    waiting()
    checkpoint = _checkpoint_of(home)
    checkpoint.write_text("{")
    assert harnessd("fsck", "ada").code == 5
    assert checkpoint.exists()
    said = harnessd("fsck", "ada", "--repair")
    assert said.code == 0
    assert f"removed {checkpoint.relative_to(home)}" in said.err
    assert not checkpoint.exists()
    assert harnessd("fsck", "ada").code == 0


def _checkpoint_of(home: Path) -> Path:
    (journal,) = (home / "agents").glob("*/sessions/*.jsonl")
    checkpoint = journal.parents[1] / "context" / journal.stem / "state.json"
    checkpoint.parent.mkdir(parents=True)
    return checkpoint
