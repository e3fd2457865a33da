"""The worker process: it starts late, ends with its parent, and says why it did not start."""

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from asking import make_request, read_reply

from harnessd.models import worker
from harnessd.models.chunk import ModelFailure
from harnessd.models.models import Models
from harnessd.models.worker import WorkerLimits

WORKER = Path(worker.__file__).with_name("litellm_worker.py")


def start_worker(path: Path | None = None, **extra: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, **worker.LITELLM_ENV, **({"PYTHONPATH": str(path)} if path else {}), **extra}
    return subprocess.Popen(
        [sys.executable, "-P", str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )


def fake_litellm(folder: Path, code: str) -> Path:
    (folder / "litellm.py").write_text(code)
    return folder


def test_f5_the_worker_ends_when_its_stdin_ends_even_during_the_import(tmp_path: Path) -> None:
    process = start_worker(
        fake_litellm(tmp_path, "import time, sys; sys.stderr.write('in'); sys.stderr.flush(); time.sleep(99)")
    )
    assert process.stderr is not None
    assert process.stderr.read(2) == b"in"
    process.communicate(timeout=5)
    assert process.returncode == 0


def test_what_a_library_prints_does_not_get_between_the_lines(tmp_path: Path) -> None:
    process = start_worker(fake_litellm(tmp_path, "print('Give Feedback')"))
    assert process.stdout is not None
    assert process.stdout.readline() == b'{"ready":true}\n'
    _, errors = process.communicate(timeout=5)
    assert b"Give Feedback" in errors


def test_l4_the_real_import_touches_no_network() -> None:
    """Whatever litellm would fetch goes by a proxy that counts."""
    with socket.create_server(("127.0.0.1", 0)) as counter:
        proxy = f"http://127.0.0.1:{counter.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        process = start_worker(**dict.fromkeys(names, proxy))
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"ready":true}\n'
        counter.setblocking(False)
        with pytest.raises(BlockingIOError):
            counter.accept()
        process.communicate(timeout=5)


async def ask(models: Models) -> object:
    return await read_reply(models, make_request("anthropic/x", api_base="http://127.0.0.1:9"))


def env_with(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), "ANTHROPIC_API_KEY": "k"}


async def test_l3_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    models = Models(env_with(fake_litellm(tmp_path, "raise ImportError('broken install')")))
    failure = await ask(models)
    assert isinstance(failure, ModelFailure)
    assert "broken install" in failure.message
    assert models.worker_pid is None
    await models.close()


async def test_l3_a_worker_that_does_not_get_ready_is_ended(tmp_path: Path) -> None:
    folder = fake_litellm(tmp_path, "import time; time.sleep(99)")
    models = Models(env_with(folder), worker_limits=WorkerLimits(start_s=0.5))
    failure = await ask(models)
    assert isinstance(failure, ModelFailure)
    assert "not ready" in failure.message
    await models.close()


ECHO = """
class Delta: content, tool_calls, reasoning_content = "hello", None, None
class Choice: delta, finish_reason = Delta, "stop"
class Chunk: choices, model, usage = [Choice], "m", None
async def acompletion(**given):
    assert given["num_retries"] == 0 and given["stream_options"] == {"include_usage": True}
    yield Chunk
"""
FAKE = (
    ECHO.replace("async def acompletion", "async def chunks")
    + "\nasync def acompletion(**given): return chunks(**given)\n"
)


async def test_o1_a_worker_that_served_its_share_is_replaced(tmp_path: Path) -> None:
    models = Models(env_with(fake_litellm(tmp_path, FAKE)), worker_limits=WorkerLimits(calls=2))
    await ask(models)
    first = models.worker_pid
    assert first is not None
    await ask(models)
    assert models.worker_pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    await ask(models)
    assert models.worker_pid not in {None, first}
    await models.close()
    assert models.worker_pid is None


async def test_o1_a_worker_that_grew_is_replaced(tmp_path: Path) -> None:
    models = Models(env_with(fake_litellm(tmp_path, FAKE)), worker_limits=WorkerLimits(resident_bytes=1))
    await ask(models)
    assert models.worker_pid is None
    await models.close()


PARENT = """
import anyio, os
from harnessd.models.models import Models
from asking import make_request, read_reply
async def main():
    models = Models(dict(os.environ))
    await read_reply(models, make_request("anthropic/x", api_base="http://127.0.0.1:9"))
    print(models.worker_pid, flush=True)
    await anyio.sleep_forever()
anyio.run(main)
"""


def test_o2_the_worker_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (fake_litellm(tmp_path, FAKE), here, here.parent.parent)))
    env = {**os.environ, "PYTHONPATH": path, "ANTHROPIC_API_KEY": "k"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=env)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    watched = os.pidfd_open(pid)
    parent.send_signal(signal.SIGKILL)
    parent.communicate(timeout=5)
    # A pidfd becomes readable when the process has ended.
    assert select.select([watched], [], [], 5)[0]
    os.close(watched)


async def test_f5_a_request_cancelled_during_the_start_leaves_no_process(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    folder = fake_litellm(
        tmp_path, f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(99)"
    )
    models = Models(env_with(folder))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, models)
        pid = int(await anyio.to_thread.run_sync(told.read_text))
        tasks.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert models.worker_pid is None
    await models.close()
