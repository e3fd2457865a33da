"""How the outcome is told: a table of the five checks, and each failure with all that is known of it."""

from collections.abc import Sequence
from statistics import median

from harnessd.cli.conformance.matrix import Outcome
from harnessd.cli.conformance.scenarios import CHECKS
from harnessd.cli.output import Output
from harnessd.facts.message import JsonObject

FINDINGS_SHOWN = 5
LENGTH_SHOWN = 600


def report(out: Output, outcomes: Sequence[Outcome], seconds: float) -> None:
    """The failures, what was skipped and why, and the table; or a record for each trial and for each check."""
    if out.as_json:
        for outcome in outcomes:
            out.record(trial_record(outcome))
        for check in CHECKS:
            out.record(_row(check, outcomes))
        return
    for outcome in outcomes:
        if outcome.status == "failed":
            _failure(out, outcome)
    for outcome in outcomes:
        if outcome.status == "skipped":
            out.line(out.style.odd(f"skipped  {outcome.scenario.name}: {outcome.said}"))
    _table(out, outcomes, seconds)


def trial_record(outcome: Outcome) -> JsonObject:
    """A trial as JSON."""
    findings = [{"judge": one.judge, "expected": one.expected, "found": one.found} for one in outcome.findings]
    return {
        "check": outcome.scenario.check,
        "scenario": outcome.scenario.name,
        "point": {"kind": outcome.point.kind, "at": outcome.point.at},
        "where": outcome.where,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 3),
        **({"findings": findings, "kept": str(outcome.kept)} if findings else {}),
        **({"said": outcome.said} if outcome.said else {}),
    }


def failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether any promise was broken."""
    return any(outcome.status == "failed" for outcome in outcomes)


def _row(check: str, outcomes: Sequence[Outcome]) -> JsonObject:
    of_check = [outcome for outcome in outcomes if outcome.scenario.check == check]
    counted = {name: sum(one.status == name for one in of_check) for name in ("passed", "failed", "skipped")}
    tried = counted["passed"] + counted["failed"]
    seconds = round(sum(one.seconds for one in of_check), 1)
    took = [one for outcome in of_check for one in outcome.stop_took]
    slowest = {"slowestStop": round(max(took), 4)} if took else {}
    return {"check": check, "tried": tried, **counted, "seconds": seconds, **slowest}


def _failure(out: Output, outcome: Outcome) -> None:
    style = out.style
    out.line(style.bad(f"failed   {outcome.scenario.name} ({outcome.scenario.says})"))
    out.line(f"  killed    {outcome.where}")
    for finding in outcome.findings[:FINDINGS_SHOWN]:
        out.line(f"  {style.bold(finding.judge.replace('_', ' '))}")
        out.line(f"    expected  {out.text(finding.expected[:LENGTH_SHOWN])}")
        out.line(f"    found     {out.text(finding.found[:LENGTH_SHOWN])}")
    if len(outcome.findings) > FINDINGS_SHOWN:
        out.line(f"  and {len(outcome.findings) - FINDINGS_SHOWN} more")
    if outcome.kept is not None:
        out.line(f"  kept      {style.place(str(outcome.kept))}")
    out.line()


def _table(out: Output, outcomes: Sequence[Outcome], seconds: float) -> None:
    style = out.style
    out.line(style.bold(f"{'check':<10}{'points':>8}{'passed':>8}{'failed':>8}{'time':>9}"))
    for check in CHECKS:
        row = _row(check, outcomes)
        if not row["tried"] and not row["skipped"]:
            continue
        mark = style.bad if row["failed"] else style.odd if not row["tried"] else style.good
        line = f"{check:<10}{row['tried']:>8}{row['passed']:>8}{row['failed']:>8}{row['seconds']:>8.1f}s"
        out.line(mark(line) + ("  skipped in part" if row["skipped"] else ""))
    took = [one for outcome in outcomes for one in outcome.stop_took]
    if took:
        middle, most = median(took) * 1000, max(took) * 1000
        out.line(style.dim(f"{len(took)} stops acknowledged: {middle:.0f} ms in the middle, {most:.0f} ms at most"))
    out.line(style.dim(f"{seconds:.1f}s in all; times are summed over trials that run side by side"))
