"""Which kind of failure a provider's refusal is: one table of statuses, one of wordings."""

import email.utils
import re
import time
from collections.abc import Mapping
from typing import Any

import orjson

from harnessd.models.chunk import FailureKind, ModelFailure

_BY_STATUS: dict[int, FailureKind] = {
    401: "auth",
    402: "payment",
    403: "auth",
    404: "unknown_model",
    408: "timeout",
    413: "context_overflow",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    522: "timeout",
    524: "timeout",
    529: "overloaded",
}

# The first row that matches decides, before the status: providers use one status for many things.
_BY_WORDING: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        "payment",
        re.compile(
            r"insufficient_quota|exceeded your current quota|credit balance is too low|insufficient balance"
            r"|insufficient credits|billing_hard_limit|billing_not_active",
            re.IGNORECASE,
        ),
    ),
    (
        "context_overflow",
        re.compile(
            r"context_length_exceeded|exceed_context_size|contextwindowexceeded"
            r"|maximum (context|prompt) length|exceeds? the context (window|length)|context window (of|is)"
            r"|prompt is too long|input is too long|input length .{0,60}exceed|exceeds the available context"
            r"|input token count .{0,80}exceeds|too many (input )?tokens|reduce the length of (the|your)"
            r"|too large for model|maximum number of tokens allowed|request_too_large"
            r"|request too large for .{0,80}tokens per min|input tokens exceed|prompt exceeds",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        "content_filter",
        re.compile(
            r"content_filter|content_policy|contentpolicyviolation|responsibleaipolicy"
            r"|content management policy|safety system|flagged (for|by) moderation",
            re.IGNORECASE,
        ),
    ),
    (
        "overloaded",
        re.compile(r"overloaded|over capacity|engine is currently|model is loading", re.IGNORECASE),
    ),
    ("rate_limit", re.compile(r"rate[ _-]?limit|too many requests|resource_exhausted", re.IGNORECASE)),
    (
        "auth",
        re.compile(
            r"invalid[ _](x-)?api[ _-]?key|incorrect api key|authentication_?error|invalid_auth"
            r"|unauthori[sz]ed|api[ _]key (not valid|is (invalid|required|missing))"
            r"|permission_?(denied_?)?error",
            re.IGNORECASE,
        ),
    ),
    (
        "unknown_model",
        re.compile(
            r"model_not_found|not a valid model|no such model|unknown model|model not exist|invalid model"
            r"|the model .{0,120}(does not exist|not found)|model .{0,120}not found, try pulling"
            r"|llm provider not provided",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
)

_IN_TEXT = re.compile(
    r"(?:try again|retry|wait)[^.\d]{0,20}(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?|m|minutes?)\b", re.IGNORECASE
)
_SHOWN = 500


_LATER = "wait a while, or name other models as fallbackModels in AGENTS.md"
_WAY_OUT: dict[FailureKind, str] = {
    "unreachable": "is the server running and the address right? `harnessd doctor` says which model is taken",
    "auth": "check the key of this provider; `harnessd doctor` says which keys are set",
    "payment": "the provider wants to be paid; or choose another model with --model",
    "rate_limit": _LATER,
    "overloaded": _LATER,
    "server_error": _LATER,
    "timeout": _LATER,
    "cut_off": _LATER,
    "malformed": "is this the address of a server that speaks the OpenAI chat protocol?",
    "empty": "say it in other words, or choose another model with --model",
    "content_filter": "say it in other words, or choose another model with --model",
    "context_overflow": "begin a new session, or choose a model with a larger context",
    "unknown_model": "check the name of the model, or choose another with --model",
    "bad_request": "the provider refused the request as it is; try another model with --model",
}


def way_out(failure: ModelFailure) -> str:
    """What a person can do about it: what the failure says itself, else what helps with its kind."""
    return failure.hint or _WAY_OUT.get(failure.kind, "")


def failure_of(
    status: int | None, body: str, headers: Mapping[str, str] | None = None, secret: str = ""
) -> ModelFailure:
    """The failure that a status, a body (JSON, text or a page) and headers stand for.

    `secret` (the key that was sent) is cut out of the message. A status of None means an error that came
    inside a stream that had begun well.
    """
    message, wording = _say(body)
    kind = _kind(status, wording)
    if secret:
        message = message.replace(secret, "…")
    return ModelFailure(
        kind=kind,
        message=message or f"the provider answered with status {status} and no explanation",
        retry_after_s=retry_after(headers or {}, message),
        status=status,
    )


def retry_after(headers: Mapping[str, str], message: str = "", now: float | None = None) -> float | None:
    """Seconds that the provider asks to wait: `retry-after-ms`, `retry-after` (seconds or date), its text."""
    low = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = low.get(name, "")
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * unit
    if "retry-after" in low:
        try:
            when = email.utils.parsedate_to_datetime(low["retry-after"])
        except (TypeError, ValueError):
            return None
        return max(0.0, when.timestamp() - (time.time() if now is None else now))
    if found := _IN_TEXT.search(message):
        unit = {"ms": 0.001, "m": 60.0}.get(found[2].lower(), 60.0 if found[2].lower().startswith("min") else 1.0)
        return float(found[1]) * unit
    return None


def _kind(status: int | None, wording: str) -> FailureKind:
    for kind, pattern in _BY_WORDING:
        if pattern.search(wording):
            # A 5xx that merely mentions a key or a model is still the server's fault.
            if status is not None and status >= 500 and kind in {"auth", "unknown_model"}:
                continue
            return kind
    if status is None:
        return "server_error"
    return _BY_STATUS.get(status, "server_error" if status >= 500 else "bad_request")


def _say(body: str) -> tuple[str, str]:
    """The sentence for people, and all the words to judge by (message, type, code)."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = " ".join(re.sub(r"<[^>]*>", " ", body[:20_000]).split())
        return text[:_SHOWN], text
    if isinstance(data, list) and data:
        data = data[0]
    message, words = _from_json(data)
    return message[:_SHOWN], " ".join([message, *words])


def _from_json(data: Any) -> tuple[str, list[str]]:
    if not isinstance(data, dict):
        return str(data), []
    inner = data.get("error", data)
    if isinstance(inner, dict):
        message = inner.get("message") or inner.get("detail") or inner.get("msg")
        words = [str(inner[name]) for name in ("type", "code", "status", "param") if inner.get(name)]
        if isinstance(meta := inner.get("metadata"), dict) and meta.get("raw"):
            words.append(str(meta["raw"]))
        return str(message or orjson.dumps(inner).decode()), words
    return str(inner), [str(data[name]) for name in ("type", "code") if data.get(name)]
