"""A daemon as a process of its own: `python -m tests.life.child` with HARNESSD_* set. Tells one JSON object a line.

`TESTS_SIGNAL` and `TESTS_AT` send it a signal at the first event of that name of the interpreter (`socket.bind`).
"""

import json
import os
import signal
import sys

import anyio

from harnessd.api.serve import Serving, Stopping, serve
from harnessd.daemon.config import load_settings
from harnessd.errors import HarnessdError


def say(word: str, **more: object) -> None:
    print(json.dumps({"told": word, **more}), flush=True)  # noqa: T201 - what the parent reads


def told(serving: Serving) -> None:
    found = serving.recovered
    say(
        "serving",
        port=serving.addresses.port,
        safeMode=serving.safe_mode,
        homes=found.homes,
        resumed=found.resumed,
        parked=found.parked,
        waiting=found.waiting,
        unreadable=[one.where for one in found.unreadable],
    )


def stopping(about: Stopping) -> None:
    say("stopping", signal=about.signal, running=about.running)


def harm(event: str, _: object) -> None:
    if event == os.environ.get("TESTS_AT"):
        del os.environ["TESTS_AT"]
        os.kill(os.getpid(), signal.Signals[os.environ["TESTS_SIGNAL"]])


async def main() -> int:
    return await serve(load_settings(), told=told, stopping=stopping)


if __name__ == "__main__":
    sys.addaudithook(harm)
    try:
        code = anyio.run(main)
    except HarnessdError as error:
        say("refused", kind=type(error).__name__, message=error.message, where=error.where, hint=error.hint)
        code = error.exit_code
    sys.exit(code)
