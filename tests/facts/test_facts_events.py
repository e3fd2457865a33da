"""Events on disk: what is written reads back equal, and what this version does not know is carried along."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harnessd.facts.event import (
    EVENT_TYPES,
    Event,
    StateUpdated,
    ToolCallCreated,
    UnknownEvent,
    read_event,
    write_event,
)
from harnessd.facts.fold import fold
from harnessd.facts.schema import schemas
from harnessd.facts.state import State
from harnessd.facts.view import View, view
from harnessd.journal.line import Damaged, decode, encode
from tests.facts.samples import folded, one_of_each

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event.type)
def test_f8_every_event_reads_back_as_it_was_written(event: Event) -> None:
    assert read_event(write_event(event)) == event
    assert decode(encode(event)) == event


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event.type)
def test_f8_unknown_fields_survive_a_round_trip(event: Event) -> None:
    data = write_event(event) | {"fromTheFuture": {"deep": [1, None]}}
    again = write_event(read_event(data))
    assert again == data


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=list(EVENT_TYPES))
def test_f8_missing_fields_are_defaulted(kind: type[Event]) -> None:
    name = kind.model_fields["type"].default
    assert read_event({"type": name}) == kind()


@pytest.mark.parametrize(
    "data",
    [
        {"type": "future.thing", "seq": 4, "x": {"y": None}},
        {"type": "run.finished", "seq": 5, "reason": "a reason of the future"},
        {"type": "message.created", "seq": 6, "message": {"role": "oracle"}},
        {"type": "turn.started", "seq": 7, "number": {"not": "a number"}},
        {"seq": 8},
        {"type": None, "seq": 9},
        {"type": ["x"], "seq": "10"},
    ],
)
def test_f8_an_event_of_unknown_type_or_shape_is_carried_along(data: dict[str, object]) -> None:
    event = read_event(data)
    assert isinstance(event, UnknownEvent)
    assert event.raw == data
    assert write_event(event) == data | {"seq": event.seq}
    again = decode(encode(event))
    assert isinstance(again, UnknownEvent)
    assert again.raw == write_event(event)


def test_f8_null_inside_free_json_is_kept() -> None:
    patch = StateUpdated(patch={"title": None, "workspaceContext": {"file": None}})
    call = ToolCallCreated(arguments={"path": None, "list": [None]})
    assert decode(encode(patch)) == patch
    assert decode(encode(call)) == call


@pytest.mark.parametrize("event", one_of_each(), ids=lambda event: event.type)
def test_every_event_obeys_exactly_its_own_schema(event: Event) -> None:
    schema = schemas()["events"]
    assert list(Draft202012Validator(schema).iter_errors(write_event(event))) == []
    other = write_event(event) | {"type": "no.such.event"}
    assert not Draft202012Validator(schema).is_valid(other)


def test_every_schema_is_a_schema_and_the_state_obeys_its_own() -> None:
    for schema in schemas().values():
        Draft202012Validator.check_schema(schema)
    state = folded(one_of_each())
    Draft202012Validator(schemas()["state"]).validate(state.model_dump(mode="json", exclude_none=True))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_f8_a_golden_journal_folds_to_its_golden_view(path: Path) -> None:
    state = State()
    for line in path.read_bytes().splitlines(keepends=True):
        event = decode(line)
        assert not isinstance(event, Damaged)
        state = fold(state, event)
    assert view(state) == View.model_validate_json(path.with_suffix(".view.json").read_bytes())


def test_f8_the_golden_journals_hold_every_event_that_this_version_writes() -> None:
    """A new event gets a new golden file; those that are there never change."""
    found = set()
    for path in GOLDEN.glob("*.jsonl"):
        events = [decode(line) for line in path.read_bytes().splitlines(keepends=True)]
        found |= {event.type for event in events if isinstance(event, Event) and not isinstance(event, UnknownEvent)}
    assert found == set(EVENT_TYPES)
