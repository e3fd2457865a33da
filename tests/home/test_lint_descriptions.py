"""lint: descriptions that say when and when not, parameters that show what they look like, in English and Chinese."""

from pathlib import Path

import pytest

from harnessd.home.files_in_memory import FilesInMemory
from harnessd.home.lint import lint_files
from harnessd.home.lint_descriptions import about_description, unclear_parameters
from harnessd.home.reader import DefinitionReader
from harnessd.home.roles import ROLES, helper
from harnessd.permissions.rules import unreadable
from harnessd.tools.artifact import artifact_tool
from harnessd.tools.connect_schema import DESCRIPTION, SCHEMA
from harnessd.tools.delegate import delegate_tool
from harnessd.tools.files import file_tools
from harnessd.tools.find_tools import find_tools_tool
from harnessd.tools.memory import memory_tools
from harnessd.tools.skill import skill_tool
from harnessd.tools.todo import todo_tool
from harnessd.tools.tool import Tool
from tests.house.tree import templates
from tests.tools.a_session import a_tool

GOOD = [
    "Makes tea. Use when asked for a drink. Not for coffee.",
    "Drafts a letter when there is somebody to write to; for notes use meeting-notes instead.",
    "Run before a release, and only then.",
    "当用户要求写周报时使用。不用于日报。",
    "用于查询天气，除非用户已经给出了结果。",
    "Wenn jemand Tee möchte; nicht für Kaffee.",
]
NO_WHEN = ["Tea.", "Makes tea.", "A careful gardener", "泡茶", "写周报"]
NO_WHEN_NOT = [
    "Makes tea. Use when asked.",
    "当用户要求写周报时使用。",
    "Answers questions about the garden; use it if asked.",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_description_that_says_both_is_left_in_peace(text: str) -> None:
    assert about_description(text, "skill", "x", 1) == ()


@pytest.mark.parametrize("text", NO_WHEN)
def test_one_that_does_not_say_when_is_warned_about(text: str) -> None:
    (problem,) = about_description(text, "skill", "x", 3)
    assert (problem.code, problem.severity, problem.line) == ("description-when", "warning", 3)
    assert "Use when" in problem.fix


@pytest.mark.parametrize("text", NO_WHEN_NOT)
def test_one_that_does_not_say_when_not_is_noticed(text: str) -> None:
    (problem,) = about_description(text, "tool", "x", 1)
    assert (problem.code, problem.severity) == ("description-when-not", "notice")


CLEAR = [
    {"type": "string", "description": "a day, e.g. 2026-03-01"},
    {"type": "string", "description": "日期，例如 2026-03-01"},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "string", "format": "uri"},
    {"type": "integer", "minimum": 0},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "string", "pattern": "^a"}},
    {"anyOf": [{"type": "null"}, {"type": "string", "examples": ["x"]}]},
    {"type": "string", "description": "what to look for, such as a word or a phrase"},
]
UNCLEAR = [
    {"type": "string"},
    {"type": "string", "description": "the thing"},
    {"type": "integer", "description": "how much"},
    {"type": "array", "items": {"type": "string"}},
    {"description": "要做的事"},
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
]


@pytest.mark.parametrize("schema", CLEAR)
def test_a_parameter_with_a_format_or_an_example_is_clear(schema: dict[str, object]) -> None:
    assert list(unclear_parameters({"properties": {"p": schema}})) == []
    nested = {"properties": {"list": {"type": "array", "items": {"properties": {"p": schema}}}}}
    assert list(unclear_parameters(nested)) == []


@pytest.mark.parametrize("schema", UNCLEAR)
def test_any_other_is_named_with_its_way(schema: dict[str, object]) -> None:
    nested = {"properties": {"list": {"type": "array", "items": {"properties": {"p": schema}}}}}
    assert list(unclear_parameters({"properties": {"p": schema}})) == ["p"]
    assert list(unclear_parameters(nested)) == ["list.p"]


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 1}, {"properties": {"a": True}}, {"properties": {"a": {"items": 3}}}]
)
def test_odd_schemas_are_no_fault_of_the_lint(schema: dict[str, object]) -> None:
    list(unclear_parameters(schema))


def built_in() -> list[Tool]:
    async def wake(*_: object) -> object:
        raise NotImplementedError

    connect = Tool(**(vars(a_tool("connect", input_schema=SCHEMA)) | {"description": DESCRIPTION}))
    several = (skill_tool(), todo_tool(), artifact_tool(), find_tools_tool([a_tool("x")]), connect)
    return [*file_tools(), *memory_tools(), *several, delegate_tool((), (), wake)]  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", built_in(), ids=lambda tool: tool.name)
def test_our_own_tools_are_described_as_we_ask_of_others(tool: Tool) -> None:
    assert about_description(tool.description, "tool", tool.name, 1) == ()
    assert list(unclear_parameters(tool.input_schema)) == []


@pytest.mark.parametrize("name", ROLES)
def test_our_own_roles_are_described_as_we_ask_of_others(name: str) -> None:
    role = helper(DefinitionReader().read(FilesInMemory({})), name)
    assert role is not None
    assert about_description(role.description, "subagent", name, 1) == ()


@pytest.mark.parametrize("home", templates(), ids=lambda path: path.name)
def test_the_homes_that_ship_give_no_alarm(home: object) -> None:
    files = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}  # type: ignore[attr-defined]
    assert lint_files(FilesInMemory(files), unreadable=unreadable) == ()


CASES = Path(__file__).with_name("cases")


@pytest.mark.parametrize("case", sorted((CASES / "tools").iterdir()), ids=lambda path: path.name)
def test_h3_odd_homes_are_linted_with_a_place_and_a_way_for_each_finding(case: Path) -> None:
    files = {
        str(path.relative_to(CASES)): path.read_bytes()
        for folder in ("skills", "subagents")
        for path in (CASES / folder).rglob("*")
        if path.is_file()
    }
    found = lint_files(FilesInMemory(files | {"tools.json": case.read_bytes()}), unreadable=unreadable)
    assert found
    assert all(problem.message and problem.fix and problem.path.partition("/")[0] for problem in found)
