"""after_tool: an oversized result goes to a file; the model keeps its beginning, its end and a reference.

What is too long, and what of it the model sees, says `tools.trim`; this keeps the whole.
"""

import hashlib
import os
from pathlib import Path

import anyio

from harnessd.errors import StorageError
from harnessd.facts.event import ToolResultEvicted
from harnessd.hooks.context import RunContext
from harnessd.journal.file import make_directory, sync_directory


async def evict(context: RunContext, call_id: str, data: bytes) -> ToolResultEvicted | None:
    """Puts the whole text of a call's result, in UTF-8, on disk and says where; None if the disk refuses."""
    state = context.state
    path = context.home.evicted(state.agent_id, state.session_id) / f"{call_id}.txt"
    try:
        await anyio.to_thread.run_sync(_write, path, data)
    except (OSError, StorageError):
        return None
    return ToolResultEvicted(
        tool_call_id=call_id,
        content_ref=str(path.relative_to(context.home.path)),
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _write(path: Path, data: bytes) -> None:
    make_directory(path.parent)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)
