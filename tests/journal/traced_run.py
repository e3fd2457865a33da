"""A whole run in a process of its own, to be watched by strace: each thing it is told, it says on standard output.

The run reads a long file, writes one with a person's approval, and ends. What is printed: `answered SEQ` for each
control that was accepted, `told SEQ` for each event that a reader got.
"""

import os
import sys
from pathlib import Path

import anyio

from harnessd.daemon.session import Accepted, Session
from harnessd.facts.control import Invoke, Resume
from harnessd.facts.event import Event
from harnessd.models.script import Answer
from tests.daemon.living import call, living

EFFECT = "effect.txt"
SCRIPT = [
    call("read", path="AGENTS.md"),
    call("read", path="work/long.txt"),
    call("write", path=f"work/{EFFECT}", content="done once"),
    Answer("Done."),
]


async def main(base: Path) -> None:
    long = "".join(f"line {number} of many\n" for number in range(20_000))
    async with (
        living(base, SCRIPT, **{"work/long.txt": long}) as one,
        one.runtime.visit(one.home) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read, session)
        await accepted(session, Invoke(input="go"))
        (approval,) = (await session.idle()).pending_approvals
        await accepted(session, Resume(approval_id=approval.id, decision="allow"))
        state = await session.idle()
        assert state.last_run is not None
        assert state.last_run.reason == "completed", state.last_run
        assert (one.home.work / EFFECT).read_text() == "done once"


async def accepted(session: Session, control: Invoke | Resume) -> None:
    answer = await session.control(control)
    assert isinstance(answer, Accepted), answer
    os.write(1, b"answered %d\n" % answer.seq)


async def read(session: Session) -> None:
    async for item in session.subscribe():
        if isinstance(item, Event):
            os.write(1, b"told %d\n" % item.seq)
            if item.type == "run.finished":
                return


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
