"""The scripted server as a program of its own, as benchmarks start it."""

import subprocess
import sys

from asking import make_request, read_reply

from harnessd.models.assembler import Reply
from harnessd.models.models import Models


async def test_the_program_prints_its_address_and_serves() -> None:
    process = start("--text", "yes", "--call", "read")
    assert process.stdout is not None
    try:
        base = process.stdout.readline().strip() + "/v1"
        models = Models({})
        first = await read_reply(models, make_request("openai/scripted", api_base=base))
        second = await read_reply(models, make_request("openai/scripted", api_base=base))
        await models.close()
    finally:
        process.terminate()
        process.communicate(timeout=5)
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert ([call.name for call in first.tool_calls], second.text) == (["read"], "yes")


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harnessd.models.scripted", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
