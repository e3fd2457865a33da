"""What does a problem in the daemon's answer (RFC 9457) mean for the caller?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from harnessd.errors import (
    Conflict,
    HarnessdError,
    HistoryError,
    HomeNotFound,
    InvalidName,
    KeyMissing,
    Locked,
    ModelUnavailable,
    NotAHome,
    RunNotFound,
    SessionNotFound,
    StorageError,
    UsageError,
)
from harnessd.facts.event import read_event

_ERRORS: dict[int, type[HarnessdError]] = {
    400: UsageError,
    404: UsageError,
    405: UsageError,
    409: Conflict,
    413: UsageError,
    415: UsageError,
    422: UsageError,
    423: Locked,
    507: StorageError,
}

_KINDS = (
    *(UsageError, HomeNotFound, NotAHome, InvalidName, SessionNotFound, RunNotFound),
    *(Conflict, Locked, StorageError, HistoryError, ModelUnavailable, KeyMissing),
)
_BY_KIND = {error.kind(): error for error in _KINDS}
_REFUSALS = {"invalid-control", "forbidden", "not-found", "conflict", "unavailable", "refused"}


@dataclass(frozen=True, slots=True)
class Problem:
    """An answer that is a refusal. `current` is what stands now, where the daemon told it; `wait` is seconds."""

    status: int
    detail: str
    hint: str | None = None
    where: str | None = None
    current: Any = None
    kind: str = ""
    wait: float = 0.0

    @property
    def passing(self) -> bool:
        """Whether the same request may well succeed a little later."""
        return self.status in {408, 429, 502, 503, 504}

    def error(self) -> HarnessdError:
        """The problem as an exception."""
        if self.status == 401:
            hint = (
                "set HARNESSD_TOKEN to the daemon's, or unset it for the one in the file `token` of its state directory"
            )
            return HarnessdError(self.detail, hint=hint)
        kind = _BY_KIND.get(self.kind) or _ERRORS.get(self.status, HarnessdError)
        return kind(self.detail, where=self.where, hint=self.hint)

    @property
    def refusal(self) -> bool:
        """Whether a control was refused; else it did not come as far as that."""
        return self.kind in _REFUSALS


def read_problem(status: int, body: bytes, headers: Mapping[str, str]) -> Problem:
    """The problem in an answer with that status; one that is no JSON is read as text."""
    try:
        data = from_json(body)
    except ValueError:
        data = {}
    said = data if isinstance(data, dict) else {}
    detail = said.get("detail") or said.get("title") or body[:200].decode("utf-8", "replace").strip()
    return Problem(
        status=status,
        detail=str(detail or f"the daemon answered with status {status}"),
        hint=_text(said.get("hint")),
        where=_text(said.get("where")),
        current=_current(said.get("current")),
        kind=str(said.get("type", "")).rpartition(":")[2],
        wait=_seconds(headers.get("Retry-After", "")),
    )


def _text(data: Any) -> str | None:
    return data if isinstance(data, str) else None


def _current(data: Any) -> Any:
    """A fact comes back as the event that it is."""
    return read_event(data) if isinstance(data, dict) and "seq" in data and "type" in data else data


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0
