"""Refusals of providers: each status and wording has one kind; each kind has one plan."""

import json
from typing import get_args

import pytest

from harnessd.models.chunk import PASSING, FailureKind, ModelFailure
from harnessd.models.failure import failure_of, retry_after
from harnessd.models.retry import Compact, Fallback, GiveUp, Wait, plan_retry


def openai(message: str, kind: str = "invalid_request_error", code: str | None = None) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "code": code, "param": None}})


REFUSALS = [
    (429, openai("Rate limit reached for gpt-4o", "tokens", "rate_limit_exceeded"), "rate_limit"),
    (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "payment"),
    (429, openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000"), "context_overflow"),
    (429, "", "rate_limit"),
    (402, openai("Insufficient Balance"), "payment"),
    (
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}',
        "payment",
    ),
    (401, openai("Incorrect API key provided: sk-12", code="invalid_api_key"), "auth"),
    (401, '{"error":{"type":"authentication_error","message":"invalid x-api-key"}}', "auth"),
    (400, '[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]', "auth"),
    (403, "<html><body>Forbidden</body></html>", "auth"),
    (404, openai("The model `gpt-9` does not exist", code="model_not_found"), "unknown_model"),
    (404, '{"error":"model \\"qwen9\\" not found, try pulling it first"}', "unknown_model"),
    (400, openai("foo/bar is not a valid model ID"), "unknown_model"),
    (400, openai("Model Not Exist"), "unknown_model"),
    (
        400,
        openai("This model's maximum context length is 4096 tokens.", code="context_length_exceeded"),
        "context_overflow",
    ),
    (400, openai("Your input exceeds the context window of this model."), "context_overflow"),
    (
        400,
        '{"error":{"type":"invalid_request_error","message":"prompt is too long: 201000 tokens > 200000 maximum"}}',
        "context_overflow",
    ),
    (
        413,
        '{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        "context_overflow",
    ),
    (400, '{"message":"Input is too long for requested model."}', "context_overflow"),
    (
        400,
        '{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}',  # noqa: E501
        "context_overflow",
    ),
    (
        400,
        openai("the request exceeds the available context size, try increasing it", "exceed_context_size_error"),
        "context_overflow",
    ),
    (400, openai("Please reduce the length of the messages or completion."), "context_overflow"),
    (
        422,
        '{"detail":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}',
        "context_overflow",
    ),
    (400, openai("too many tokens: size limit exceeded by 10 tokens"), "context_overflow"),
    (400, '{"error":"input length exceeds the context length"}', "context_overflow"),
    (
        400,
        openai("This model's maximum prompt length is 131072 but the request contains 200000"),
        "context_overflow",
    ),
    (
        400,
        openai("The response was filtered due to the content management policy", code="content_filter"),
        "content_filter",
    ),
    (400, openai("Your request was rejected by our safety system"), "content_filter"),
    (408, "", "timeout"),
    (504, "<h1>Gateway Time-out</h1>", "timeout"),
    (503, "", "overloaded"),
    (529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overloaded"),
    (500, openai("The server had an error", "server_error"), "server_error"),
    (500, openai("internal: unauthorized upstream"), "server_error"),
    (502, "<html>Bad Gateway</html>", "server_error"),
    (400, openai("Unsupported parameter: 'max_tokens'"), "bad_request"),
    (422, '{"detail":[{"loc":["body"],"msg":"field required"}]}', "bad_request"),
    (418, "", "bad_request"),
    (None, openai("something broke"), "server_error"),
    (400, '"just text"', "bad_request"),
    (400, "[]", "bad_request"),
    (400, "null", "bad_request"),
]


@pytest.mark.parametrize(("status", "body", "kind"), REFUSALS)
def test_l3_each_refusal_has_one_kind(status, body, kind) -> None:
    failure = failure_of(status, body)
    assert failure.kind == kind
    assert failure.message
    assert len(failure.message) <= 500


def test_w3_the_key_that_was_sent_is_cut_out_of_the_message() -> None:
    failure = failure_of(401, openai("Incorrect API key provided: sk-secret."), secret="sk-secret")
    assert "sk-secret" not in failure.message


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"Retry-After": "7"}, "", 7.0),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:10 GMT"}, "", 10.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT"}, "", 0.0),
        ({"Retry-After": "soon"}, "", None),
        ({}, "Please try again in 20s.", 20.0),
        ({}, "Please try again in 1.2s.", 1.2),
        ({}, "Please try again in 345ms.", 0.345),
        ({}, "Please retry in 2 minutes", 120.0),
        ({}, "no idea", None),
    ],
)
def test_l3_what_the_provider_asks_to_wait(headers, message, seconds) -> None:
    assert retry_after(headers, message, now=1_445_412_480.0) == pytest.approx(seconds)


@pytest.mark.parametrize("kind", get_args(FailureKind))
@pytest.mark.parametrize("fallbacks", [(), ("b", "c")])
def test_l3_every_kind_ends_in_a_bounded_number_of_steps(kind, fallbacks) -> None:
    left, attempt, compacted, waited = list(fallbacks), 1, False, 0
    for _ in range(40):
        match plan_retry(ModelFailure(kind, "m"), attempt, left, compacted=compacted):
            case Wait(seconds):
                assert kind in PASSING
                assert 0 <= seconds <= 60
                waited += 1
                attempt += 1
            case Fallback(model):
                assert model == left.pop(0)
                attempt = 1
            case Compact():
                assert kind == "context_overflow"
                assert not compacted
                compacted = True
            case GiveUp(reason):
                assert kind in reason
                break
    else:
        pytest.fail("never gives up")
    assert bool(waited) == (kind in PASSING)
    assert left == ([] if kind != "cancelled" else list(fallbacks))


def test_l3_backoff_grows_is_spread_and_heeds_the_provider() -> None:
    failure = ModelFailure("server_error", "m")
    waits = [plan_retry(failure, attempt, ()) for attempt in (1, 2, 3)]
    assert [wait.seconds for wait in waits if isinstance(wait, Wait)] == [1.0, 2.0, 4.0]
    assert plan_retry(failure, 1, (), chance=0.0) == Wait(0.75)
    asked = ModelFailure("rate_limit", "m", retry_after_s=20.0)
    assert plan_retry(asked, 1, ()) == Wait(20.0)
    assert plan_retry(ModelFailure("rate_limit", "m", retry_after_s=600.0), 1, ("b",)) == Fallback("b")
    assert isinstance(plan_retry(ModelFailure("rate_limit", "m", retry_after_s=600.0), 1, ()), GiveUp)
    assert plan_retry(ModelFailure("empty", "m"), 1, ()) == Wait(0.0)
