"""The arguments layer: secrets that would leave, commands that nobody understands yet."""

import pytest

from harnessd.permissions.arguments import ArgumentsContext, arguments_answer
from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.rules import RuleSet
from tests.permissions.calls import builtin, mcp, target

SECRET = "tr0ub4dor-and-3"
PLACES = [
    {"text": f"key={SECRET}"},
    {"nested": {"deep": [{"x": SECRET}]}},
    {SECRET: 1},
    {"list": ["a", ["b", SECRET + "!"]]},
]


@pytest.mark.parametrize("arguments", PLACES)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_w3_a_stored_secret_never_leaves_for_a_remote_tool(arguments, effect):
    call = mcp("web", "post", effect).model_copy(update={"arguments": arguments})
    context = GateContext(
        mode="bypassPermissions",
        ceiling="bypassPermissions",
        rules=(RuleSet(allow=("*",), source="operator"),),
        secret_values=(SECRET,),
    )
    decision = await decide(call, context)
    assert (decision.verdict, decision.layer) == ("deny", "arguments")
    assert SECRET not in "".join(answer.reason for answer in decision.answers)
    local = call.model_copy(update={"remote": False})
    assert (await decide(local, context)).verdict == "ask"


def test_w3_numbers_are_looked_at_and_short_values_are_not():
    call = mcp("web", "post", number=12345678, short="abc")
    assert arguments_answer(call, ArgumentsContext(secret_values=("12345678",))).verdict == "deny"
    assert arguments_answer(call, ArgumentsContext(secret_values=("abc", ""))).verdict == "none"


def test_w3_the_shape_of_a_secret_is_asked_about_when_it_leaves():
    def kinds(text: str) -> list[str]:
        return ["token"] if "ghp_" in text else []

    context = ArgumentsContext(secret_kinds=kinds)
    leaving = arguments_answer(mcp("web", "post", a="ghp_x"), context)
    assert (leaving.verdict, leaving.safety) == ("ask", True)
    assert "ghp_x" not in leaving.reason
    assert arguments_answer(mcp("fs", "post", remote=False, a="ghp_x"), context).verdict == "none"
    assert arguments_answer(mcp("web", "post", a="hello"), context).verdict == "none"


def test_w3_arguments_of_any_depth_are_searched():
    deep: object = SECRET
    for _ in range(5000):
        deep = [deep]
    call = mcp("web", "post").model_copy(update={"arguments": {"x": deep}})
    assert arguments_answer(call, ArgumentsContext(secret_values=(SECRET,))).verdict == "deny"


@pytest.mark.parametrize("command", ["eval ls", "ls & $x", "", None, "echo \u202e"])
@pytest.mark.parametrize("mode", ["plan", "default", "acceptEdits", "auto", "dontAsk", "bypassPermissions"])
async def test_p1_no_command_runs_unasked_in_any_mode_but_bypass(command, mode):
    call = builtin("execute", command=command)
    rules = (RuleSet(allow=("execute", "execute(ls)"), source="operator"),)
    decision = await decide(call, GateContext(mode=mode, ceiling="bypassPermissions", rules=rules))
    wanted = {"plan": "deny", "dontAsk": "deny", "bypassPermissions": "allow"}.get(mode, "ask")
    assert decision.verdict == wanted


async def test_p1_bypass_below_a_ceiling_does_not_lift_the_shells_ask():
    context = GateContext(mode="bypassPermissions", ceiling="auto")
    decision = await decide(builtin("execute", command="eval ls"), context)
    assert decision.verdict == "ask"


@pytest.mark.parametrize("name", ["write", "edit", "remember", "forget"])
def test_p2_an_edit_without_a_path_is_denied(name):
    assert arguments_answer(builtin(name), ArgumentsContext()).verdict == "deny"
    reading = builtin(name, target(access="read"))
    assert arguments_answer(reading, ArgumentsContext()).verdict == "deny"


def test_p2_a_deny_for_one_path_stands_before_an_ask_for_another():
    call = builtin("write", target("AGENTS.md", within="home", tier="ask"), target("/etc/passwd", within="outside"))
    assert arguments_answer(call, ArgumentsContext()).verdict == "deny"
