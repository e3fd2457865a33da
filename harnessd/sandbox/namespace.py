"""How the processes of a sandbox are held from before the first one starts until the last one is gone.

The kernel lets go of the first process of a pid namespace only after everything in it is dead, however it hid
(a session of its own, a double fork, ignored signals). Whoever kills that one and waits for it is done.

A gate stands before the command (`gate.py`), which waits for its plan. By then a keeper outside waits for the death of
this process, to do the same in its place. If this process dies before, the gate reads the end of its input and leaves.
So nothing is begun that nobody would end. (`--die-with-parent` would do neither: it is set late, and can leave
bubblewrap's own first process blocked for ever.)
"""

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import Process

GONE_WITHIN_SECONDS = 2.0
"""How long `end` waits for the kernel; only a process stuck in a device or a dead network file system needs longer."""

_TOLD_WITHIN_SECONDS = 0.5

_KEEPER = """read -r word; kill -9 "$1"; shift
for folder; do tries=40; until rmdir "$folder" || [ $((tries -= 1)) = 0 ]; do sleep 0.05; done; done"""


class Namespace:
    """The pid namespace of one bubblewrap. Use it with `with`; `groups` are control groups that go with it."""

    def __init__(self, groups: Sequence[str] = ()) -> None:
        self._groups = groups
        self._status, self._status_end = os.pipe()
        self._told = b""
        self._first: int | None = None
        self._keeper: Process | None = None

    @property
    def arguments(self) -> list[str]:
        """For bubblewrap: tell the first process's id here."""
        return ["--json-status-fd", str(self._status_end)]

    @property
    def inherited(self) -> tuple[int, int]:
        """The descriptors that bubblewrap must inherit: were it the writer alone, it would die of our death halfway."""
        return self._status_end, self._status

    async def hold(self) -> bool:
        """Call it once bubblewrap was started: whether its namespace is held. If not, the command must not run."""
        self._close_inherited()
        pid = await self._learn()
        if pid is None:
            return False
        with anyio.CancelScope(shield=True):  # cancelled in its middle, nobody would know the keeper
            command = ["/bin/sh", "-c", _KEEPER, "keeper", str(pid), *self._groups]
            self._keeper = await anyio.open_process(command, stdin=-1, stdout=-3, stderr=-3, start_new_session=True)
        return True

    async def end(self) -> None:
        """Kills everything in the namespace and returns when all of it is gone, or after two seconds; twice is fine."""
        self._close_inherited()
        if self._first is None:
            # Without its outer process the first one might stay, so it is looked for once more.
            with anyio.move_on_after(_TOLD_WITHIN_SECONDS):
                await self._learn()
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            with anyio.move_on_after(GONE_WITHIN_SECONDS):
                await anyio.wait_readable(self._first)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with suppress(ProcessLookupError):
                keeper.kill()
            await keeper.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_inherited()
        for handle in (self._status, self._first):
            if handle is not None:
                os.close(handle)

    async def _learn(self) -> int | None:
        """Takes hold of the first process as soon as bubblewrap names it; its id, None if it is gone."""
        while b"\n" not in self._told:
            await anyio.wait_readable(self._status)
            heard = os.read(self._status, 4096)
            if not heard:
                return None
            self._told += heard
        pid = int(json.loads(self._told.split(b"\n", 1)[0])["child-pid"])
        try:
            self._first = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        return pid

    def _close_inherited(self) -> None:
        """Only bubblewrap keeps this end, so that its death is seen."""
        if self._status_end >= 0:
            os.close(self._status_end)
            self._status_end = -1
