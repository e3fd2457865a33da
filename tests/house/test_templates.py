"""Can each home that ships be lived in?"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import skills_ref
import yaml

from harnessd.home.lint import lint_files
from harnessd.home.tools_file import read_tools
from tests.house.shell import run
from tests.house.tree import ROOT, WORKSPACES, templates

HOMES = [pytest.param(path, id=path.name) for path in templates()]
SKILLS = [
    pytest.param(path, id=f"{path.parents[1].name}/{path.name}") for path in sorted(WORKSPACES.glob("*/skills/*"))
]
HELPERS = [
    pytest.param(path, id=f"{path.parents[1].name}/{path.stem}") for path in sorted(WORKSPACES.glob("*/subagents/*.md"))
]
EXPECTED = {"default", "assistant", "coder", "researcher"}
READERS = {"read", "skill", "todo", "find_tools"}
PLACES = {"AGENTS.md", "MEMORY.md", "KNOWLEDGE.md", "tools.json", "skills", "subagents"}


def header_and_body(path: Path) -> tuple[dict[str, object], str]:
    match = re.match(r"---\n(.*?)\n---\n(.*)", path.read_text(encoding="utf-8"), re.DOTALL)
    assert match, "a shipped file has a header"
    header = yaml.safe_load(match[1])
    assert isinstance(header, dict)
    return header, match[2]


def test_the_homes_that_are_promised_ship() -> None:
    assert {path.name for path in WORKSPACES.iterdir()} == EXPECTED


@pytest.mark.parametrize("home", HOMES)
def test_a_home_holds_only_what_defines_an_agent(home: Path) -> None:
    assert {path.name for path in home.iterdir()} <= PLACES
    assert not any(path.is_symlink() for path in home.rglob("*"))


@pytest.mark.parametrize("home", HOMES)
def test_the_agent_is_described_and_takes_any_model(home: Path) -> None:
    header, body = header_and_body(home / "AGENTS.md")
    assert header["description"]
    assert header["model"] == "auto"
    assert "name" not in header, "a home bears the name of its directory, wherever it is copied to"
    assert body.startswith("# ")
    assert len(body.splitlines()) < 80, "instructions that nobody reads"


@pytest.mark.parametrize("home", HOMES)
def test_memory_starts_with_headings_and_no_entries(home: Path) -> None:
    lines = (home / "MEMORY.md").read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("#") for line in lines if line)


@pytest.mark.parametrize("home", HOMES)
def test_tools_start_nothing_and_reach_no_network(home: Path) -> None:
    tools = json.loads((home / "tools.json").read_text(encoding="utf-8"))
    servers = tools["mcpServers"]
    assert [name for name, server in servers.items() if server.get("enabled", True) or "url" in server] == []
    assert set(tools) <= {"mcpServers", "allow", "ask", "deny", "scripts", "results", "checks"}


@pytest.mark.parametrize("home", HOMES)
def test_what_the_homes_show_of_tools_json_is_valid(home: Path) -> None:
    for path in home.rglob("*.md"):
        for shown in re.findall(r"^ *```json\n(.*?)^ *```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            tools, problems = read_tools(shown.encode())
            assert tools is not None
            assert problems == ()


@pytest.mark.parametrize("skill", SKILLS)
def test_skills_pass_the_reference_validator(skill: Path) -> None:
    assert skills_ref.validate(skill) == []
    properties = skills_ref.read_properties(skill)
    assert "Use " in properties.description, "says when to use it"
    assert "Not for" in properties.description, "says when not to use it"


@pytest.mark.parametrize("helper", HELPERS)
def test_helpers_can_only_read(helper: Path) -> None:
    header, _ = header_and_body(helper)
    assert header["name"] == helper.stem
    assert header["description"]
    assert header["mode"] == "plan"
    tools = header["tools"]
    assert isinstance(tools, list)
    assert set(tools) <= READERS


def test_nothing_in_the_homes_is_tied_to_a_machine() -> None:
    files = [path for path in WORKSPACES.rglob("*") if path.is_file()]
    guilty = [
        str(path.relative_to(ROOT)) for path in files if re.search(rb"/(?:work|home|root|Users)/\w", path.read_bytes())
    ]
    assert guilty == []


@dataclass(frozen=True)
class Folder:
    """The files of a shipped home as the reader of homes takes them, before any git repository holds them."""

    home: Path
    problems: tuple[()] = ()

    @property
    def tree(self) -> str:
        return hashlib.sha1(repr(self.blobs).encode()).hexdigest()

    @property
    def blobs(self) -> dict[str, str]:
        files = sorted(path for path in self.home.rglob("*") if path.is_file())
        return {str(path.relative_to(self.home)): hashlib.sha1(path.read_bytes()).hexdigest() for path in files}

    def load(self, path: str) -> bytes:
        return (self.home / path).read_bytes()


@pytest.mark.parametrize("home", HOMES)
def test_lint_has_nothing_to_say(home: Path) -> None:
    assert lint_files(Folder(home)) == ()


@pytest.mark.parametrize("home", HOMES)
def test_a_home_made_from_the_template_is_clean_and_answers(home: Path, tmp_path: Path) -> None:
    run(f"harnessd init ./ada --template {home.name} && harnessd lint ./ada", tmp_path)
    assert run('harnessd run ./ada "Who are you?"', tmp_path).strip()
    run('git -C ada diff --quiet HEAD && test -z "$(git -C ada status --porcelain)"', tmp_path)


@pytest.mark.parametrize("skill", SKILLS)
def test_a_skill_is_loaded_by_its_name(skill: Path, tmp_path: Path) -> None:
    run(f"harnessd init ./ada --template {skill.parents[1].name}", tmp_path)
    heading = re.search(r"^# (.+)$", (skill / "SKILL.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heading
    assert heading[1] in run(f'harnessd run ./ada "use skill {skill.name}" --json', tmp_path)


@pytest.mark.parametrize("helper", HELPERS)
def test_a_helper_does_a_task_with_the_offline_model(helper: Path, tmp_path: Path) -> None:
    run(f"harnessd init ./ada --template {helper.parents[1].name}", tmp_path)
    told = run(f'harnessd run ./ada "delegate to {helper.stem}: read KNOWLEDGE.md"', tmp_path)
    assert "# Knowledge" in told
