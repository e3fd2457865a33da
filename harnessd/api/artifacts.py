"""How is what an agent produced handed out? As the bytes that were recorded, whole or in part, or not at all."""

import os
from dataclasses import dataclass
from functools import partial

import anyio.to_thread
from aiohttp import hdrs, web

from harnessd.api.disposition import disposition, media_type
from harnessd.api.keys import HASHES, RUNTIME
from harnessd.api.names import home_of, session_of
from harnessd.api.problem import Problem
from harnessd.api.ranges import Span, Unsatisfiable, span_of
from harnessd.facts.run import ArtifactRef
from harnessd.tools.artifact_content import Altered, Content, Gone, open_artifact

CHUNK = 256 * 1024


async def content(request: web.Request) -> web.StreamResponse:
    """GET …/artifacts/{id}, with `Range`, `If-Range` and `If-None-Match`."""
    home, session_id = await home_of(request), session_of(request)
    async with request.app[RUNTIME].visit(home, session_id) as session:
        agent_id, refs = session.agent_id, session.state.artifact_refs
    ref = next((one for one in refs if one.id == request.match_info["artifact"]), None)
    if ref is None:
        raise Problem(404, "no-such-artifact", "this session has no artifact of that id")
    known, trusted = request.app[HASHES], request.app[RUNTIME].settings.trusted_links
    open_it = partial(open_artifact, home, agent_id, session_id, ref, known, trusted_links=trusted)
    match await anyio.to_thread.run_sync(open_it):
        case Gone(why=why):
            raise Problem(410, "artifact-gone", f"the artifact is gone: {why}", where=ref.content_ref)
        case Altered(why=why):
            raise Problem(410, "artifact-altered", f"the artifact is not served: {why}", where=ref.content_ref)
        case Content(fd=fd, size=size):
            try:
                return await _send(request, fd, _Sent(ref, size))
            finally:
                os.close(fd)


@dataclass(frozen=True, slots=True)
class _Sent:
    """An artifact that is to be sent, and how many bytes it has."""

    ref: ArtifactRef
    size: int

    @property
    def etag(self) -> str:
        return f'"{self.ref.sha256}"'

    def headers(self) -> dict[str, str]:
        kind = media_type(self.ref.media_type)
        return {
            hdrs.ETAG: self.etag,
            hdrs.ACCEPT_RANGES: "bytes",
            hdrs.CACHE_CONTROL: "private, no-cache",
            hdrs.CONTENT_TYPE: kind,
            hdrs.CONTENT_DISPOSITION: disposition(kind, os.path.basename(self.ref.content_ref)),  # noqa: PTH119
            # A page that an agent wrote must not act with what the console may do.
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
        }


async def _send(request: web.Request, fd: int, sent: _Sent) -> web.StreamResponse:
    headers = sent.headers()
    if _matches(request.headers.get(hdrs.IF_NONE_MATCH), sent.etag):
        return web.Response(status=304, headers=headers)
    span: Span | None = None
    if request.method == hdrs.METH_GET and request.headers.get(hdrs.IF_RANGE, sent.etag) == sent.etag:
        asked = span_of(request.headers.getall(hdrs.RANGE, []), sent.size)
        if isinstance(asked, Unsatisfiable):
            unmet = {str(hdrs.CONTENT_RANGE): f"bytes */{sent.size}"}
            raise Problem(416, "range-not-satisfiable", f"the artifact has {sent.size} bytes", headers=unmet)
        span = asked
    whole = span or Span(0, sent.size)
    if span is not None:
        headers[hdrs.CONTENT_RANGE] = f"bytes {span.start}-{span.end - 1}/{sent.size}"
    response = web.StreamResponse(status=206 if span else 200, headers=headers)
    response.content_length = whole.end - whole.start
    await response.prepare(request)
    at = whole.start
    while at < whole.end and request.method != hdrs.METH_HEAD:
        piece = await anyio.to_thread.run_sync(os.pread, fd, min(CHUNK, whole.end - at), at)
        if not piece:
            raise ConnectionResetError("the artifact's file became shorter while it was sent")
        await response.write(piece)
        at += len(piece)
    await response.write_eof()
    return response


def _matches(header: str | None, etag: str) -> bool:
    """Whether `If-None-Match` names the tag; weak tags count (RFC 9110, 13.1.2)."""
    if header is None:
        return False
    return header.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in header.split(",")}
