"""What the client reads is what the daemon says: the same fields, the same kinds of error."""

import dataclasses

import pytest

from harnessd import errors
from harnessd.api import agents, approvals, control, session_list, sessions, transcript
from harnessd.api.problem import problem_of, respond
from harnessd.client import answers
from harnessd.client.problem import read_problem
from harnessd.errors import HarnessdError
from harnessd.facts.base import Record

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HarnessdError)]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (answers.Snapshot, sessions.Snapshot),
        (answers.Agent, agents.AgentEntry),
        (answers.AgentPortrait, agents.AgentShown),
        (answers.SessionEntry, session_list.SessionEntry),
        (answers.SessionPage, session_list.SessionPage),
        (answers.TranscriptPage, transcript.TranscriptPage),
        (answers.WaitingApproval, approvals.WaitingEntry),
    ],
)
def test_each_field_that_is_read_is_one_that_is_said(read: type[Record], said: type[Record]) -> None:
    assert read.model_fields.keys() <= said.model_fields.keys()


def test_what_a_control_is_answered_is_what_is_read() -> None:
    read = {field.name for field in dataclasses.fields(answers.Accepted)}
    assert read <= control.ControlAnswer.model_fields.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_of_the_same_kind_on_both_sides(kind: type[HarnessdError]) -> None:
    told = respond(problem_of(kind("it broke", where="a place", hint="mend it")))
    body = told.body
    assert isinstance(body, bytes)
    error = read_problem(told.status, body, told.headers).error()
    assert (type(error), error.message, error.where, error.hint) == (kind, "it broke", "a place", "mend it")
