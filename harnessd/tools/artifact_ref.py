"""What is put on record about a file that was kept, and how a result refers to it."""

from harnessd.facts.message import FilePart, ImagePart
from harnessd.facts.run import ArtifactRef
from harnessd.home.hidden import strip_hidden
from harnessd.tools.artifact_store import Kept
from harnessd.tools.tool import ToolContext

TITLE_AT_MOST = 200


def ref_of(kept: Kept, artifact_id: str, context: ToolContext, *, title: str, kind: str = "") -> ArtifactRef:
    """The reference to what the call kept; without a `kind` the media type says what it is."""
    family = kept.media_type.split("/")[0]
    return ArtifactRef(
        id=artifact_id,
        type=kind or (family if family in {"image", "audio", "video"} else "file"),
        title=" ".join(strip_hidden(title.encode(errors="replace").decode()).split())[:TITLE_AT_MOST],
        owner_run_id=context.run_id,
        created_by_tool_call_id=context.call_id,
        content_ref=kept.content_ref,
        media_type=kept.media_type,
        size=kept.size,
        sha256=kept.sha256,
    )


def file_part(ref: ArtifactRef) -> FilePart:
    """The artifact in a result: for the model a path that `read` takes."""
    return FilePart(path=ref.content_ref, media_type=ref.media_type, size=ref.size, content_ref=ref.content_ref)


def shown_part(ref: ArtifactRef) -> FilePart | ImagePart:
    """The same, a picture as a picture."""
    if ref.media_type.startswith("image/"):
        return ImagePart(media_type=ref.media_type, content_ref=ref.content_ref)
    return file_part(ref)
