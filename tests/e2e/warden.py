"""Runs one command and says what of it outlived it: orphans come to this process, whoever started them.

`python warden.py FILE COMMAND…` writes the command lines of processes that still live three seconds after the
command's end into FILE, one a line, kills them, and ends with the command's code.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 3.0


def main() -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(sys.argv[2:])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _: process.send_signal(got))
    code = process.wait()
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in outlived()))
    return code % 256


def outlived() -> list[str]:
    ends = time.monotonic() + GRACE_S
    while pids := living():
        if time.monotonic() > ends:
            lines = [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            return lines
        time.sleep(0.05)
    return []


def living() -> list[int]:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    return [int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main())
