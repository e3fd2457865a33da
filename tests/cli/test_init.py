"""Does `init` make a home that works, add what is missing, and overwrite nothing?"""

from pathlib import Path

import pytest
import yaml

from harnessd.cli.templates import find_template, set_model, template_names, templates_folder
from harnessd.errors import UsageError
from tests.cli.command_line import harnessd, make, workspaces, write


@pytest.mark.parametrize("template", template_names())
def test_each_template_makes_a_home_that_answers_and_has_nothing_to_mend(template: str) -> None:
    said = harnessd("init", "ada", "--template", template, "--json")
    assert said.code == 0
    [made] = said.records
    assert made["home"] == str(workspaces() / "ada")
    assert "AGENTS.md" in made["added"]
    assert made["commit"]
    assert harnessd("run", "ada", "say hello").out == "hello\n"
    lint = harnessd("lint", "ada", "--json")
    assert lint.code == 0, lint.out


def test_a_bare_name_is_made_where_commands_find_it_and_a_path_where_it_says(tmp_path: Path) -> None:
    assert harnessd("init", "ada").code == 0
    assert (workspaces() / "ada" / "AGENTS.md").is_file()
    assert harnessd("init", tmp_path / "ben").code == 0
    assert (tmp_path / "ben" / ".git").is_dir()
    assert harnessd("init", "cy", "--workspaces", tmp_path).code == 0
    assert harnessd("run", "cy", "say hi", "--workspaces", tmp_path).out == "hi\n"


def test_an_existing_folder_gets_what_it_lacks_and_keeps_every_byte(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    kept = {
        write(home, "AGENTS_md", b"# Mine\r\n"),
        write(home, "notes_md", "x"),
        write(home, "skills__a__SKILL_md", "?"),
    }
    before = {path: path.read_bytes() for path in kept}
    said = harnessd("init", home, "--model", "offline")
    assert said.code == 0
    assert {path: path.read_bytes() for path in kept} == before
    assert "AGENTS.md was there" in said.out
    assert "MEMORY.md" in said.out
    again = harnessd("init", home)
    assert again.code == 0
    assert "lacks nothing" in again.out


def test_the_next_step_is_told_and_works() -> None:
    said = harnessd("init", "ada")
    assert 'harnessd run ada "Who are you?"' in said.out
    assert harnessd("run", "ada", "Who are you?").code == 0


def test_a_model_is_written_into_the_header() -> None:
    assert harnessd("init", "ada", "--model", "offline").code == 0
    header = (workspaces() / "ada" / "AGENTS.md").read_text().split("---")[1]
    assert yaml.safe_load(header)["model"] == "offline"
    assert harnessd("log", "ada", "--json").records[0]["plus"] > 0


@pytest.mark.parametrize(
    "text", ["# Ada\n", "---\nname: a\n---\n# Ada\n", "---\nname: a\nmodel: auto\n---\n\n# A --- b\n"]
)
@pytest.mark.parametrize("model", ["offline", "openai/gpt-5:free", "ollama/qwen3 # x", "a@b"])
def test_set_model_keeps_everything_else(text: str, model: str) -> None:
    changed = set_model(text, model)
    _, header, body = changed.split("---", 2)
    assert yaml.safe_load(header)["model"] == model
    assert body.strip() == text.split("---", 2)[-1].strip()
    assert ("name" in yaml.safe_load(header)) == ("name" in text)


def test_a_model_is_one_line() -> None:
    with pytest.raises(UsageError):
        set_model("# Ada\n", "x\nmode: bypassPermissions")


def test_templates_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    assert find_template("default") == templates_folder() / "default"
    make()
    assert find_template(str(workspaces() / "ada")) == workspaces() / "ada"
    for wrong in ("../default", "nope", str(tmp_path / "nope"), ""):
        with pytest.raises(UsageError, match="there is no template"):
            find_template(wrong)
