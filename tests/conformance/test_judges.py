"""Do the judges see what they are there to see? Evidence of real trials is good; each tampering is found."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harnessd.cli.conformance.evidence import Answer, Evidence, Journal, Stored
from harnessd.cli.conformance.judges import JUDGES, judge
from harnessd.cli.conformance.points import Point
from harnessd.facts.event import (
    Event,
    RunFinished,
    RunResumed,
    RunStarted,
    SubagentFinished,
    SubagentStarted,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallRunning,
    TurnStarted,
)
from tests.conformance.trials import AT_THE_END, try_these

TRIALS = {
    "approval-later": AT_THE_END,
    "mcp": Point("after_effect", 1),
    "idempotent": Point("after_effect", 1),
    "stop": AT_THE_END,
    "subagent": Point("after_effect", 1),
    "artifact": AT_THE_END,
}


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    return try_these(tmp_path_factory.mktemp("trials"), *TRIALS.items())


@pytest.mark.parametrize("name", TRIALS)
def test_f2_what_really_happened_is_found_right(trials: dict[str, Evidence], name: str) -> None:
    assert trials[name].kills == 1
    assert judge(trials[name]) == ()


def events(evidence: Evidence, change: Callable[[list[Event]], list[Event]], *, below: bool = False) -> Evidence:
    """The evidence with another record of the main session, or of the subagents'."""

    def changed(journal: Journal) -> Journal:
        if (journal.session_id == evidence.session_id) == below:
            return journal
        return replace(journal, events=tuple(change(list(journal.events))))

    return replace(evidence, after=tuple(map(changed, evidence.after)))


def counted(changed: list[Event]) -> list[Event]:
    """The same events with seqs that count again."""
    return [event.model_copy(update={"seq": number}) for number, event in enumerate(changed, 1)]


def without(kind: type[Event], *, last: bool = False) -> Callable[[Evidence], Evidence]:
    def change(found: list[Event]) -> list[Event]:
        at = [number for number, event in enumerate(found) if isinstance(event, kind)][-1 if last else 0]
        return counted(found[:at] + found[at + 1 :])

    return lambda evidence: events(evidence, change)


def twice(kind: type[Event]) -> Callable[[Evidence], Evidence]:
    def change(found: list[Event]) -> list[Event]:
        again = next(event for event in found if isinstance(event, kind))
        return counted([*found, again])

    return lambda evidence: events(evidence, change)


def with_change(kind: type[Event], **update: object) -> Callable[[Evidence], Evidence]:
    def change(found: list[Event]) -> list[Event]:
        return [event.model_copy(update=update) if isinstance(event, kind) else event for event in found]

    return lambda evidence: events(evidence, change)


def another_effect(evidence: Evidence) -> Evidence:
    return replace(evidence, effects=(*evidence.effects, evidence.effects[0]))


def late_start(evidence: Evidence) -> Evidence:
    def change(found: list[Event]) -> list[Event]:
        begun = next(event for event in found if isinstance(event, ToolCallRunning))
        return counted([*found, begun])

    return events(evidence, change)


def another_outcome(evidence: Evidence) -> Evidence:
    """In flight and not idempotent, and yet said to be done."""

    def change(found: list[Event]) -> list[Event]:
        return [
            event.model_copy(update={"status": "ok"})
            if isinstance(event, ToolCallCompleted) and event.status == "outcome_unknown"
            else event
            for event in found
        ]

    return events(evidence, change)


def no_rerun(evidence: Evidence) -> Evidence:
    def change(found: list[Event]) -> list[Event]:
        return [
            event.model_copy(update={"rerun": False}) if isinstance(event, ToolCallRunning) else event
            for event in found
        ]

    return events(evidence, change)


def messages_swapped(evidence: Evidence) -> Evidence:
    last = evidence.asked[-1]
    calls = [at for at, message in enumerate(last.messages) if message["role"] == "tool"]
    messages = [message for at, message in enumerate(last.messages) if at != calls[0]]
    return replace(evidence, asked=(*evidence.asked[:-1], replace(last, messages=tuple(messages))))


def second_session(evidence: Evidence) -> Evidence:
    below = next(one for one in evidence.after if one.session_id != evidence.session_id)
    return replace(evidence, after=(*evidence.after, replace(below, session_id="ses_other")))


def unlisted(evidence: Evidence) -> Evidence:
    lives = (*evidence.lives[:-1], replace(evidence.lives[-1], open_approvals=()))
    return replace(evidence, lives=lives)


def second_decision(evidence: Evidence) -> Evidence:
    accepted = next(evidence.accepted("allow"))
    return replace(evidence, answers=(*evidence.answers, accepted))


def denied_though_allowed(evidence: Evidence) -> Evidence:
    return with_change(ToolApprovalResolved, outcome="denied")(evidence)


def lost_promise(evidence: Evidence) -> Evidence:
    first = evidence.answers[0]
    body = {**first.body, "seq": 10_000}
    return replace(evidence, answers=(Answer(0, "invoke", first.session_id, 202, body, 0.0), *evidence.answers[1:]))


def slow_stop(evidence: Evidence) -> Evidence:
    return replace(evidence, answers=tuple(replace(one, took=2.0) for one in evidence.answers))


def still_running(evidence: Evidence) -> Evidence:
    return replace(
        evidence, endless=("1 sleep",), lives=(replace(evidence.lives[0], left=("1 sleep",)), *evidence.lives[1:])
    )


def another_content(evidence: Evidence) -> Evidence:
    return replace(evidence, stored=tuple(replace(one, sha256="0") for one in evidence.stored))


def another_file(evidence: Evidence) -> Evidence:
    return replace(evidence, stored=(*evidence.stored, Stored("agents/main/artifacts/x/y", "0", 1)))


def no_file(evidence: Evidence) -> Evidence:
    return replace(evidence, stored=())


def never_up(evidence: Evidence) -> Evidence:
    return replace(evidence, lives=(*evidence.lives[:-1], replace(evidence.lives[-1], came_up=False)))


TAMPERED: list[tuple[str, Callable[[Evidence], Evidence], str]] = [
    ("mcp", never_up, "comes_up"),
    ("mcp", lambda e: replace(e, lives=(e.lives[0], replace(e.lives[1], settled=False))), "comes_up"),
    ("mcp", lambda e: events(e, lambda found: found[:-1]), "tells_what_stays"),
    ("mcp", with_change(RunFinished, duration_ms=-1), "tells_what_stays"),
    ("mcp", lost_promise, "promises_what_stays"),
    ("mcp", lambda e: events(e, lambda found: found[:3] + found[4:]), "keeps_the_record"),
    ("mcp", with_change(RunStarted, model="other"), "keeps_the_record"),
    ("mcp", lambda e: replace(e, after=tuple(replace(one, damaged=1) for one in e.after)), "keeps_the_record"),
    ("mcp", lambda e: replace(e, after=()), "keeps_the_record"),
    ("mcp", without(RunResumed), "goes_on_as_the_same_run"),
    ("mcp", without(RunFinished), "goes_on_as_the_same_run"),
    ("mcp", twice(RunStarted), "goes_on_as_the_same_run"),
    ("mcp", with_change(RunResumed, run_id="run_other"), "goes_on_as_the_same_run"),
    ("mcp", with_change(ToolCallCompleted, turn_id="turn_other"), "goes_on_as_the_same_run"),
    ("mcp", with_change(RunFinished, reason="failed"), "ends_as_it_should"),
    ("stop", with_change(RunFinished, reason="completed"), "ends_as_it_should"),
    ("mcp", another_effect, "does_once"),
    ("idempotent", lambda e: another_effect(another_effect(e)), "does_once"),
    ("subagent", lambda e: replace(e, entries=2), "does_once"),
    ("subagent", lambda e: replace(e, commits=e.commits * 2), "does_once"),
    ("subagent", another_effect, "does_once"),
    ("idempotent", lambda e: replace(e, effects=()), "does_what_it_reports"),
    ("stop", lambda e: events(e, lambda found: [x for x in found if not isinstance(x, ToolCallRunning)]),
     "does_what_it_reports"),
    ("mcp", another_outcome, "owns_up"),
    ("idempotent", no_rerun, "owns_up"),
    ("mcp", late_start, "owns_up"),
    ("mcp", without(ToolCallCompleted, last=True), "answers_each_call_once"),
    ("stop", twice(ToolCallCompleted), "answers_each_call_once"),
    ("mcp", messages_swapped, "sends_a_valid_history"),
    ("subagent", lambda e: replace(e, asked=e.asked * 3), "asks_the_model_no_more_than_needed"),
    ("approval-later", twice(ToolApprovalResolved), "asks_the_person_once"),
    ("approval-later", twice(ToolApprovalRequired), "asks_the_person_once"),
    ("approval-later", without(ToolApprovalResolved), "asks_the_person_once"),
    ("approval-later", unlisted, "asks_the_person_once"),
    ("approval-later", second_decision, "asks_the_person_once"),
    ("approval-later", denied_though_allowed, "asks_the_person_once"),
    ("artifact", another_content, "keeps_the_artifact"),
    ("artifact", another_file, "keeps_the_artifact"),
    ("artifact", no_file, "keeps_the_artifact"),
    ("subagent", second_session, "delegates_once"),
    ("subagent", twice(SubagentStarted), "delegates_once"),
    ("subagent", without(SubagentFinished), "delegates_once"),
    ("stop", late_start, "stops"),
    ("stop", lambda e: events(e, lambda found: counted([*found, TurnStarted()])), "stops"),
    ("stop", slow_stop, "stops"),
    ("stop", still_running, "stops"),
    ("stop", still_running, "leaves_nothing_behind"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tamper", "seen_by"), TAMPERED, ids=range(len(TAMPERED)))
def test_f2_what_should_not_be_is_seen(
    trials: dict[str, Evidence], name: str, tamper: Callable[[Evidence], Evidence], seen_by: str
) -> None:
    if not trials[name].stored and name == "artifact":
        pytest.skip("this build has no artifacts yet")
    assert seen_by in {finding.judge for finding in judge(tamper(trials[name]))}


def test_each_judge_is_tried() -> None:
    assert {name for _, _, name in TAMPERED} == {one.__name__ for one in JUDGES}


def test_a_finding_says_what_was_expected_and_what_was_found(trials: dict[str, Evidence], tmp_path: Path) -> None:
    found = judge(another_effect(trials["mcp"]))
    assert [(one.judge, one.expected, one.found) for one in found] == [
        ("does_once", "at most 1 effects of mcp__tally__pay a", "2")
    ]
