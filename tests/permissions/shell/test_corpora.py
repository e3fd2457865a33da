"""P1: no hostile command line runs without an ask, and the harmless ones of daily work do."""

from collections.abc import Callable

import pytest

from harnessd.facts.run import LayerAnswer
from harnessd.permissions.call import GateCall
from harnessd.permissions.classifier import ClassifierInput
from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.rules import RuleSet
from harnessd.permissions.shell import judge
from tests.permissions.shell.corpus import benign, hostile

MODES = ("plan", "default", "acceptEdits", "auto", "dontAsk")
BROAD = RuleSet(allow=("execute(ls:*)", "execute(git:*)", "execute(cat:*)"))


async def yes(_seen: ClassifierInput) -> LayerAnswer:
    return LayerAnswer(layer="classifier", verdict="allow", reason="yes to all")


def run(command: str) -> GateCall:
    """The call as the pipeline marks it: a reader if its line only reads."""
    effect = "read" if judge(command).level == "reads" else "write"
    return GateCall(
        tool="execute",
        own_name="execute",
        kind="builtin",
        effect=effect,
        origin_of_context="user",
        arguments={"command": command},
    )


async def allowed(command: str, mode: str, *rules: RuleSet) -> bool:
    context = GateContext(mode=mode, ceiling="auto", classifier=yes, rules=rules)  # type: ignore[arg-type]
    return (await decide(run(command), context)).verdict == "allow"


@pytest.mark.parametrize("rules", [(), (BROAD,)], ids=["no rules", "broad rules"])
async def test_p1_no_hostile_line_is_allowed_in_any_mode(
    rules: tuple[RuleSet, ...], record_property: Callable[[str, object], None]
) -> None:
    lines = hostile()
    let_through = [(line, mode) for line in lines for mode in MODES if await allowed(line, mode, *rules)]
    score = f"hostile command lines allowed without an ask: {len(let_through)} of {len(lines)} in {len(MODES)} modes"
    record_property("score", f"{score}{', with broad allow rules' if rules else ''}")
    assert len(lines) >= 300
    assert let_through == []


async def test_p1_harmless_lines_are_allowed_in_plan(record_property: Callable[[str, object], None]) -> None:
    lines = benign()
    asked = [line for line in lines if not await allowed(line, "plan")]
    record_property("score", f"harmless command lines allowed in plan: {len(lines) - len(asked)} of {len(lines)}")
    assert len(lines) >= 200
    assert len(asked) <= len(lines) * 0.05, asked


def test_the_corpora_hold_no_line_twice() -> None:
    assert len(set(hostile())) == len(hostile())
    assert len(set(benign())) == len(benign())
