"""The view is a function of state alone."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from harnessd.facts.event import MessageCreated
from harnessd.facts.fold import fold
from harnessd.facts.message import UserMessage
from harnessd.facts.schema import schemas
from harnessd.facts.state import State
from harnessd.facts.view import PROJECTED_MESSAGES, view
from tests.facts.samples import folded, numbered, one_of_each, session


@given(seed=st.integers(0, 2**32), share=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_f6_equal_states_have_equal_views_also_after_json(seed: int, share: float) -> None:
    events = numbered(session(random.Random(seed)))
    state = folded(events[: int(share * len(events))])
    before = state.model_dump_json()
    seen = view(state)
    assert state.model_dump_json() == before
    assert view(State.model_validate_json(before)) == seen
    assert view(folded(events[: int(share * len(events))])).model_dump_json() == seen.model_dump_json()


def test_every_view_obeys_its_schema() -> None:
    validator = Draft202012Validator(schemas()["view"])
    for seed in range(5):
        events = numbered(session(random.Random(seed)))
        for at in range(0, len(events), 5):
            validator.validate(view(folded(events[:at])).model_dump(mode="json", exclude_none=True))
    validator.validate(view(folded(one_of_each())).model_dump(mode="json", exclude_none=True))


def test_a_call_is_shown_inside_the_message_that_asked_for_it() -> None:
    for seed in range(20):
        state = State()
        for event in numbered(session(random.Random(seed))):
            state = fold(state, event)
            shown = view(state)
            for message in shown.message_projection.messages:
                assert message.role in {"user", "assistant"}
            assert shown.approval_banner.count == len(state.pending_approvals)
            assert shown.is_busy <= (state.active_run is not None)


def test_a_view_is_bounded() -> None:
    state = State()
    for number in range(500):
        state = fold(state, MessageCreated(message=UserMessage(id=f"m{number}")))
    projection = view(state).message_projection
    assert len(projection.messages) == PROJECTED_MESSAGES
    assert projection.omitted == 500 - PROJECTED_MESSAGES
