"""Where do the MCP servers of a test live?"""

from pathlib import Path

from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.tools.accepted import AcceptedTools
from harnessd.tools.connection import Surroundings
from harnessd.tools.eras import Eras


def surroundings(home: Path, *, accepted: Path | None = None, eras: Path | None = None) -> Surroundings:
    """In the sandbox of the home at `home`; what is known of them at these paths, None for nowhere."""
    sandbox = Sandbox(home, network=True, machine="as-user")
    return Surroundings(sandbox, None if accepted is None else AcceptedTools(accepted), Eras(eras))
