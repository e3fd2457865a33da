"""What becomes of the files that a call brings along with its text: each is an artifact, the result refers to it."""

from dataclasses import replace

import anyio.to_thread

from harnessd.facts.event import ArtifactCreated, Event
from harnessd.facts.message import Part, TextPart
from harnessd.ids import derived_id
from harnessd.tools.artifact_ref import ref_of, shown_part
from harnessd.tools.artifact_store import keep_bytes, place_of
from harnessd.tools.rooted import Unusable
from harnessd.tools.tool import Outcome, Produced, ToolContext

FILES_AT_MOST = 16
BYTES_AT_MOST = 32 * 1024 * 1024
"""Files and bytes of one call that are kept."""


async def keep_produced(context: ToolContext, outcome: Outcome) -> Outcome:
    """The outcome with its files on disk, their facts and their references; what is not kept is said in its place."""
    if not outcome.files:
        return outcome
    return await anyio.to_thread.run_sync(_keep, context, outcome)


def _keep(context: ToolContext, outcome: Outcome) -> Outcome:
    parts: list[Part] = []
    events: list[Event] = list(outcome.events)
    waiting = [(min(max(file.at, 0), len(outcome.parts)), file) for file in outcome.files]
    waiting.sort(key=lambda placed: placed[0])
    number, room = 0, BYTES_AT_MOST
    for position in range(len(outcome.parts) + 1):
        while number < len(waiting) and waiting[number][0] == position:
            file = waiting[number][1]
            kept = _kept(context, file, number, room)
            parts.append(kept if isinstance(kept, TextPart) else shown_part(kept.artifact))
            if isinstance(kept, ArtifactCreated):
                events.append(kept)
                room -= kept.artifact.size
            number += 1
        parts += outcome.parts[position : position + 1]
    return replace(outcome, parts=tuple(parts), events=tuple(events), files=())


def _kept(context: ToolContext, file: Produced, number: int, room: int) -> ArtifactCreated | TextPart:
    """The file's fact, or a note on why there is none. A rerun of the call makes the same artifact."""
    if number >= FILES_AT_MOST:
        return _note(file, f"a call brings along up to {FILES_AT_MOST} files")
    if len(file.data) > room:
        return _note(file, f"the files of a call have up to {BYTES_AT_MOST:,} bytes in all")
    own = derived_id("art", context.run_id, f"{context.idempotency_key or context.call_id}/{number}")
    try:
        place = place_of(context.home, context.agent_id, context.session_id, own)
        kept = keep_bytes(file.data, file.name, place, claimed=file.media_type)
    except Unusable as error:
        return _note(file, str(error))
    return ArtifactCreated(artifact=ref_of(kept, own, context, title=file.title or file.name))


def _note(file: Produced, why: str) -> TextPart:
    name = file.name.encode(errors="replace").decode()[:100]
    return TextPart(text=f"[{name}, {len(file.data):,} bytes; not kept: {why}]")
