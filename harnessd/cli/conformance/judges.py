"""What must hold after a crash: each judge looks at the evidence of one trial and says what should not be.

They are pure functions over facts on record and effects counted outside of them, so that they can be read, doubted
and tried on their own. Each one's first line is the promise. The order is that in which a reader would ask.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from harnessd.cli.conformance.evidence import Evidence, Finding, Journal, of_kind
from harnessd.cli.conformance.scenarios import EFFECTS, NOTE, NOTE_AGAIN, REPORT_TEXT
from harnessd.facts.event import (
    ArtifactCreated,
    ArtifactUpdated,
    Event,
    RunFinished,
    RunResumed,
    RunStarted,
    RunStopRequested,
    SessionCreated,
    SubagentFinished,
    SubagentStarted,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    TurnFinished,
    TurnStarted,
    write_event,
)
from harnessd.facts.message import AssistantMessage, JsonObject, text_of
from harnessd.facts.run import ArtifactRef

Found = Iterator[tuple[str, str]]
"""What was expected, and what was found instead."""

STOP_SECONDS = 0.1
"""Within this a stop should be acknowledged; the trial as a whole allows ten times as much on a busy machine."""


def judge(evidence: Evidence) -> tuple[Finding, ...]:
    """Everything that should not be; empty if every promise was kept."""
    return tuple(Finding(one.__name__, expected, found) for one in JUDGES for expected, found in one(evidence))


def comes_up(evidence: Evidence) -> Found:
    """The daemon starts after the kill, and everything that was asked of it comes to an end."""
    last = evidence.lives[-1]
    if not last.came_up:
        yield "a daemon that answers", f"it did not come up; it wrote: {last.log or 'nothing'}"
    elif not last.settled:
        refused = [
            f"{one.what} was answered with {one.status}" for one in evidence.answers if one.status not in {202, 409}
        ]
        yield (
            "an end of the run",
            f"it stands at {_last_facts(evidence.main())}" + "".join(f"; {one}" for one in refused),
        )


def tells_what_stays(evidence: Evidence) -> Found:
    """Whatever was told to anybody is on record, word for word."""
    kept = {(one.session_id, event.seq): write_event(event) for one in evidence.after for event in one.events}
    for life in evidence.lives:
        for session_id, event in life.told:
            there = kept.get((session_id, event["seq"]), {})
            if there != event:
                differs = sorted(key for key in there.keys() | event.keys() if there.get(key) != event.get(key))
                yield (
                    f"{event['type']}, told as seq {event['seq']} of {session_id}, on record",
                    f"{there['type']}, which differs in {', '.join(differs)}" if there else "nothing",
                )
                return


def promises_what_stays(evidence: Evidence) -> Found:
    """A control that was accepted is on disk already when the daemon is killed."""
    for answer in evidence.answers:
        if not answer.accepted or answer.life == len(evidence.lives) - 1:
            continue
        known = next((one.events for one in evidence.before if one.session_id == answer.session_id), ())
        if answer.body.get("seq", 0) > (known[-1].seq if known else 0):
            yield (
                f"seq {answer.body.get('seq')}, promised to {answer.what}, on disk",
                f"seq {known[-1].seq if known else 0}",
            )


def keeps_the_record(evidence: Evidence) -> Found:
    """A journal opens, its seqs count without gap or repetition, and what was in it before the kill is in it still."""
    for journal in evidence.after:
        seqs = [event.seq for event in journal.events]
        if seqs != list(range(1, len(seqs) + 1)):
            yield f"seqs 1 to {len(seqs)} in {journal.session_id}", f"{seqs}"
        if journal.damaged:
            yield f"what is damaged in {journal.session_id} set aside", f"{journal.damaged} records are still there"
        then = evidence.then(journal)
        if journal.events[: len(then)] != then:
            yield f"the {len(then)} records from before the kill in {journal.session_id}", "they changed"
    for session in {one.session_id for one in evidence.before} - {one.session_id for one in evidence.after}:
        yield f"the session {session}", "it is gone"


def goes_on_as_the_same_run(evidence: Evidence) -> Found:
    """The run that resumes is the same run and the same turn, and says that it was resumed."""
    for journal in evidence.after:
        started = Counter(event.run_id for event in of_kind(journal.events, RunStarted))
        ended = Counter(event.run_id for event in of_kind(journal.events, RunFinished))
        if evidence.lives[-1].settled and (started != ended or any(count != 1 for count in started.values())):
            yield f"one start and one end of each run in {journal.session_id}", f"starts {started}, ends {ended}"
        yield from _taken_up(journal, evidence.then(journal))
    promised = {str(answer.body.get("runId")) for answer in evidence.accepted("invoke")}
    begun = {event.run_id for event in of_kind(evidence.main().events, RunStarted)}
    if evidence.lives[-1].settled and promised and promised != begun:
        yield f"the promised runs {sorted(promised)}", f"{sorted(map(str, begun))}"


def ends_as_it_should(evidence: Evidence) -> Found:
    """The run ends in an answer; a run whose stop is on record ends as stopped, and no other does."""
    main = evidence.main().events
    if not evidence.lives[-1].settled:
        return
    stopped = bool(of_kind(main, RunStopRequested))
    reasons = [event.reason for event in of_kind(main, RunFinished)]
    if reasons != ["stopped" if stopped else "completed"]:
        failures = [event.failure.message for event in of_kind(main, RunFinished) if event.failure]
        yield f"one end: {'stopped' if stopped else 'completed'}", f"{reasons} {failures or ''}"
    words = [text_of(m) for m in _spoken(main)]
    if not stopped and not (words and words[-1].endswith("Done.")):
        yield "the answer Done.", f"{words[-1:]}"


def does_once(evidence: Evidence) -> Found:
    """The effect of a call that is not idempotent happens at most once; no call has more effects than starts."""
    calls = {
        call.idempotency_key: call for journal in evidence.after for call in of_kind(journal.events, ToolCallCreated)
    }
    starts = _starts(evidence)
    for key, effects in _by_call(evidence).items():
        call = calls.get(key)
        if call is None and effects[0].startswith("look "):
            continue  # what only reads may have run before there was a trace of it on disk
        if call is None:
            yield "an effect only of a call on record", f"{effects[0]} of an unknown call {key or '(no key)'}"
            continue
        # What only reads may have begun without a trace if the kill came before the sync.
        most = starts[call.tool_call_id] + (evidence.kills if call.effect == "read" else 0)
        most = most if call.idempotent or call.effect == "read" else min(1, most)
        if len(effects) > most:
            yield f"at most {most} effects of {_call(call)}", f"{len(effects)}"
    twice = [call for call, count in Counter(evidence.commits).items() if count > 1]
    if twice:
        yield "at most one commit of each call", f"{twice}"
    if evidence.entries > 1:
        yield "the fact is remembered once", f"{evidence.entries} times"


def does_what_it_reports(evidence: Evidence) -> Found:
    """A call that is reported as done has had its effect; one that was denied or cancelled unstarted has had none."""
    by_call = _by_call(evidence)
    for journal in evidence.after:
        running = {event.tool_call_id for event in of_kind(journal.events, ToolCallRunning)}
        results = {event.tool_call_id: event for event in of_kind(journal.events, ToolCallCompleted)}
        for call in of_kind(journal.events, ToolCallCreated):
            result = results.get(call.tool_call_id)
            if result is None or not _is_counted(call):
                continue
            effects = len(by_call.get(call.idempotency_key, ()))
            if result.status == "ok" and not effects:
                yield f"an effect of {_call(call)}, whose result is ok", "none"
            if effects and call.tool_call_id not in running:
                yield f"no effect of {_call(call)}, which never started ({result.status})", f"{effects}"


def owns_up(evidence: Evidence) -> Found:
    """What was in flight is `outcome_unknown` unless it may be repeated; a repetition is on record; the rest stays."""
    for journal in evidence.after:
        then = evidence.then(journal)
        if not then or not evidence.kills:
            continue
        created = {event.tool_call_id: event for event in of_kind(then, ToolCallCreated)}
        begun = {event.tool_call_id for event in of_kind(then, ToolCallRunning)}
        done = {event.tool_call_id for event in of_kind(then, ToolCallCompleted)}
        later = journal.events[len(then) :]
        again = {event.tool_call_id: event.rerun for event in of_kind(later, ToolCallRunning)}
        results = {event.tool_call_id: event.status for event in of_kind(later, ToolCallCompleted)}
        stopped = bool(of_kind(journal.events, RunStopRequested))
        for call_id in begun - done:
            call = created[call_id]
            repeatable = call.idempotent or call.effect == "read"
            if not repeatable and (call_id in again or results.get(call_id) not in _UNKNOWN | _STOPPED):
                yield (
                    f"outcome_unknown of {_call(call)}, which was in flight",
                    f"{results.get(call_id)}, started again: {call_id in again}",
                )
            if not repeatable and not stopped and results.get(call_id) not in _UNKNOWN:
                yield f"outcome_unknown of {_call(call)}, which was in flight", f"{results.get(call_id)}"
            if repeatable and not again.get(call_id, stopped):
                yield f"a fact that {_call(call)} was run again", f"{results.get(call_id)} without one"
        if done & again.keys():
            yield "what was done is not run again", f"{sorted(done & again.keys())} were"


def answers_each_call_once(evidence: Evidence) -> Found:
    """Each tool call has exactly one result on record."""
    if not evidence.lives[-1].settled:
        return
    for journal in evidence.after:
        asked = [call.id for message in _spoken(journal.events) for call in message.tool_calls]
        told = [event.tool_call_id for event in of_kind(journal.events, ToolCallCompleted)]
        if sorted(asked) != sorted(told) or len(set(asked)) != len(asked):
            yield f"one result of each of {asked} in {journal.session_id}", f"{told}"


def sends_a_valid_history(evidence: Evidence) -> Found:
    """In each request that the model got, every tool call is followed at once by exactly its own result."""
    for number, request in enumerate(evidence.asked, 1):
        problem = _unanswered(request.messages)
        if problem:
            yield f"each call with one adjacent result in request {number} ({request.who})", problem
            return


def asks_the_model_no_more_than_needed(evidence: Evidence) -> Found:
    """A model is asked again for a step only because a kill took its answer."""
    asked = Counter((request.who, request.step) for request in evidence.asked if request.who != "summary")
    # What does not fit is asked for again in short, and a kill may take both answers.
    most = (1 + evidence.kills) * (2 if evidence.scenario.window else 1)
    for (who, step), count in asked.items():
        if count > most:
            yield f"at most {most} requests for step {step} of {who}", f"{count}"


def asks_the_person_once(evidence: Evidence) -> Found:
    """An approval has the same id and call after the kill; it is decided exactly once, as the person was told."""
    for journal in evidence.after:
        required = of_kind(journal.events, ToolApprovalRequired)
        resolved = of_kind(journal.events, ToolApprovalResolved)
        calls = Counter(event.approval.tool_call_id for event in required)
        if any(count > 1 for count in calls.values()):
            yield "one approval of each call", f"{calls}"
        outcomes = Counter(event.approval_id for event in resolved)
        ids = {event.approval.id for event in required}
        if evidence.lives[-1].settled and (outcomes.keys() != ids or any(count > 1 for count in outcomes.values())):
            yield f"one decision of each of {sorted(ids)}", f"{dict(outcomes)}"
        for event in resolved:
            yield from _as_decided(evidence, event)
        yield from _still_listed(evidence, journal)


def keeps_the_artifact(evidence: Evidence) -> Found:
    """A published file is on record once, there once, and has the content that its hash says."""
    refs: dict[str, ArtifactRef] = {}
    owners: list[str] = []
    for journal in evidence.after:
        for event in journal.events:
            if isinstance(event, ArtifactCreated | ArtifactUpdated):
                refs[event.artifact.id] = event.artifact
            if isinstance(event, ArtifactCreated):
                owners.append(event.artifact.created_by_tool_call_id)
    if len(set(owners)) != len(owners):
        yield "one artifact of each call", f"{owners}"
    on_disk = {one.path: one for one in evidence.stored}
    for ref in refs.values():
        file = on_disk.get(ref.content_ref)
        if file is None:
            yield f"the file {ref.content_ref}", f"there are {sorted(on_disk)}"
        elif (file.sha256, file.size) != (ref.sha256, ref.size) or file.size != len(REPORT_TEXT.encode()):
            yield f"{ref.size} bytes with the hash {ref.sha256}", f"{file.size} bytes, {file.sha256}"
    # A hidden file is a copy that a kill cut short; nobody was told of it.
    shown = {path for path in on_disk if not path.rpartition("/")[2].startswith(".")}
    astray = sorted(shown - {ref.content_ref for ref in refs.values()})
    if astray and evidence.lives[-1].settled:
        yield "no file that is not on record", f"{astray}"
    published = [event for event in of_kind(evidence.main().events, ToolCallCompleted) if event.tool_name == "artifact"]
    if any(event.status == "ok" for event in published) and not refs:
        yield "an artifact on record, since the call reports one", "none"


def delegates_once(evidence: Evidence) -> Found:
    """A task is given to one subagent, in one session, which begins and ends once."""
    for journal in evidence.after:
        started = [event.subagent for event in of_kind(journal.events, SubagentStarted)]
        ended = Counter(event.subagent.id for event in of_kind(journal.events, SubagentFinished))
        calls = Counter(ref.parent_tool_call_id for ref in started)
        if any(count > 1 for count in calls.values()):
            yield "one subagent for each call", f"{dict(calls)}"
        if evidence.lives[-1].settled and ended != Counter(ref.id for ref in started):
            yield f"one end of each of {[ref.id for ref in started]}", f"{dict(ended)}"
        sessions = {ref.session_id for ref in started}
        below = {
            one.session_id
            for one in evidence.after
            for event in of_kind(one.events, SessionCreated)
            if event.parent is not None and event.parent.session_id == journal.session_id
        }
        if not below <= sessions:
            yield f"the sessions {sorted(sessions)}", f"{sorted(below)}"


def stops(evidence: Evidence) -> Found:
    """After a stop no call starts, here or below, and nothing that it had started is left."""
    for journal in evidence.after:
        stop = next(iter(of_kind(journal.events, RunStopRequested)), None)
        if stop is None:
            continue
        begun = [
            e
            for e in journal.events
            if e.seq > stop.seq and isinstance(e, ToolCallCreated | ToolCallRunning | TurnStarted)
        ]
        if begun:
            yield (
                f"no call and no turn after seq {stop.seq} of {journal.session_id}",
                f"{[(e.seq, e.type) for e in begun]}",
            )
    for answer in evidence.accepted("stop"):
        if not of_kind(evidence.main().events, RunStopRequested):
            yield "a stop that was acknowledged on record", "none"
        if answer.took > 10 * STOP_SECONDS:
            yield f"an acknowledgement within {10 * STOP_SECONDS:g} s", f"{answer.took:.2f} s"
    if evidence.endless:
        yield "no process of the run within three seconds", f"{evidence.endless}"


def leaves_nothing_behind(evidence: Evidence) -> Found:
    """A daemon that ended, however it ended, leaves no process behind."""
    for number, life in enumerate(evidence.lives, 1):
        if life.left:
            yield f"no process left by daemon {number}", f"{life.left}"


Judge = Callable[[Evidence], Found]
JUDGES: tuple[Judge, ...] = (
    comes_up,
    tells_what_stays,
    promises_what_stays,
    keeps_the_record,
    goes_on_as_the_same_run,
    ends_as_it_should,
    does_once,
    does_what_it_reports,
    owns_up,
    answers_each_call_once,
    sends_a_valid_history,
    asks_the_model_no_more_than_needed,
    asks_the_person_once,
    keeps_the_artifact,
    delegates_once,
    stops,
    leaves_nothing_behind,
)
_UNKNOWN = {"outcome_unknown"}
_STOPPED = {"cancelled"}


def _taken_up(journal: Journal, then: tuple[Event, ...]) -> Found:
    """A run that was open at the kill is resumed as itself, in the turn that was open, before it does anything."""
    run = _open(then, RunStarted, RunFinished, "run_id")
    later = journal.events[len(then) :]
    if not then or run is None or of_kind(journal.events, RunStopRequested):
        return  # a run that is stopped while it waits, or is stopped already, need only end
    for event in later:
        if isinstance(event, RunResumed) and event.run_id == run:
            break
        if isinstance(event, _OF_A_TURN) and event.run_id == run:
            yield f"a resumption of {run} in {journal.session_id} before anything else", f"{event.type}"
            break
    turn = _open(then, TurnStarted, TurnFinished, "turn_id")
    goes_on = next((event.turn_id for event in later if isinstance(event, _OF_A_TURN)), None)
    if turn is not None and goes_on not in {turn, None}:
        yield f"the turn {turn} goes on in {journal.session_id}", f"{goes_on}"


_OF_A_TURN = (TurnStarted, TurnFinished, ToolCallCreated, ToolCallRunning, ToolCallCompleted)


def _open(events: tuple[Event, ...], start: type[Event], end: type[Event], name: str) -> str | None:
    """The id of what started and has not ended."""
    ended = {getattr(event, name) for event in of_kind(events, end)}
    return next(
        (getattr(event, name) for event in reversed(of_kind(events, start)) if getattr(event, name) not in ended), None
    )


def _as_decided(evidence: Evidence, event: ToolApprovalResolved) -> Found:
    """The decision on record is one that was accepted, or one whose answer the kill took."""
    accepted = [a for a in evidence.answers if a.approval_id == event.approval_id and a.accepted]
    if len(accepted) > 1:
        yield f"one accepted decision of {event.approval_id}", f"{len(accepted)}"
    outcome = {"allow": "allowed", "deny": "denied"}
    if accepted and outcome[accepted[0].what] != event.outcome:
        yield f"{event.approval_id} {outcome[accepted[0].what]}, as accepted", event.outcome
    for lost in (a for a in evidence.answers if a.approval_id == event.approval_id and a.status == 409):
        current = lost.body.get("current") or {}
        if current.get("outcome", event.outcome) != event.outcome:
            yield f"a conflict that carries the decision {event.outcome}", f"{current}"


def _still_listed(evidence: Evidence, journal: Journal) -> Found:
    """What was open at the kill is listed by the next daemon under the same ids."""
    then = evidence.then(journal)
    decided = {event.approval_id for event in of_kind(then, ToolApprovalResolved)}
    waited = {(e.approval.id, e.approval.tool_call_id) for e in of_kind(then, ToolApprovalRequired)}
    waited = {one for one in waited if one[0] not in decided}
    stopping = bool(of_kind(then, RunStopRequested))
    missing = waited - set(evidence.lives[-1].open_approvals)
    if evidence.kills and evidence.lives[-1].came_up and not stopping and missing:
        yield f"the approvals {sorted(waited)} listed after the restart", f"{sorted(evidence.lives[-1].open_approvals)}"


def _by_call(evidence: Evidence) -> dict[str, list[str]]:
    """The effects of each call, by the key that the harness gave it."""
    found: dict[str, list[str]] = {}
    for effect in evidence.effects:
        found.setdefault(effect.call, []).append(f"{effect.tool} {effect.key}")
    return found


def _is_counted(call: ToolCallCreated) -> bool:
    """Whether the call writes down its effect."""
    of_ours = call.tool_name.startswith("mcp__") or call.tool_name in {NOTE, NOTE_AGAIN}
    return of_ours or EFFECTS in str((call.arguments or {}).get("command", ""))


def _starts(evidence: Evidence) -> Counter[str]:
    return Counter(e.tool_call_id for journal in evidence.after for e in of_kind(journal.events, ToolCallRunning))


def _spoken(events: tuple[Event, ...]) -> list[AssistantMessage]:
    messages = (getattr(event, "message", None) for event in events if event.type == "message.created")
    return [message for message in messages if isinstance(message, AssistantMessage)]


def _unanswered(messages: tuple[JsonObject, ...]) -> str:
    """Where a request breaks the rule of adjacent results; empty if nowhere."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"message {at} answers {message.get('tool_call_id')}, which is not asked for just before"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"message {at} comes before the results of {open_calls}"
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if seen & set(open_calls) or len(set(open_calls)) != len(open_calls):
            return f"message {at} uses a call id a second time"
        seen |= set(open_calls)
    return f"no results of {open_calls}" if open_calls else ""


def _call(call: ToolCallCreated) -> str:
    return f"{call.tool_name} {(call.arguments or {}).get('key', '')}".strip()


def _last_facts(journal: Journal) -> str:
    return ", ".join(event.type for event in journal.events[-3:]) or "nothing on record"
