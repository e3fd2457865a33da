"""How the agent hands something over: `artifact` keeps a file as it is now, beyond what becomes of the original."""

import os
from pathlib import PurePosixPath

import anyio.from_thread
import anyio.to_thread

from harnessd.facts.event import ArtifactCreated, ArtifactUpdated, Event
from harnessd.facts.message import JsonObject, TextPart
from harnessd.facts.run import ArtifactRef
from harnessd.ids import derived_id
from harnessd.permissions.call import Target
from harnessd.permissions.paths import resolve_target
from harnessd.tools.artifact_content import Content, KnownHashes, open_artifact
from harnessd.tools.artifact_ref import TITLE_AT_MOST, file_part, ref_of
from harnessd.tools.artifact_store import discard, keep_file, place_of
from harnessd.tools.files import decided
from harnessd.tools.rooted import Unusable
from harnessd.tools.tool import Outcome, Tool, ToolContext, failed, succeeded

_NAMED = 10


def artifact_tool() -> Tool:
    """`artifact`."""
    return Tool(
        name="artifact",
        own_name="artifact",
        kind="builtin",
        description=(
            "Hand a finished file over to the user: a copy is kept as an artifact. Use it when a result that the user "
            "wants to keep is ready; not for drafts and notes of your own. With the `id` of an earlier "
            "artifact the file becomes its new version. The file stays where it is; pack a folder into one file first."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "Path from the home, e.g. work/report.pdf"},
                "title": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": TITLE_AT_MOST,
                    "description": "as the user sees it, e.g. Report on tea",
                },
                "type": {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,31}$", "description": "e.g. report, chart"},
                "id": {"type": "string", "description": "The artifact to renew, e.g. art_…"},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        run=_publish,
        effect="read",  # of its place in the session's own record; a second run makes the same file again
        idempotent=True,
        timeout=120,
        targets=_source,
    )


def _source(context: ToolContext, arguments: JsonObject) -> tuple[Target, ...]:
    return (resolve_target(context.roots, str(arguments["path"]), "read"),)


async def _publish(context: ToolContext, arguments: JsonObject) -> Outcome:
    source = decided(context)
    if isinstance(source, Outcome):
        return source
    # To be cancelled between blocks only: a file that got its name also gets its fact.
    return await anyio.to_thread.run_sync(_keep, context, arguments, source)


def _keep(context: ToolContext, arguments: JsonObject, source: Target) -> Outcome:
    own = derived_id("art", context.run_id, context.idempotency_key or context.call_id)
    renewed = arguments.get("id")
    before = next((ref for ref in context.artifacts if ref.id == (renewed or own)), None)
    if renewed is not None and before is None:
        return failed("not_found", f"There is no artifact {renewed} in this session. {_present(context)}")
    steps = (own,) if renewed is None else (str(renewed), own)
    place = place_of(context.home, context.agent_id, context.session_id, *steps)
    ours = before is not None and PurePosixPath(before.content_ref).parent == place.below
    if before is not None and ours and _is_whole(context, before):
        return _published(before, ())  # this very call recorded it, and only its result was lost
    try:
        kept = keep_file(source.path, place, heed=anyio.from_thread.check_cancelled)
    except Unusable as error:
        return failed("unusable", f"{error}. Nothing was published.")
    title = arguments.get("title") or (before.title if before else PurePosixPath(source.path).name)
    kind = arguments.get("type") or (before.type if before else "")
    ref = ref_of(kept, str(renewed or own), context, title=str(title), kind=str(kind))
    if before is None or renewed is None:
        return _published(ref, (ArtifactCreated(artifact=ref),))
    if not ours and (before.sha256, before.title, before.type) == (ref.sha256, ref.title, ref.type):
        discard(place, kept)
        return succeeded(f"The artifact {before.id} holds exactly this already; nothing was changed.")
    return _published(ref, (ArtifactUpdated(artifact=ref),))


def _is_whole(context: ToolContext, ref: ArtifactRef) -> bool:
    found = open_artifact(context.home, context.agent_id, context.session_id, ref, KnownHashes())
    if isinstance(found, Content):
        os.close(found.fd)
    return isinstance(found, Content)


def _published(ref: ArtifactRef, events: tuple[Event, ...]) -> Outcome:
    text = TextPart(text=f'Published "{ref.title}" as {ref.id}.')
    return Outcome("ok", (text, file_part(ref)), changed=True, events=events)


def _present(context: ToolContext) -> str:
    shown = [f"{ref.id} ({ref.title})" for ref in context.artifacts[-_NAMED:]]
    return f"There are: {', '.join(shown)}." if shown else "There is none yet; leave `id` out."
