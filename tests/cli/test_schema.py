"""Are the schemas printed whole, one by one and into files?"""

import json
from pathlib import Path

import jsonschema
import pytest

from harnessd.facts.schema import schemas
from tests.cli.command_line import harnessd, make


@pytest.mark.parametrize("name", schemas())
def test_each_schema_is_printed_and_valid(name: str) -> None:
    shown = json.loads(harnessd("schema", name).out)
    jsonschema.Draft202012Validator.check_schema(shown)
    assert harnessd("schema", name, "--json").records == [shown]
    assert json.loads(harnessd("schema").out)[name] == shown


def test_what_run_prints_is_what_the_schema_says() -> None:
    make()
    validator = jsonschema.Draft202012Validator(json.loads(harnessd("schema", "events").out))
    for event in harnessd("run", "ada", "Remember that my tea is black.", "--json").records:
        validator.validate(event)


def test_files_are_written(tmp_path: Path) -> None:
    said = harnessd("schema", "--out", tmp_path / "a" / "b", "--json")
    paths = [Path(one["path"]) for one in said.records]
    assert sorted(path.name for path in paths) == sorted(f"{name}.schema.json" for name in schemas())
    assert all(json.loads(path.read_text()) for path in paths)
    (tmp_path / "file").write_text("x")
    assert harnessd("schema", "--out", tmp_path / "file" / "x").code == 5
