"""Where everything lies that a session leaves on disk."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """The journal and the checkpoint are files, the others folders; any of them may be absent."""

    agent_id: str
    session_id: str
    journal: Path
    checkpoint: Path
    evicted: Path
    artifacts: Path
