"""A real daemon for the tests of the command line, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command_line import ROOT


@dataclass(frozen=True)
class Daemon:
    """A daemon that listens: its process, its folders, and what it said when it was ready."""

    process: subprocess.Popen[str]
    workspaces: Path
    state_dir: Path
    ready: dict[str, Any]

    @property
    def env(self) -> dict[str, str]:
        """What a command needs in its environment to find it."""
        return {"HARNESSD_WORKSPACES": str(self.workspaces), "HARNESSD_STATE": str(self.state_dir)}

    def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serving(folder: Path, *, limits: tuple[int, int] | None = None, **env: str) -> Iterator[Daemon]:
    """A daemon over `folder/workspaces` with its state in `folder/state`; ended with the block if it still lives.

    `limits` are how many files it may have open, softly and at most.
    """
    command = [sys.executable, "-m", "harnessd"]
    if limits is not None:
        command = ["sh", "-c", f'ulimit -Sn {limits[0]}; ulimit -Hn {limits[1]}; exec "$@"', "-", *command]
    workspaces, state_dir = folder / "workspaces", folder / "state"
    process = subprocess.Popen(
        [*command, "serve", "--json", "--port", "0",
         "--workspaces", str(workspaces), "--state-dir", str(state_dir)],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Daemon(process, workspaces, state_dir, json.loads(line))
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()
        process.stderr.close()
