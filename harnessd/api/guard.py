"""Who is let in: whoever has the token and asks by one of our own names. Nobody else makes anything happen.

The token keeps strangers out. Host and Origin are checked as well, so that a page in the operator's browser, which
reaches 127.0.0.1 under any name it likes, gets no further than a stranger does.
"""

import hmac
import math
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from harnessd.api.bucket import Bucket
from harnessd.api.door import Door
from harnessd.api.problem import Problem

OPEN = frozenset({"/healthz", "/readyz"})
"""What anybody may ask, since it tells and does nothing."""

OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def guard(door: Door) -> Middleware:
    """The middleware that asks each request for its host, its origin and its token, and keeps the rate."""
    token = door.token.encode()
    if not token:
        raise ValueError("a door without a token is no door")
    names = OWN_NAMES | {_bracketed(host.lower()) for host in door.hosts}
    known = Bucket(door.limits.rate, door.limits.burst)
    strangers = Bucket(door.limits.rate, door.limits.burst)

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN:
            return await handler(request)
        try:
            _check_host(request, names)
            _check_origin(request)
            _check_token(request, token)
        except Problem:
            _keep_rate(strangers)  # a flood of wrong tokens must not keep out who has the right one
            raise
        _keep_rate(known)
        return await handler(request)

    return guarded


def _check_host(request: web.Request, names: frozenset[str]) -> None:
    given = request.headers.getall(hdrs.HOST, [])
    if len(given) != 1:
        raise Problem(400, "bad-host", "the request must name its host, once")
    if _over_unix_socket(request):
        return  # no browser gets here, and clients name what they like
    for host in {given[0], request.host}:  # the second is that of the request line, if it holds a whole URL
        if _name_of(host) not in names:
            hint = "ask by 127.0.0.1 or localhost; other names stand in the setting allowedHosts of harnessd.yaml"
            raise Problem(403, "foreign-host", "the daemon does not answer to this host", hint=hint)


def _check_origin(request: web.Request) -> None:
    given = request.headers.getall(hdrs.ORIGIN, [])
    host = request.headers[hdrs.HOST].lower()
    if any(origin.lower() not in {f"http://{host}", f"https://{host}"} for origin in given) or len(given) > 1:
        raise Problem(403, "foreign-origin", "pages of other origins may ask for nothing here")


def _check_token(request: web.Request, token: bytes) -> None:
    given = request.headers.getall(hdrs.AUTHORIZATION, [])
    scheme, _, shown = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    right = hmac.compare_digest(shown.strip().encode("utf-8", "surrogateescape"), token)
    if scheme.lower() != "bearer" or not right:
        raise Problem(
            401,
            "no-token" if not given else "wrong-token",
            "the request has no valid token",
            hint="send the header Authorization: Bearer TOKEN; the token is in the file `token` of the state directory",
            headers={hdrs.WWW_AUTHENTICATE: 'Bearer realm="harnessd"'},
        )


def _keep_rate(bucket: Bucket) -> None:
    wait = bucket.wait()
    if wait:
        seconds = str(math.ceil(wait))
        raise Problem(429, "too-many-requests", "requests come too fast", headers={hdrs.RETRY_AFTER: seconds})


def _over_unix_socket(request: web.Request) -> bool:
    transport = request.transport
    return transport is not None and not isinstance(transport.get_extra_info("sockname"), tuple)


def _name_of(host: str) -> str:
    """The host without its port: `[::1]:7433` → `[::1]`; empty if the port is no number."""
    name, port = host.lower(), ""
    if host.startswith("["):
        name, bracket, port = name.partition("]")
        name += bracket
    elif ":" in name:
        name, _, port = name.partition(":")
        port = f":{port}"
    return name if not port or (port[0] == ":" and port[1:].isascii() and port[1:].isdigit()) else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
