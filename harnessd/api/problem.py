"""How an error is told over HTTP: `application/problem+json` of RFC 9457, for every error there is.

The members beside the standard ones: `hint` (the way out), `where` (the file or field), and for a control that lost
a race `current` (what stands now: the recorded event, the approval, or the seq).
"""

from collections.abc import Mapping

from aiohttp import web

from harnessd.errors import (
    Conflict,
    HarnessdError,
    HistoryError,
    HomeNotFound,
    InvalidName,
    Locked,
    ModelUnavailable,
    NotAHome,
    RunNotFound,
    SessionNotFound,
    StorageError,
    UsageError,
)
from harnessd.facts.base import Record
from harnessd.facts.event import Event, write_event
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Approval

MEDIA_TYPE = "application/problem+json"
NAMESPACE = "urn:harnessd:problem:"

STATUS: tuple[tuple[type[HarnessdError], int], ...] = (
    (HomeNotFound, 404),
    (NotAHome, 404),
    (SessionNotFound, 404),
    (RunNotFound, 404),
    (InvalidName, 400),
    (UsageError, 400),
    (Conflict, 409),
    (HistoryError, 409),
    (Locked, 423),
    (ModelUnavailable, 503),
    (StorageError, 507),
    (HarnessdError, 500),
)
"""The status of each error of the tree, the narrowest kind first."""


class Problem(Exception):
    """Ends a request with a problem: `kind` names it for programs, in words joined by `-`."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        hint: str | None = None,
        where: str | None = None,
        current: Event | Approval | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.hint = hint or None
        self.where = where
        self.current = current
        self.headers = dict(headers or {})


class ProblemBody(Record):
    """A problem as it is on the wire. `type` ends in its kind; `instance` is the path that was asked for."""

    type: str = "about:blank"
    title: str = ""
    status: int = 500
    detail: str = ""
    instance: str | None = None
    hint: str | None = None
    where: str | None = None
    current: JsonObject | int | None = None


def problem_of(error: HarnessdError) -> Problem:
    """The problem that an error of the tree is."""
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return Problem(status, error.kind(), error.message, hint=error.hint, where=error.where)


def respond(problem: Problem, instance: str | None = None) -> web.Response:
    """The answer that tells the problem."""
    current = problem.current
    body = ProblemBody(
        type=NAMESPACE + problem.kind,
        title=problem.kind.replace("-", " ").capitalize(),
        status=problem.status,
        detail=problem.detail,
        instance=instance,
        hint=problem.hint,
        where=problem.where,
        current=current if current is None or isinstance(current, int) else _written(current),
    )
    return web.Response(
        body=body.model_dump_json(exclude_none=True).encode(),
        status=problem.status,
        headers=problem.headers,
        content_type=MEDIA_TYPE,
    )


def _written(current: Event | Approval) -> JsonObject:
    return write_event(current) if isinstance(current, Event) else current.model_dump(mode="json", exclude_none=True)
