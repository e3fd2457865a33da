"""The mode table of DESIGN §6: every mode, every row, and no way around it."""

import itertools
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.facts.run import LayerAnswer, Mode
from harnessd.permissions.classifier import ClassifierInput
from harnessd.permissions.gate import GateContext, child_modes, decide
from harnessd.permissions.modes import ROWS, TABLE, WIDTH, narrower, row_of
from harnessd.permissions.rules import RuleSet
from tests.permissions.calls import ASK_TIER, LOCKED, ROW_CALLS, WRITER, builtin, mcp, script, target

MODES: tuple[Mode, ...] = get_args(Mode)
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
# DESIGN §6, written again by hand. `C`: whatever the classifier says.
WANTED = {
    "plan": ("allow", "deny", "deny", "deny", "deny"),
    "default": ("allow", "allow", "ask", "ask", "ask"),
    "acceptEdits": ("allow", "allow", "allow", "ask", "ask"),
    "auto": ("allow", "allow", "C", "C", "ask"),
    "dontAsk": ("deny", "deny", "deny", "deny", "deny"),
    "bypassPermissions": ("allow", "allow", "allow", "allow", "ask"),
}
CASES = [
    pytest.param(mode, row, call, id=f"{mode}-{row}-{call.tool}")
    for mode in MODES
    for row in ROWS
    for call in ROW_CALLS[row]
]


def says(verdict: str):
    async def classifier(_seen: ClassifierInput) -> LayerAnswer:
        return LayerAnswer(layer="classifier", verdict=verdict, reason="said so")

    return classifier


@pytest.mark.parametrize(("mode", "row", "call"), CASES)
@pytest.mark.parametrize("classified", ["allow", "ask", "deny", None])
async def test_p1_the_mode_table(mode, row, call, classified):
    classifier = says(classified) if classified else None
    decision = await decide(call, GateContext(mode=mode, ceiling="bypassPermissions", classifier=classifier))
    wanted = WANTED[mode][ROWS.index(row)]
    assert row_of(call) == row
    assert decision.verdict == ((classified or "ask") if wanted == "C" else wanted)
    assert [answer.layer for answer in decision.answers] == [
        "rules",
        "mode",
        "arguments",
        "hooks",
        "classifier",
        "person",
    ]
    assert all(answer.reason for answer in decision.answers)


@pytest.mark.parametrize(("mode", "row", "call"), CASES)
async def test_p1_an_allow_rule_lifts_a_default_and_nothing_else(mode, row, call):
    rules = (RuleSet(allow=(call.tool,), source="operator"),)
    decision = await decide(call, GateContext(mode=mode, ceiling="bypassPermissions", rules=rules))
    wanted = WANTED[mode][ROWS.index(row)]
    lifted = row != "ask_tier" and mode != "plan"
    assert decision.verdict == ("allow" if lifted else wanted)


def test_p1_every_mode_has_every_row_and_one_place_in_the_order():
    assert set(TABLE) == set(WIDTH) == set(MODES)
    assert all(set(TABLE[mode]) == set(ROWS) for mode in MODES)


@pytest.mark.parametrize(
    ("call", "row"),
    [
        (builtin("execute", command="ls"), "writer"),
        (builtin("write"), "writer"),
        (script("write"), "writer"),
        (mcp("fs", "edit"), "writer"),
        (LOCKED, "writer"),
        (
            builtin("write", target("x", within="home", tier=None), target(".git/x", within="home", tier="locked")),
            "writer",
        ),
        (builtin("read", target(access="delete"), effect="read"), "writer"),
        (builtin("edit", target("MEMORY.md", within="home", tier="auto"), origin="remote"), "ask_tier"),
        (builtin("edit", target("MEMORY.md", within="home", tier="auto"), origin="local"), "auto_edit"),
        (builtin("edit", target("work/a"), target("AGENTS.md", within="home", tier="ask")), "ask_tier"),
        (builtin("edit", target("AGENTS.md", "read", "home", "ask"), target("work/a")), "root_edit"),
    ],
)
def test_p1_what_is_not_clearly_milder_is_a_writer(call, row):
    assert row_of(call) == row


@settings(deadline=None)
@given(st.sampled_from(MODES), st.sampled_from(MODES), st.sampled_from(MODES))
def test_p1_narrower_is_an_order(one, other, third):
    assert narrower(one, other) == narrower(other, one) in (one, other)
    assert narrower(one, narrower(other, third)) == narrower(narrower(one, other), third)
    assert narrower(one, "bypassPermissions") == one


EVERY_CALL = [call for calls in ROW_CALLS.values() for call in calls] + [LOCKED, builtin("execute", command="ls")]


@pytest.mark.parametrize("classified", ["allow", "ask", "deny"])
@pytest.mark.parametrize("allowed", [(), tuple({call.tool for call in EVERY_CALL})], ids=["no-rules", "allow-rules"])
async def test_p1_a_child_is_never_wider_than_its_parent(allowed, classified):
    shared = {"rules": (RuleSet(allow=allowed),), "classifier": says(classified)}
    for mode, ceiling, wish in itertools.product(MODES, MODES, MODES):
        parent = GateContext(mode=mode, ceiling=ceiling, **shared)
        child_mode, child_ceiling, parents = child_modes(parent, wish)
        child = GateContext(mode=child_mode, ceiling=child_ceiling, parents=parents, **shared)
        for call in EVERY_CALL:
            wide, narrow = await decide(call, parent), await decide(call, child)
            assert STRICTNESS[narrow.verdict] >= STRICTNESS[wide.verdict], (mode, ceiling, wish, call.tool)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ceiling", MODES)
async def test_w4_no_rules_of_a_home_pass_the_ceiling(mode, ceiling):
    """Whatever a home's rules and mode say, plan stays without effects, and a sweeping allow is no bypass."""
    sweeping = RuleSet(allow=("*", "mcp__*", "mcp__*__create_issue", "mcp__git*"), source="home")
    with_rules = GateContext(mode=mode, ceiling=ceiling, rules=(sweeping,), classifier=says("ask"))
    without = GateContext(mode=mode, ceiling=ceiling, classifier=says("ask"))
    for call in (WRITER, ASK_TIER, LOCKED):
        a, b = await decide(call, with_rules), await decide(call, without)
        if ceiling != "bypassPermissions" or call is not WRITER:
            assert a.verdict == b.verdict
    if ceiling == "plan":
        exact = GateContext(mode=mode, ceiling=ceiling, rules=(RuleSet(allow=(WRITER.tool,)),))
        assert (await decide(WRITER, exact)).verdict == "deny"


@pytest.mark.parametrize("ceiling", [mode for mode in MODES if mode != "bypassPermissions"])
async def test_w4_bypass_needs_the_ceiling(ceiling):
    decision = await decide(WRITER, GateContext(mode="bypassPermissions", ceiling=ceiling))
    assert decision.verdict != "allow"


@pytest.mark.parametrize(("mode", "ceiling"), [("plan", "dontAsk"), ("dontAsk", "plan")])
@pytest.mark.parametrize("allowed", [True, False])
async def test_p1_plan_and_dont_ask_both_hold_where_both_are_set(mode, ceiling, allowed):
    calls = [call for calls in ROW_CALLS.values() for call in calls]
    rules = (RuleSet(allow=tuple(call.tool for call in calls) if allowed else (), source="operator"),)
    for call in calls:
        decision = await decide(call, GateContext(mode=mode, ceiling=ceiling, rules=rules))
        assert decision.verdict == ("allow" if allowed and row_of(call) == "reader" else "deny")
