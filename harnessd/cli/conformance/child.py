"""The kit's own daemon: the real one, on a disk that kills it."""

import os
from pathlib import Path

from harnessd.cli.conformance.mortal import Mortal
from harnessd.daemon.config import load_settings


async def main(notes: Path, step: int | None) -> int:
    """Serves what the environment says until it is told to end, or dies. Returns the exit code.

    `step` is the step of writing its journals at which it dies; 0 counts them in the file `notes`, None is a disk as
    any other.
    """
    from harnessd.api.serve import serve

    disk = None if step is None else Mortal(step, notes)
    return await serve(load_settings(env=os.environ), told=_to_nobody, disk=disk)


def _to_nobody(_: object) -> None:
    """Its own file tells where it listens."""
