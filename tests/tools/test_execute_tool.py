"""The tool `execute` by itself: results, deadlines, output as it comes, what it reaches, jobs in the background."""

import re
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from harnessd.permissions.shell import judge
from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.tools.execute import Execute, Seconds
from harnessd.tools.jobs import AT_ONCE, Jobs
from harnessd.tools.tool import Outcome, ToolContext
from tests.tools.a_session import a_context, a_home, text, use

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return replace(a_context(a_home(tmp_path)), idempotency_key="key-1")


@pytest.fixture
async def execute() -> AsyncIterator[Execute]:
    async with anyio.create_task_group() as tasks:
        yield Execute(lambda context: Sandbox(context.home.path), Jobs(tasks), lambda line: line.startswith("echo"))
        tasks.cancel_scope.cancel()


RESULTS = [
    ("echo hello", "ok", "hello"),
    ("true", "ok", "(no output)"),
    ("echo out; echo err >&2", "ok", "out\nerr"),
    ("printf 'no newline'", "ok", "no newline"),
    ("false", "error", "exit 1"),
    ("echo told; exit 3", "error", "exit 3\ntold"),
    ("no-such-program-anywhere", "error", "exit 127 (command not found)"),
    ("kill -TERM $$", "error", "exit 143 (SIGTERM)"),
    ("kill -KILL $$", "error", "exit 137 (SIGKILL"),
    ("cat", "ok", "(no output)"),
    ("printf '\\033[31mred\\033[0m \\377'", "ok", "red \\xff"),
    ("nohup sleep 300 >/dev/null 2>&1 & echo left", "ok", "left"),
    ("(sleep 300 &) ; echo holds the pipe", "ok", "holds the pipe"),
    ("setsid sleep 300 & echo apart", "ok", "apart"),
    ("[[ a == a ]] && echo bash", "ok", "bash"),
    ("echo $HARNESSD_IDEMPOTENCY_KEY", "ok", "key-1"),
    ("env | grep -c '^HARNESSD'", "ok", "1"),
]


@pytest.mark.parametrize(("command", "status", "shown"), RESULTS)
async def test_the_result_says_what_it_printed_and_its_status_if_it_failed(
    context: ToolContext, execute: Execute, command: str, status: str, shown: str
) -> None:
    began = time.monotonic()
    outcome = await use(execute.tool(), context, command=command)
    assert time.monotonic() - began < 5
    assert (outcome.status, text(outcome)[: len(shown)]) == (status, shown)
    assert outcome.changed == (status == "ok")


REFUSED = [
    {},
    {"command": ""},
    {"command": "  \n"},
    {"command": "a\0b"},
    {"command": "echo \udc80"},
    {"command": "x" * 100_001},
    {"command": "echo", "job": "job_1"},
    {"command": "echo", "action": "look"},
    {"job": "job_1"},
    {"background": True},
]


@pytest.mark.parametrize("arguments", REFUSED)
async def test_l1_what_is_no_clear_request_runs_nothing(
    context: ToolContext, execute: Execute, arguments: dict[str, object]
) -> None:
    outcome = await use(execute.tool(), context, **arguments)
    assert outcome.status == "invalid"
    assert "Nothing was run" in text(outcome)


HIDING = [
    "sleep 300",
    "setsid sleep 300 & sleep 300",
    "(setsid sh -c 'sleep 300' &) ; sleep 300",
    "trap '' TERM INT HUP; sleep 300; sleep 300",
    "sh -c 'trap \"\" TERM; sleep 300 & sleep 300' | cat",
    "nohup sleep 300 & wait",
]


@pytest.mark.parametrize("command", HIDING)
async def test_f5_a_timeout_returns_with_the_output_so_far_whoever_holds_it(
    context: ToolContext, execute: Execute, command: str
) -> None:
    began = time.monotonic()
    outcome = await use(execute.tool(), context, command=f"echo before; : {context.home.path}; {command}", timeout=0.5)
    assert time.monotonic() - began < 1.5
    assert outcome.status == "timeout"
    assert text(outcome).endswith("before")
    assert alive(context.home.path) == []


async def test_f5_the_runs_own_deadline_leaves_a_result(context: ToolContext, execute: Execute) -> None:
    outcome = await use(
        execute.tool(), replace(context, deadline=time.monotonic() + 1.0), command="echo before; sleep 300"
    )
    assert outcome.status == "timeout"
    assert "before" in text(outcome)


async def test_f5_a_cancelled_call_leaves_nothing(context: ToolContext, execute: Execute) -> None:
    told = anyio.Event()
    listening = replace(context, delta=lambda _: told.set())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            lambda: use(execute.tool(), listening, command=f"echo up; setsid sleep 300 & : {context.home.path}; wait")
        )
        await told.wait()
        tasks.cancel_scope.cancel()
    assert alive(context.home.path) == []


async def test_output_is_told_as_it_comes(context: ToolContext, execute: Execute) -> None:
    told: list[str] = []
    first = anyio.Event()

    def hear(piece: str) -> None:
        told.append(piece)
        first.set()
        (context.home.path / "work/go").touch()

    command = "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two"
    outcome = await use(execute.tool(), replace(context, delta=hear), command=command)
    assert first.is_set()
    assert "".join(told) == "one\ntwo\n"
    assert len(told) >= 2
    assert text(outcome) == "one\ntwo"


async def test_much_output_is_bounded_in_the_result_and_in_what_is_told(context: ToolContext, execute: Execute) -> None:
    told: list[str] = []
    command = "echo first; yes 0123456789 | head -c 5000000; echo last"
    outcome = await use(execute.tool(), replace(context, delta=told.append), command=command)
    assert text(outcome).startswith("first")
    assert text(outcome).endswith("last")
    assert re.search(r"4,0\d\d,\d\d\d characters of the output were not kept", text(outcome))
    assert len(text(outcome)) < 1_010_000
    assert sum(map(len, told)) < 500_000


async def test_no_sandbox_means_no_command(context: ToolContext) -> None:
    async with anyio.create_task_group() as tasks:
        absent = Execute(
            lambda _: Sandbox(context.home.path, program=shutil.which("false")), Jobs(tasks), lambda _: False
        )
        for more in ({}, {"background": True}):
            outcome = await use(absent.tool(), context, command="touch ran", **more)
            assert outcome.status == "error"
            assert "Nothing was run" in text(outcome)
    assert not (context.home.path / "work/ran").exists()


NAMED_BY_A_REPOSITORY = [
    ("git config core.fsmonitor ./hook.sh", "git status"),
    ("git config diff.external ./hook.sh", "git diff"),
    ("git config diff.own.textconv ./hook.sh; echo 'f diff=own' > .gitattributes", "git diff"),
    ("git config filter.own.clean ./hook.sh; echo 'f filter=own' > .gitattributes", "git diff"),
    ("git config gpg.program ./hook.sh; git config log.showSignature true", "git log"),
    ("cp -r .git sub/.git; git -C sub config core.fsmonitor ../hook.sh; git add sub 2>/dev/null", "git status"),
]


@pytest.mark.parametrize(("hostile", "reads"), NAMED_BY_A_REPOSITORY)
async def test_p7_git_that_only_reads_changes_nothing_whatever_a_repository_names(
    context: ToolContext, hostile: str, reads: str
) -> None:
    work = context.home.path / "work"
    (work / "sub").mkdir()
    (work / "hook.sh").write_text("#!/bin/sh\ntouch /tmp/ran ran ../ran; cat\n")
    (work / "hook.sh").chmod(0o755)
    made = "git init -q . && git config user.email a@b && git config user.name a && echo 1 > f && git add f"
    async with anyio.create_task_group() as tasks:
        execute = Execute(lambda _: Sandbox(context.home.path), Jobs(tasks), lambda line: judge(line).level == "reads")
        outcome = await use(
            execute.tool(), context, command=f"{made} && git commit -qm a && echo 2 > f && {{ {hostile}; }}"
        )
        assert outcome.status == "ok", text(outcome)
        await use(execute.tool(), context, command=reads)
    assert not [*work.rglob("ran")]


async def test_p7_a_line_that_only_reads_finds_nothing_to_write_to(context: ToolContext, tmp_path: Path) -> None:
    """Were the judgement ever wrong, it would do no harm."""
    granted = tmp_path / "granted"
    granted.mkdir()
    async with anyio.create_task_group() as tasks:
        box = Sandbox(context.home.path, workdirs=(granted,), network=True)
        execute = Execute(lambda _: box, Jobs(tasks), lambda line: True)
        told = "touch a; touch ../b; touch $D/c; echo d > /tmp/d && cat /tmp/d; readlink /proc/self/ns/net"
        outcome = await use(execute.tool(), context, command=told.replace("$D", str(granted)))
    kept, network = text(outcome).splitlines()[-2:]
    assert kept == "d"
    assert network.startswith("net:")
    assert network != str(Path("/proc/self/ns/net").readlink())
    assert not [*granted.iterdir(), *(context.home.path / "work").iterdir()]


async def test_a_call_is_marked_by_what_it_asks_for(execute: Execute) -> None:
    tool = execute.tool()
    assert tool.effect_of({"command": "echo x"}) == "read"
    assert tool.effect_of({"command": "rm x"}) == "write"
    assert tool.effect_of({"job": "job_1", "action": "look"}) == "read"
    assert tool.effect_of({"job": "job_1", "action": "stop"}) == "read"
    assert tool.effect_of({}) == "write"
    assert tool.effect_of({"command": "echo x", "job": "job_1"}) == "write"


@pytest.mark.parametrize(
    ("network", "command", "origin"),
    [(False, "true", "local"), (True, "true", "remote"), (True, "echo x", "local")],
)
async def test_what_may_come_over_the_network_is_remote(
    context: ToolContext, network: bool, command: str, origin: str
) -> None:
    async with anyio.create_task_group() as tasks:
        execute = Execute(
            lambda _: Sandbox(context.home.path, network=network), Jobs(tasks), lambda line: line.startswith("echo")
        )
        assert (await use(execute.tool(), context, command=command)).origin == origin


async def begin(execute: Execute, context: ToolContext, command: str, **more: object) -> str:
    outcome = await use(execute.tool(), context, command=command, background=True, **more)
    assert outcome.status == "ok", text(outcome)
    return text(outcome).split()[0]


async def look(execute: Execute, context: ToolContext, job: str, wait: float = 0, action: str = "look") -> Outcome:
    return await use(execute.tool(), context, job=job, action=action, timeout=wait)


async def test_a_job_is_looked_at_until_it_ends(context: ToolContext, execute: Execute) -> None:
    job = await begin(execute, context, "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two; exit 4")
    with anyio.fail_after(5):
        while "one" not in (seen := text(await look(execute, context, job))):
            await anyio.sleep(0.01)
    assert f"{job} has run" in seen
    again = await look(execute, context, job)
    assert "(no new output)" in text(again)
    assert not again.changed
    (context.home.path / "work/go").touch()
    ended = text(await look(execute, context, job, wait=5))
    assert ": exit 4." in ended
    assert ended.endswith("\ntwo")
    assert "(no new output)" in text(await look(execute, context, job))


async def test_f5_a_job_that_is_stopped_is_gone(context: ToolContext, execute: Execute) -> None:
    job = await begin(execute, context, f"trap '' TERM; setsid sleep 300 & : {context.home.path}; wait")
    assert alive(context.home.path)
    stopped = text(await look(execute, context, job, action="stop"))
    assert "stopped" in stopped
    assert alive(context.home.path) == []


async def test_a_job_ends_when_its_time_is_over(context: ToolContext, execute: Execute) -> None:
    job = await begin(execute, context, "sleep 300", timeout=0.2)
    assert "its time of 0.2 s was over" in text(await look(execute, context, job, wait=5))


async def test_a_sessions_jobs_are_few_and_its_own(context: ToolContext, execute: Execute) -> None:
    jobs = [await begin(execute, context, "sleep 300") for _ in range(AT_ONCE)]
    refused = await use(execute.tool(), context, command="sleep 300", background=True)
    assert refused.status == "error"
    assert jobs[0] in text(refused)
    other = replace(context, session_id="ses_2")
    assert (await look(execute, other, jobs[0])).status == "error"
    assert jobs[0] not in text(await look(execute, other, jobs[1]))
    await begin(execute, other, "true")
    await execute.jobs.close("ses_1")
    assert not execute.jobs.running("ses_1")


@pytest.mark.parametrize("network", [True, False])
async def test_w6_a_jobs_output_comes_from_where_it_was_begun(context: ToolContext, network: bool) -> None:
    """What a header grants or takes back meanwhile makes no output trusted, and none foreign."""
    granted = network
    async with anyio.create_task_group() as tasks:
        execute = Execute(lambda _: Sandbox(context.home.path, network=granted), Jobs(tasks), lambda _: False)
        job = await begin(execute, context, "printf out")
        granted = not network
        assert (await look(execute, context, job, wait=5)).origin == ("remote" if network else "local")


async def test_a_job_of_another_process_is_said_to_be_gone(context: ToolContext, execute: Execute) -> None:
    outcome = await look(execute, context, "job_01kbc3fqz-7h2m9xw")
    assert outcome.status == "error"
    assert "do not survive a restart" in text(outcome)


async def test_a_job_that_prints_without_end_takes_little_memory(context: ToolContext, execute: Execute) -> None:
    job = await begin(execute, context, "yes 0123456789 | head -c 3000000")
    seen = text(await look(execute, context, job, wait=20))
    assert "exit 0" in seen
    assert "were not kept" in seen
    assert len(seen) < 210_000


async def test_the_operators_ceiling_stands_in_the_schema(execute: Execute) -> None:
    tool = replace(execute, seconds=Seconds(5, 7)).tool()
    assert tool.input_schema["properties"]["timeout"]["maximum"] == 7


def alive(home: Path) -> list[bytes]:
    """The command lines of all that runs for that home; a zombie has none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if str(home).encode() in line:
            found.append(line)
    return found
