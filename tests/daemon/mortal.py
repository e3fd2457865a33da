"""A process that runs one message and kills itself at the n-th step of writing its journal.

Steps are: before each write, after each line of it, after the whole write, and after each sync. Prints the seq of
everything that it was told.
"""

import os
import signal
import sys
from pathlib import Path

import anyio

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted
from harnessd.facts.control import Invoke
from harnessd.journal.file import Disk
from tests.daemon.living import make_settings


class Mortal(Disk):
    """A disk whose process dies at a given step."""

    def __init__(self, point: int) -> None:
        self._left = point

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        self._step()
        lines = bytes(data).splitlines(keepends=True)
        done = 0
        for line in lines:
            done += os.pwrite(fd, line, offset + done)
            self._step()
        return done

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._step()

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(base: Path, url: str, point: int) -> None:
    settings = make_settings(base, url)
    async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}, disk=Mortal(point)) as runtime:
        session = await runtime.session(runtime.home("ada"))
        answer = await session.control(Invoke(input="go"))
        assert isinstance(answer, Accepted)
        print(answer.seq, flush=True)  # noqa: T201 - what the parent reads
        async for item in session.subscribe(0):
            seq = getattr(item, "seq", None)
            if seq is not None:
                print(seq, flush=True)  # noqa: T201 - what the parent reads
            if item.type == "run.finished":  # type: ignore[union-attr]
                break


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
