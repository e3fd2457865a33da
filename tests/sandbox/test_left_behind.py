"""F5, O2: children that hide are gone after the end, the timeout, a stop, an error, and a killed parent: a matrix."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from harnessd.sandbox.bubblewrap import Ran, Sandbox, Started, TimedOut, Unavailable
from tests.sandbox.boxes import alive, mark, sandbox

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

DAEMON = (
    "python3 -c 'import os, sys\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    'os.chdir("/"); os.closerange(0, 1000)\n'
    'os.execvp("sleep", ["sleep", sys.argv[1]])\' '
)
HIDING = {
    "plain": "sleep MARK &",
    "own session": "setsid sleep MARK &",
    "double fork": "(setsid -f setsid sleep MARK &)",
    "ignores signals": "(trap '' TERM HUP INT QUIT; exec sleep MARK) &",
    "no hang-up": "nohup sleep MARK > /dev/null 2>&1 &",
    "held pipes": "(setsid sleep MARK 3>&1 4>&2 &)",
    "closed files": "setsid sleep MARK < /dev/null > /dev/null 2>&1 &",
    "daemonised": f"{DAEMON} MARK",
    "stopped": "(setsid sh -c 'kill -STOP $$; exec sleep MARK' &)",
    "forks again and again": "(setsid sh -c 'while :; do sleep MARK & sleep 0.05; done' &)",
}
CONFINED = [True, False]


def hides(home: Path, hiding: str) -> str:
    return HIDING[hiding].replace("MARK", mark(home))


@pytest.mark.parametrize("confined", CONFINED)
@pytest.mark.parametrize("hiding", HIDING)
async def test_f5_nothing_is_left_after_the_end(home: Path, hiding: str, confined: bool) -> None:
    began = time.monotonic()
    box = sandbox(home, confined=confined)
    ran = await box.run(["sh", "-c", f"{hides(home, hiding)}\nsleep 0.05; echo begun; exit 3"], seconds=30)
    assert isinstance(ran, Ran)
    assert (ran.status, "begun\n" in ran.output) == (3, True)
    assert time.monotonic() - began < 3
    assert not alive(home)


@pytest.mark.parametrize("confined", CONFINED)
@pytest.mark.parametrize("hiding", HIDING)
async def test_f5_nothing_is_left_after_a_timeout(home: Path, hiding: str, confined: bool) -> None:
    box, line = sandbox(home, confined=confined), f"{hides(home, hiding)}\necho begun; sleep {mark(home)}"
    for seconds in (0.2, 2.0, 10.0):  # a busy machine takes longer to begin, and what has not begun leaves nothing
        began = time.monotonic()
        ran = await box.run(["sh", "-c", line], seconds=seconds)
        assert isinstance(ran, TimedOut)
        assert time.monotonic() - began < seconds + 1
        assert not alive(home)
        if "begun\n" in ran.output:
            return
    pytest.fail("it never began")


@pytest.mark.parametrize("confined", CONFINED)
@pytest.mark.parametrize("left", ["by a stop", "by an error", "by its end", "by an end asked for twice"])
async def test_f5_nothing_is_left_when_the_block_is_left(home: Path, left: str, confined: bool) -> None:
    script = "\n".join(hides(home, hiding) for hiding in HIDING)
    box = sandbox(home, confined=confined)

    async def work() -> None:
        async with box.start(["sh", "-c", f"{script}\necho begun; sleep {mark(home)}"]) as started:
            assert isinstance(started, Started)
            said = b""
            while b"begun\n" not in said:
                said += await started.output.receive()
            assert alive(home)
            if left == "by a stop":
                scope.cancel()
                await anyio.sleep_forever()
            elif left == "by an error":
                raise KeyError(left)
            elif left == "by an end asked for twice":
                await started.end()
                assert not alive(home)
                await started.end()

    began = time.monotonic()
    with anyio.CancelScope() as scope:
        if left == "by an error":
            with pytest.raises(KeyError):
                await work()
        else:
            await work()
    assert time.monotonic() - began < 3
    assert not alive(home)


ASK = """
import sys, anyio
from pathlib import Path
from harnessd.sandbox.bubblewrap import Sandbox

async def main():
    async with Sandbox(Path(sys.argv[1]), confined=sys.argv[2] == "True").start(["sh", "-c", sys.argv[3]]) as started:
        async for chunk in started.output:
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()

anyio.run(main)
"""


@pytest.mark.parametrize("confined", CONFINED)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_o2_nothing_is_left_when_the_parent_is_killed(home: Path, number: int, confined: bool) -> None:
    script = "\n".join(hides(home, hiding) for hiding in HIDING) + f"\necho begun; sleep {mark(home)}"
    asks = subprocess.Popen([sys.executable, "-c", ASK, str(home), str(confined), script], stdout=subprocess.PIPE)
    assert asks.stdout is not None
    line = b""
    while line != b"begun\n":
        line = asks.stdout.readline()
        assert line
    assert alive(home)
    asks.send_signal(number)
    asks.wait()
    asks.stdout.close()
    until = time.monotonic() + 3
    while left := alive(home):
        assert time.monotonic() < until, left
        time.sleep(0.01)


async def test_f5_without_a_sandbox_even_a_killed_keeper_leaves_no_group(home: Path) -> None:
    box = Sandbox(home, confined=False)
    async with box.start(["sh", "-c", f"sleep {mark(home)} & kill -9 $PPID; echo done; wait"]) as started:
        assert not isinstance(started, Unavailable)
        assert await started.wait() == 128 + 9
    until = time.monotonic() + 3
    while left := alive(home):
        assert time.monotonic() < until, left
        await anyio.sleep(0.01)
