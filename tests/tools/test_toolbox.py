"""What is offered, in which order, and what is found."""

import random

import pytest

from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.tools.pipeline import run_calls
from harnessd.tools.ranking import Ranking
from harnessd.tools.tool import Tool
from harnessd.tools.toolbox import OFFERED_AT_MOST, Toolbox, UnknownTool
from tests.tools.a_session import TURN, a_call, a_tool, a_turn, allow, no_context


def kinds(count: int) -> list[Tool]:
    def make(kind: str, name: str) -> Tool:
        tool = a_tool(name)
        return Tool(**(vars(tool) | {"kind": kind}))

    return [a_tool("write"), a_tool("read"), make("script", "zeta"), make("script", "alpha")] + [
        make("mcp", f"mcp__s__{n:03}") for n in range(count)
    ]


def test_h2_the_order_does_not_depend_on_who_came_first() -> None:
    tools = kinds(5)
    others = tools[2:]
    random.Random(1).shuffle(others)
    names = [spec.name for spec in Toolbox(tools).specs()]
    assert names == [spec.name for spec in Toolbox([*tools[:2], *others]).specs()]
    assert names[:4] == ["write", "read", "alpha", "zeta"]
    assert names[4:] == sorted(names[4:])


def test_h2_nothing_is_made_anew_when_nothing_changed() -> None:
    box = Toolbox(kinds(30))
    assert box.specs() is box.specs()
    assert box.specs(("mcp__s__020",)) is box.specs(("mcp__s__020",))


def test_found_tools_are_appended_in_the_order_they_were_found() -> None:
    box = Toolbox(kinds(30))
    plain = box.specs()
    found = box.specs(("mcp__s__029", "gone", "mcp__s__020", plain[0].name))
    assert found[: len(plain)] == plain
    assert [spec.name for spec in found[len(plain) :]] == ["mcp__s__029", "mcp__s__020"]
    assert len(plain) == OFFERED_AT_MOST + 1
    assert plain[-1].name == "find_tools"
    assert "mcp__s__029" in plain[-1].description


def test_a_tool_that_is_denied_whole_is_neither_offered_nor_found() -> None:
    box = Toolbox(kinds(2), hidden=lambda tool: tool.name == "write")
    assert "write" not in [spec.name for spec in box.specs()]
    assert isinstance(box.find("write"), UnknownTool)


def test_l3_a_wrong_name_gets_near_ones() -> None:
    box = Toolbox(kinds(3))
    missing = box.find("reed")
    assert isinstance(missing, UnknownTool)
    assert missing.near == ("read",)
    own = box.find("001")
    assert isinstance(own, UnknownTool)
    assert "mcp__s__001" in own.near
    assert isinstance(box.find("x" * 100_000), UnknownTool)


def test_the_schema_is_offered_as_it_came() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "$defs": {"a": {}}, "x-own": 1}
    (spec,) = Toolbox([a_tool("one", input_schema=schema)]).specs()
    assert spec.input_schema == schema


def mcp(server: str, name: str, description: str, **properties: object) -> Tool:
    schema = {"type": "object", "properties": properties}
    marks: dict[str, object] = {"kind": "mcp", "server": server, "own_name": name, "description": description}
    return Tool(**(vars(a_tool(f"mcp__{server}__{name}", input_schema=schema)) | marks))  # type: ignore[arg-type]


SHELF = [
    mcp("github", "create_issue", "Opens an issue in a repository."),
    mcp("github", "list_pull_requests", "Lists pull requests of a repository."),
    mcp("github", "searchRepositories", "Searches for repositories."),
    mcp("linear", "create_issue", "Creates a ticket for a team."),
    mcp("weather", "forecast", "Tells the weather of the next days.", city={"type": "string"}),
    mcp("kitchen", "bake", "Bakes a cake."),
    mcp("map", "查询天气", "查询某个城市的天气预报"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("repository search", "mcp__github__searchRepositories"),
        ("Search REPOSITORY", "mcp__github__searchRepositories"),
        ("pull request", "mcp__github__list_pull_requests"),
        ("repo search", "mcp__github__searchRepositories"),
        ("github issues", "mcp__github__create_issue"),
        ("linear issue", "mcp__linear__create_issue"),
        ("weather in a city", "mcp__weather__forecast"),
        ("cakes", "mcp__kitchen__bake"),
        ("bake", "mcp__kitchen__bake"),
        ("城市天气", "mcp__map__查询天气"),
        ("mcp__linear__create_issue", "mcp__linear__create_issue"),
    ],
)
def test_words_lead_to_the_tool_whatever_their_case_and_number(query: str, first: str) -> None:
    assert Ranking(SHELF).best(query, 3)[0].name == first


def test_names_lead_to_just_those_tools_and_nonsense_to_none() -> None:
    names = [tool.name for tool in Ranking(SHELF).best("mcp__kitchen__bake, forecast", 5)]
    assert names == ["mcp__kitchen__bake", "mcp__weather__forecast"]
    assert len(Ranking(SHELF).best("forecast for a city, or bake", 5)) > 1, "a word that is a name too hides no others"
    assert Ranking(SHELF).best("zzz", 5) == []
    assert Ranking(SHELF).best("the of", 5) == []


def test_five_thousand_tools_are_found_within_a_bounded_description() -> None:
    many = [mcp("aaa", f"thing_{n:04}", f"Does thing {n}.") for n in range(4990)] + SHELF
    box = Toolbox([*kinds(0), *many])
    find = box.find("find_tools")
    assert isinstance(find, Tool)
    assert len(find.description) < 8000
    assert "mcp__kitchen__bake" in find.description, "a server with thousands does not hide the others"
    assert " more (" in find.description
    assert find.description == Toolbox([*kinds(0), *reversed(many)]).find("find_tools").description  # type: ignore[union-attr]
    assert len(box.specs()) == OFFERED_AT_MOST + 1


FILLER = [*kinds(0), *(mcp("aaa", f"thing_{n:02}", "Does a thing.") for n in range(20))]


async def test_what_was_found_stays_through_a_restart_and_goes_with_its_tool() -> None:
    box = Toolbox([*FILLER, *SHELF])
    memory = a_turn(a_call("find_tools", '{"query": "bake cakes"}'))
    await run_calls(memory, TURN, memory.calls, toolbox=box, decide=allow, context_for=no_context)
    state = State()
    for event in memory.events:  # as after a restart: the state is folded from the journal
        state = fold(state, type(event).model_validate_json(event.model_dump_json(by_alias=True)))
    found = state.toolkit.found
    assert found[0] == "mcp__kitchen__bake"
    assert "mcp__kitchen__bake" in [spec.name for spec in box.specs(found)]
    for later in (Toolbox(FILLER), Toolbox([*FILLER, *SHELF], hidden=lambda tool: tool.server == "kitchen")):
        assert "mcp__kitchen__bake" not in [spec.name for spec in later.specs(found)]
        assert later.specs(found)[: OFFERED_AT_MOST + 1] == later.specs()


async def test_a_tool_that_is_only_listed_can_be_called_by_its_exact_name() -> None:
    box = Toolbox([*FILLER, *SHELF])
    assert "mcp__kitchen__bake" not in [spec.name for spec in box.specs()]
    memory = a_turn(a_call("mcp__kitchen__bake"))
    await run_calls(memory, TURN, memory.calls, toolbox=box, decide=allow, context_for=no_context)
    assert memory.statuses() == ["ok"]
