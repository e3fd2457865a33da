"""Why did a connection to an MCP server, or a call, fail?"""

import ssl
from typing import Any

from harnessd.facts.run import Failure
from harnessd.tools.mcp_remote import NotLetIn
from harnessd.tools.mcp_stdio import CannotStart

_LIBRARIES = {"httpx2", "httpcore2", "anyio", "mcp", "mcp_types"}


class TookTooLong(Exception):
    """A call was not answered in time."""


def failure_of(error: BaseException) -> Failure | None:
    """What to tell; None if the error is none that a server or a transport brings about (it is a fault of ours).

    Looks into exception groups, since the library raises them around what really happened.
    """
    leaves = _leaves(error)
    for leaf in leaves:
        if isinstance(leaf, CannotStart):
            return Failure(kind="cannot_start", message=str(leaf), hint=leaf.hint)
        if isinstance(leaf, TookTooLong):
            return Failure(kind="timeout", message=str(leaf))
        if isinstance(leaf, NotLetIn):
            return Failure(kind="not_let_in", message=str(leaf), hint=leaf.hint)
    notes = "".join(f"; {note}" for leaf in (error, *leaves) for note in getattr(leaf, "__notes__", ()))
    for leaf in leaves:
        failure = _spoken(leaf, notes) or _unreachable(leaf, notes)
        if failure is not None:
            return failure
    return None


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def _spoken(leaf: BaseException, notes: str) -> Failure | None:
    """What the server said, or failed to say."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
    from pydantic import ValidationError

    if isinstance(leaf, MCPError):
        kind = {CONNECTION_CLOSED: "disconnected", REQUEST_TIMEOUT: "timeout"}.get(leaf.error.code, "refused")
        return Failure(kind=kind, message=f"{leaf}{notes}"[:1000])
    if isinstance(leaf, ValidationError):
        return Failure(kind="not_mcp", message=f"it answered something that is not MCP: {_first_error(leaf)}")
    return None


def _unreachable(leaf: BaseException, notes: str) -> Failure | None:
    if type(leaf).__module__.split(".")[0] not in _LIBRARIES and not isinstance(leaf, OSError):
        return None
    cause: BaseException | None = leaf
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            hint = "mend its certificate, or make its issuer known to this machine (ca-certificates, SSL_CERT_FILE)"
            return Failure(kind="not_secure", message=f"the secure connection failed: {cause}"[:1000], hint=hint)
        cause = cause.__cause__ or cause.__context__
    kind = "no connection" if type(leaf).__name__ == "ConnectError" else type(leaf).__name__
    hint = "check the url in tools.json, and whether the server runs"
    return Failure(kind="unreachable", message=f"{kind}: {leaf}{notes}"[:1000], hint=hint)


def _first_error(error: Any) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"[:500]
