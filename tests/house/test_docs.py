"""Is what the documents say still so?"""

import ast
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from harnessd.daemon.config import Settings
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.event import EVENT_TYPES, AssistantReasoningDelta, AssistantTextDelta, ToolCallDelta
from harnessd.home.settings import AgentSettings
from tests.house.shell import run
from tests.house.tree import ROOT, WORKSPACES, documents, modules

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"`([a-z]+(?:\.[a-z_]+)+)`")
VARIABLE = re.compile(r"\bHARNESSD_[A-Z_]+\b")
NUMBERED = re.compile(r"test_([a-z]\d+)_")
GUARANTEES = {"h": 9, "w": 7, "f": 10, "l": 5, "p": 7, "m": 3, "o": 2}
"""How many guarantees each letter has; a test named for a number that is not there proves nothing."""

CONTROLS = (Invoke, Resume, Continue, Stop, UpdateState, Reload)

DOCUMENTS = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in documents()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    relative = [link.partition("#")[0] for link in LINK.findall(text) if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in relative if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_event_names_exist(document: Path) -> None:
    deltas = (AssistantTextDelta, AssistantReasoningDelta, ToolCallDelta)
    known = {*EVENT_TYPES, *(delta.model_fields["type"].default for delta in deltas)}
    groups = {name.partition(".")[0] for name in known}
    named = {name for name in DOTTED.findall(document.read_text(encoding="utf-8")) if name.split(".")[0] in groups}
    assert {name for name in named if not name.endswith((".json", ".md", ".py"))} <= known


@pytest.mark.parametrize("document", DOCUMENTS)
def test_variables_exist(document: Path) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules())
    assert set(VARIABLE.findall(document.read_text(encoding="utf-8"))) <= set(VARIABLE.findall(code))


def test_header_keys_exist() -> None:
    known = {to_camel(name) for name in AgentSettings.model_fields}
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    assert {key for cell in cells for key in re.findall(r"`(\w+)`", cell)} <= known


def test_each_setting_is_told_and_no_other() -> None:
    text = (ROOT / "docs" / "daemon.md").read_text(encoding="utf-8").partition("## Settings")[2].partition("```")[0]
    told = {name for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)}
    assert told == {to_camel(name) for name in Settings.model_fields} - {"workspaces", "stateDir"}


@pytest.mark.parametrize("control", CONTROLS)
def test_each_control_is_told_with_all_its_fields(control: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").partition("## Controls")[2].partition("##")[0]
    name = control.model_fields["control"].default
    rows = [set(re.findall(r"`(\w+)`", row)) for row in re.findall(rf"^\| `{name}` \|(.*?\|)", text, re.MULTILINE)]
    fields = {to_camel(field) for field in control.model_fields} - {"control"}
    assert any(fields == row - {"continue"} for row in rows), (fields, rows)


def test_each_document_is_reached_from_the_readme() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= linked


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_exist(document: Path, tmp_path: Path) -> None:
    text = document.read_text(encoding="utf-8")
    spans = re.findall(r"`harnessd ([^`\n]+)`", text)
    named = {word for span in spans for word in re.findall(r"^[a-z]+|(?<= )[a-z]+(?= |$)", span)}
    fenced = "\n".join(FENCE.findall(text))
    named |= set(re.findall(r"^(?:.*\bbin/)?harnessd ([a-z]+)", fenced, re.MULTILINE))
    if named:
        offered = set(re.findall(r"^  ([a-z]+) ", run("harnessd --help", tmp_path), re.MULTILINE))
        assert named <= offered


def test_the_readme_names_each_shipped_home() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shipped = sorted(folder.name for folder in WORKSPACES.iterdir() if folder.is_dir())
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", readme, re.MULTILINE)) == shipped


def test_tests_are_numbered_by_guarantees_that_exist() -> None:
    unknown = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (match := NUMBERED.match(node.name))
        and not 1 <= int(match[1][1:]) <= GUARANTEES.get(match[1][0], 0)
    ]
    assert unknown == []
