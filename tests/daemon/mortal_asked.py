"""A process that runs one message whose tool call asks a person, answers it, and kills itself at the n-th step of
writing its journal; at step 0 it lives and waits to be killed, saying `asked` once the question is open."""

import sys
from pathlib import Path

import anyio

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted
from harnessd.facts.control import Invoke, Resume
from tests.daemon.living import make_settings
from tests.daemon.mortal import Mortal


async def main(base: Path, url: str, point: int) -> None:
    settings = make_settings(base, url)
    async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}, disk=Mortal(point)) as runtime:
        session = await runtime.session(runtime.home("ada"))
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        state = await session.idle()
        if point == 0:
            await session.snapshot()
            print("asked", flush=True)  # noqa: T201 - what the parent reads
            await anyio.sleep_forever()
        while state.pending_approvals:
            asked = state.pending_approvals[0]
            answer = await session.control(Resume(approval_id=asked.id, decision="allow", arguments={"cups": 2}))
            assert isinstance(answer, Accepted)
            print(asked.id, flush=True)  # noqa: T201 - what the parent reads
            state = await session.idle()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
