"""What is offered, in which order, and what is found."""

import random

from harnessd.tools.tool import Tool
from harnessd.tools.toolbox import OFFERED_AT_MOST, Toolbox, UnknownTool
from tests.tools.a_session import a_tool


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
