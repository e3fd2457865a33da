"""How strict is each mode: the one table, and what follows from it."""

import functools
from collections.abc import Iterable, Mapping
from typing import Literal

from harnessd.facts.run import LayerAnswer, Mode
from harnessd.permissions.call import EDITORS, GateCall, changed_targets, effective_tier

Row = Literal["reader", "auto_edit", "root_edit", "writer", "ask_tier"]
Cell = Literal["allow", "ask", "deny", "classifier", "allow_rule"]
"""`classifier`: the classifier decides. `allow_rule`: allowed if an allow rule matches, else denied."""

ROWS: tuple[Row, ...] = ("reader", "auto_edit", "root_edit", "writer", "ask_tier")
_CELLS: tuple[tuple[Mode, tuple[Cell, Cell, Cell, Cell, Cell]], ...] = (
    # mode                readers       edits on auto  edits in roots  other writers  tier ask
    ("plan", ("allow", "deny", "deny", "deny", "deny")),
    ("dontAsk", ("allow_rule", "allow_rule", "allow_rule", "allow_rule", "deny")),
    ("default", ("allow", "allow", "ask", "ask", "ask")),
    ("acceptEdits", ("allow", "allow", "allow", "ask", "ask")),
    ("auto", ("allow", "allow", "classifier", "classifier", "ask")),
    ("bypassPermissions", ("allow", "allow", "allow", "allow", "ask")),
)
TABLE: Mapping[Mode, Mapping[Row, Cell]] = {mode: dict(zip(ROWS, cells, strict=True)) for mode, cells in _CELLS}
WIDTH: tuple[Mode, ...] = tuple(mode for mode, _ in _CELLS)
"""The modes from the narrowest to the widest, as far as one order can say it (see `under_ceiling`)."""

ROW_NAMES: Mapping[Row, str] = {
    "reader": "calls that only read",
    "auto_edit": "edits of files that are open to the agent",
    "root_edit": "edits inside work/ and the granted folders",
    "writer": "calls that may change something",
    "ask_tier": "changes of files that need an approval",
}
"""What each column of DESIGN §6 is called in reasons and on screens."""


def narrower(one: Mode, other: Mode) -> Mode:
    """The narrower of two modes: what a screen shows for a mode under a ceiling."""
    return min(one, other, key=WIDTH.index)


def under_ceiling(mode: Mode, ceiling: Mode) -> tuple[Mode, ...]:
    """What is in force when `mode` is asked for under `ceiling`: the narrower one, or both.

    `plan` and `dontAsk` are no order (`dontAsk` may let a writer through that `plan` denies, `plan` a reader that
    `dontAsk` denies), so a call has to pass both.
    """
    return (mode, ceiling) if {mode, ceiling} == {"plan", "dontAsk"} else (narrower(mode, ceiling),)


def row_of(call: GateCall) -> Row:
    """Which column of DESIGN §6's table the call stands in. What is not clearly milder is `writer`."""
    changed = changed_targets(call)
    if call.effect == "read" and not changed:
        return "reader"
    tiers = {effective_tier(target, call.origin_of_context) for target in changed}
    if "ask" in tiers:
        return "ask_tier"
    if call.kind != "builtin" or call.own_name not in EDITORS or not changed:
        return "writer"
    if tiers == {"auto"}:
        return "auto_edit"
    return "root_edit" if tiers <= {"auto", None} else "writer"


def mode_answer(call: GateCall, modes: Iterable[Mode], allow_rule: bool) -> LayerAnswer:
    """What the modes in force say about `call`, its own and its parents': the strictest of them.

    The verdict is `none` where only the classifier stands between the call and an allow.
    """
    row = row_of(call)
    cells = [(TABLE[mode][row], mode) for mode in modes]
    resolved = [
        ("allow" if allow_rule else "deny", mode) if cell == "allow_rule" else (cell, mode) for cell, mode in cells
    ]
    for verdict in ("deny", "ask"):
        for cell, mode in resolved:
            if cell == verdict:
                return _answer(mode, row, verdict)
    for cell, mode in resolved:
        if cell == "classifier":
            return LayerAnswer(
                layer="mode", verdict="none", reason=f"mode {mode} leaves {ROW_NAMES[row]} to the classifier"
            )
    if not resolved:
        return LayerAnswer(layer="mode", verdict="ask", reason="no mode is set")
    mode = min((mode for _, mode in resolved), key=WIDTH.index)
    return _answer(mode, row, "allow")


def wants_classifier(call: GateCall, modes: Iterable[Mode]) -> bool:
    """Whether any of the modes leaves this call to the classifier."""
    row = row_of(call)
    return any(TABLE[mode][row] == "classifier" for mode in modes)


_VERBS = {"allow": "allows", "ask": "asks about", "deny": "denies"}


@functools.cache
def _answer(mode: Mode, row: Row, verdict: Literal["allow", "ask", "deny"]) -> LayerAnswer:
    unless = " without an allow rule" if verdict == "deny" and TABLE[mode][row] == "allow_rule" else ""
    reason = f"mode {mode} {_VERBS[verdict]} {ROW_NAMES[row]}{unless}"
    return LayerAnswer(layer="mode", verdict=verdict, reason=reason)
