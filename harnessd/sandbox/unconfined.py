"""How a command runs where the operator wants no sandbox: as this user, with limits, and with nothing left behind."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from harnessd.sandbox.gate import READY
from harnessd.sandbox.outcome import NO_PROGRAM, Unavailable
from harnessd.sandbox.plan import Plan, gate_command
from harnessd.sandbox.started import LEFT_WITHIN_SECONDS, Held, Started, exited, first_word

_GONE_WITHIN_SECONDS = 2.0


@asynccontextmanager
async def start_unconfined(plan: Plan, cwd: Path, *, errors_apart: bool) -> AsyncIterator[Started | Unavailable]:
    """The running command under a keeper, which ends all of its processes when the block ends or this process dies."""
    if not await anyio.Path(cwd).is_dir():
        yield Unavailable(f"the folder {cwd} does not exist", "make it, or name another one")
        return
    lifeline, end = os.pipe()
    keeper: _Keeper | None = None
    try:
        with anyio.CancelScope(shield=True):  # cancelled in its middle, nobody would know the process yet
            process = await anyio.open_process(
                gate_command(),
                stdin=-1,
                stdout=-1,
                stderr=-1 if errors_apart else -2,
                env={},
                cwd=cwd,
                start_new_session=True,
                pass_fds=(lifeline,),
            )
        keeper = _Keeper(process, end)
        await plan.send(process, lifeline)
        word, said = await first_word(process)
        if word == READY:
            yield Started(process, keeper)
        else:
            hint = "see what is missing: harnessd doctor" if said else NO_PROGRAM
            said = said or f"there is no program {plan.command[0]!r}"
            yield Unavailable(f"this cannot be started: {said}", hint)
    finally:
        os.close(lifeline)
        if keeper is None:
            os.close(end)
        else:
            with anyio.CancelScope(shield=True):
                await keeper.end()
                await keeper.process.aclose()


class _Keeper(Held):
    def __init__(self, process: Process, lifeline: int) -> None:
        self.process = process
        self._lifeline = lifeline

    async def end(self) -> None:
        """The keeper ends everything when its lifeline does; was it killed itself, its group is what can be found."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        with anyio.move_on_after(_GONE_WITHIN_SECONDS):
            await exited(self.process)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with anyio.move_on_after(LEFT_WITHIN_SECONDS):
            await exited(self.process)
