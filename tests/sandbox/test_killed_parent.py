"""Nothing of a sandboxed command outlives the process that asked for it, whenever that one is killed."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")

ASK = """
import sys, anyio
from pathlib import Path
from harnessd.sandbox.bubblewrap import Sandbox

async def main():
    home = Path(sys.argv[1])
    print("begins", flush=True)
    one = f"sleep 300; : {home}/mark"
    box = Sandbox(home, confined=sys.argv[2] == "True")
    await box.run(["sh", "-c", f"setsid sh -c '{one}' & {one}"], seconds=60)

anyio.run(main)
"""
DELAYS = [0.0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.02, 0.05]


@pytest.mark.parametrize("confined", [True, False], ids=["in a sandbox", "in none"])
@pytest.mark.parametrize("after", DELAYS)
def test_o2_nothing_outlives_a_killed_parent(tmp_path: Path, after: float, confined: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for _ in range(2):
        asks = subprocess.Popen([sys.executable, "-c", ASK, str(home), str(confined)], stdout=subprocess.PIPE)
        assert asks.stdout is not None
        assert asks.stdout.readline() == b"begins\n"
        until = time.monotonic() + after
        while time.monotonic() < until:
            pass
        asks.send_signal(signal.SIGKILL)
        asks.wait()
        asks.stdout.close()
        until = time.monotonic() + 3
        while left := alive(home):
            assert time.monotonic() < until, left


def alive(home: Path) -> list[bytes]:
    """The command lines of all that runs for that home, bubblewrap included."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if str(home).encode() in line:
            found.append(line)
    return found
