"""Controls are read strictly: what is not asked for by its exact name is refused, and the field is named."""

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState, read_control
from harnessd.facts.schema import schemas

GOOD = [
    ({"control": "invoke", "input": "hi"}, Invoke),
    ({"control": "invoke", "input": [{"type": "text", "text": "hi"}], "whenBusy": "steer", "expectedSeq": 4}, Invoke),
    ({"control": "resume", "approvalId": "apr_1", "decision": "allow", "scope": "always"}, Resume),
    ({"control": "resume", "approvalId": "apr_1", "decision": "deny", "note": "no"}, Resume),
    ({"control": "resume", "runId": "run_1", "decision": "continue"}, Continue),
    ({"control": "stop"}, Stop),
    ({"control": "stop", "runId": "run_1", "scope": "session"}, Stop),
    ({"control": "updateState", "patch": {"title": None}}, UpdateState),
    ({"control": "reload"}, Reload),
]
BAD = [
    ({}, "control"),
    ({"control": "explode"}, "explode"),
    ({"control": "invoke"}, "input"),
    ({"control": "invoke", "input": 5}, "input"),
    ({"control": "invoke", "input": "hi", "whenbusy": "queue"}, "whenbusy"),
    ({"control": "invoke", "input": "hi", "whenBusy": "never"}, "whenBusy"),
    ({"control": "resume", "approvalId": "apr_1", "decision": "maybe"}, "decision"),
    ({"control": "resume", "decision": "allow"}, "approvalId"),
    ({"control": "resume", "decision": "continue"}, "runId"),
    ({"control": "resume", "runId": "r", "decision": "continue", "approvalId": "a"}, "approvalId"),
    ({"control": "stop", "scope": "world"}, "scope"),
    ({"control": "updateState", "patch": []}, "patch"),
    ({"control": "updateState"}, "patch"),
    ({"control": "reload", "now": True}, "now"),
    ([], "control"),
    ("stop", "control"),
    (None, "control"),
]


@pytest.mark.parametrize(("data", "kind"), GOOD)
def test_f1_a_control_reads_as_its_kind_and_obeys_its_schema(data: dict[str, object], kind: type) -> None:
    control = read_control(data)
    assert type(control) is kind
    assert read_control(control.model_dump(mode="json", exclude_none=True)) == control
    Draft202012Validator(schemas()["control"]).validate(data)


@pytest.mark.parametrize(("data", "named"), BAD)
def test_f1_a_control_that_is_not_exactly_one_is_refused_by_name(data: object, named: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read_control(data)
    assert named.lower() in str(refused.value).lower()
