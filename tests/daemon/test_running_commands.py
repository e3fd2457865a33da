"""Commands in a whole run: what the model is told, what a watcher sees, and what is alive after an end of any kind."""

import os
import shutil
import signal
import sys
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted, Session
from harnessd.facts.control import Invoke, Stop
from harnessd.facts.event import ToolCallCompleted, ToolCallDelta
from harnessd.models.script import Answer, Call
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import call, last_text, living, make_home, make_settings, results

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

BYPASS = {"ceiling": {"mode": "bypassPermissions"}}
AGENTS = "---\nmode: bypassPermissions\n---\nYou are Ada.\n"
FREE: dict[str, object] = {"settings": BYPASS, "AGENTS.md": AGENTS}
HIDING = {
    "plain": "sleep 300",
    "setsid": "setsid sleep 300 & wait",
    "double fork": "(setsid sh -c 'sleep 300 & sleep 300' &) ; sleep 300",
    "ignored TERM": "trap '' TERM INT HUP; sleep 300; sleep 300",
    "held pipes": "sh -c 'trap \"\" TERM; sleep 300 & sleep 300' | cat",
    "nohup": "nohup sleep 300 & wait",
    "stopped itself": "sleep 300 & kill -STOP $$",
}
SAMPLE = {"setsid", "double fork", "ignored TERM"}
"""The ways that are tried with a killed daemon in every test run; `pytest -m matrix` tries all."""

GONE_SECONDS = 3.0


def hiding(home: Path, how: str) -> str:
    """The command, which prints once it is about to hide, with the home in its own command line."""
    return f"echo up; : {home}; {HIDING[how]}"


async def test_a_command_runs_in_work_and_its_output_goes_to_the_model(tmp_path: Path) -> None:
    script = [call("execute", command="pwd; echo to stderr >&2; echo kept > a.txt; touch ../MEMORY.md"), Answer("done")]
    async with living(tmp_path, script, **FREE) as one:  # type: ignore[arg-type]
        _, state = await one.say("go")
        ((status, said),) = results(state)
        assert status == "error"
        assert said.startswith(f"exit 1\n{one.home.path}/work\nto stderr\n")
        assert (one.home.path / "work/a.txt").read_text() == "kept\n"


async def test_the_mode_default_asks_before_a_command(tmp_path: Path) -> None:
    async with living(tmp_path, [call("execute", command="touch a.txt"), Answer("done")]) as one:
        _, state = await one.say("go")
        assert [one.tool_name for one in state.pending_approvals] == ["execute"]
        assert not (one.home.path / "work/a.txt").exists()


@pytest.mark.parametrize("mode", ["plan", "default", "auto"])
@pytest.mark.parametrize("action", ["look", "stop"])
async def test_nobody_is_asked_about_a_job_that_runs_already(tmp_path: Path, mode: str, action: str) -> None:
    agents = f"---\nmode: {mode}\n---\nYou are Ada.\n"
    script = [call("execute", job="job_01kbc3fqz-7h2m9xw", action=action), Answer("done")]
    async with living(tmp_path, script, **{"AGENTS.md": agents}) as one:
        _, state = await one.say("go")
        ((status, said),) = results(state)
        assert status == "error"
        assert "There is no job" in said


async def test_p6_output_is_seen_as_it_comes_without_the_operators_secrets(tmp_path: Path) -> None:
    secret = "hush-hush-hush-42"
    (tmp_path / "state").mkdir()
    (tmp_path / "state/secrets").write_text(f"KEY={secret}\n")
    (tmp_path / "state/secrets").chmod(0o600)
    halves = f"a={secret[:6]}; echo first; while ! [ -e go ]; do sleep 0.01; done; echo ${{a}}{secret[6:]}"
    async with living(tmp_path, [call("execute", command=halves), Answer("done")], **FREE) as one:  # type: ignore[arg-type]
        session = await one.runtime.session(one.home)
        seen: list[str] = []
        await session.control(Invoke(input="go"))
        with anyio.fail_after(10):
            async for item in session.subscribe(0):
                if isinstance(item, ToolCallDelta) and item.stream == "output":
                    assert item.offset == len("".join(seen))
                    seen.append(item.text)
                    (one.home.path / "work/go").touch()
                if isinstance(item, ToolCallCompleted):
                    break
        state = await session.idle()
        assert "".join(seen) == "first\n[redacted]\n"
        assert results(state) == [("ok", "first\n[redacted]")]
        await session.snapshot()
        journal = one.home.journal("main", session.session_id).read_text()
        assert secret not in journal


async def test_p6_no_secret_stands_in_what_was_evicted(tmp_path: Path) -> None:
    secret = "hush-hush-hush-42"
    (tmp_path / "state").mkdir()
    (tmp_path / "state/secrets").touch(0o600)
    (tmp_path / "state/secrets").write_text(f"KEY={secret}\n")
    halves = f"a={secret[:6]}; seq 1 20000; echo ${{a}}{secret[6:]}; seq 1 20000"
    async with living(tmp_path, [call("execute", command=halves), Answer("done")], **FREE) as one:  # type: ignore[arg-type]
        session, _ = await one.say("go")
        (kept,) = one.home.evicted("main", session.session_id).iterdir()
        assert "20000\n[redacted]\n1\n" in kept.read_text()


async def test_what_was_evicted_can_be_read_by_a_later_command(tmp_path: Path) -> None:
    script = [
        call("execute", command="seq 1 20000"),
        call("execute", command="tail -1 ../agents/main/evicted/*/*.txt; ls ../agents/main"),
        Answer("done"),
    ]
    async with living(tmp_path, script, **FREE) as one:  # type: ignore[arg-type]
        _, state = await one.say("go")
        assert "left out here" in results(state)[0][1]
        assert results(state)[1] == ("ok", "20000evicted")


async def running(session: Session) -> None:
    """Waits until a command has printed that it is up."""
    with anyio.fail_after(10):
        async for item in session.subscribe(0):
            if isinstance(item, ToolCallDelta) and item.stream == "output":
                return


@pytest.mark.parametrize("how", HIDING)
async def test_f5_nothing_of_a_stopped_run_is_alive(tmp_path: Path, how: str) -> None:
    home = tmp_path / "workspaces/ada"
    script = [call("execute", command=hiding(home, how)), Answer("done")]
    async with living(tmp_path, script, **FREE) as one:  # type: ignore[arg-type]
        session = await one.runtime.session(one.home)
        await session.control(Invoke(input="go"))
        await running(session)
        assert alive(home)
        began = anyio.current_time()
        assert isinstance(await session.control(Stop()), Accepted)
        assert anyio.current_time() - began < 0.5
        await gone(home)
        state = await session.idle()
        assert state.last_run is not None
        assert state.last_run.reason == "stopped"
        assert [status for status, _ in results(state)] == ["cancelled"]


@pytest.mark.parametrize("how", HIDING)
async def test_f5_nothing_of_a_stopped_runs_jobs_is_alive(tmp_path: Path, how: str) -> None:
    home = tmp_path / "workspaces/ada"
    script = [
        call("execute", command=hiding(home, how), background=True),
        call("execute", command="echo up; sleep 300"),
        Answer("done"),
    ]
    async with living(tmp_path, script, **FREE) as one:  # type: ignore[arg-type]
        session = await one.runtime.session(one.home)
        await session.control(Invoke(input="go"))
        await running(session)
        assert alive(home)
        assert isinstance(await session.control(Stop()), Accepted)
        await gone(home)
        await session.idle()
        with anyio.fail_after(5):  # what is dead for the kernel is still to be seen by us
            while session.has_jobs:
                await anyio.sleep(0.01)


async def test_a_job_outlives_its_run_and_its_end_is_told_in_the_next(tmp_path: Path) -> None:
    begin = call("execute", command="while ! [ -e go ]; do sleep 0.01; done; echo the end", background=True)
    async with living(
        tmp_path,
        lambda request: (begin, Answer("begun"), Answer("heard"))[min(2, len(request.body["messages"]) // 2 - 1)],
        settings={**BYPASS, "idle_seconds": 0.0},
        **{"AGENTS.md": AGENTS},
    ) as one:
        async with one.runtime.visit(one.home) as session:
            await session.control(Invoke(input="go"))
            await session.idle()
        assert session.has_jobs
        (job,) = one.runtime.resident(one.home).jobs.of(session.session_id)
        await one.runtime.sessions.let_go((one.home.path, session.session_id))
        assert not session.closed
        (one.home.path / "work/go").touch()
        await job.over.wait()
        async with one.runtime.visit(one.home, session.session_id) as again:
            await again.control(Invoke(input="and?"))
            state = await again.idle()
        assert last_text(state) == "heard"
        assert f"{job.id} ended: exit 0" in one.said_to()


async def test_f5_a_stop_between_runs_ends_the_jobs(tmp_path: Path) -> None:
    begin = call("execute", command="sleep 300", background=True)
    async with living(tmp_path, [begin, Answer("begun")], **FREE) as one:  # type: ignore[arg-type]
        session, _ = await one.say("go")
        assert session.has_jobs
        assert isinstance(await session.control(Stop()), Accepted)
        await gone(one.home.path)
        for job in one.runtime.resident(one.home).jobs.of(session.session_id):
            await job.over.wait()
        assert not isinstance(await session.control(Stop()), Accepted)


async def test_a_session_that_is_erased_leaves_no_job(tmp_path: Path) -> None:
    home = tmp_path / "workspaces/ada"
    begin = call("execute", command=hiding(home, "setsid"), background=True)
    async with living(tmp_path, [begin, Answer("begun")], **FREE) as one:  # type: ignore[arg-type]
        async with one.runtime.visit(one.home) as session:
            await session.control(Invoke(input="go"))
            await session.idle()
        await one.runtime.erase(one.home, session.session_id)
        assert alive(home) == []
        assert one.runtime.resident(one.home).jobs.of(session.session_id) == ()


async def test_a_subagents_jobs_end_with_it(tmp_path: Path) -> None:
    home = tmp_path / "workspaces/ada"

    def script(request: object) -> Answer:
        messages = request.body["messages"]  # type: ignore[attr-defined]
        below = "You are a scout" in str(messages[0])
        said = sum(message["role"] == "assistant" for message in messages)
        main = (call("delegate", agent="scout", task="look around"), Answer("Done."))
        own = (call("execute", command=hiding(home, "setsid"), background=True), Answer("Begun."))
        return (own if below else main)[min(said, 1)]

    scout = "---\nname: scout\ndescription: Looks. Use when lost.\n---\nYou are a scout.\n"
    async with living(tmp_path, script, **FREE, **{"subagents/scout.md": scout}) as one:  # type: ignore[arg-type]
        _, state = await one.say("go")
        assert last_text(state) == "Done."
        assert any("execute" in tool for at in range(len(one.requests)) for tool in one.tools(at))
        assert alive(home) == []


async def test_a_job_is_gone_after_a_restart_and_a_look_says_so(tmp_path: Path) -> None:
    begin = call("execute", command="sleep 300", background=True)

    def script(request: object) -> Answer:
        messages = request.body["messages"]  # type: ignore[attr-defined]
        said = sum(message["role"] == "assistant" for message in messages)
        if said == 2:
            job = next(word for word in str(messages).split("'") if word.startswith("job_")).split()[0]
            return call("execute", job=job, action="look")
        return begin if said == 0 else Answer("ok")

    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url, **BYPASS)
        home = make_home(settings, **{"AGENTS.md": AGENTS})
        session_id = ""
        for text in ("go", "look"):
            async with Runtime.open(settings, {"OPENAI_API_KEY": "k"}) as runtime:
                session = await runtime.session(home, session_id or None)
                session_id = session.session_id
                await session.control(Invoke(input=text))
                state = await session.idle()
            assert alive(home.path) == []
        assert results(state)[-1][0] == "error"
        assert "do not survive a restart" in results(state)[-1][1]


MORTAL = """
import sys, anyio
from pathlib import Path
from harnessd.daemon.assemble import Runtime
from harnessd.facts.control import Invoke
from tests.daemon.living import make_settings

async def main():
    settings = make_settings(Path(sys.argv[1]), sys.argv[2], ceiling={"mode": "bypassPermissions"})
    async with Runtime.open(settings, {"OPENAI_API_KEY": "k"}) as runtime:
        session = await runtime.session(runtime.home("ada"))
        await session.control(Invoke(input="go"))
        async for item in session.subscribe(0):
            if item.type == "tool.call.delta" and item.stream == "output":
                print("up", flush=True)

anyio.run(main)
"""


async def killed(base: Path, server: ScriptedServer) -> None:
    """A process that runs the message, killed as soon as the command is up."""
    child = await anyio.open_process(
        [sys.executable, "-c", MORTAL, str(base), server.url],
        stderr=None,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    with anyio.fail_after(20):
        assert (await child.stdout.receive()).startswith(b"up")
    child.send_signal(signal.SIGKILL)
    await child.wait()
    await child.aclose()


KILLED = [how if how in SAMPLE else pytest.param(how, marks=pytest.mark.matrix) for how in HIDING]


@pytest.mark.parametrize("how", KILLED)
async def test_f5_nothing_outlives_a_killed_daemon_and_what_was_in_flight_is_owned_up(tmp_path: Path, how: str) -> None:
    home = tmp_path / "workspaces/ada"
    job = Call("execute", {"command": f"{hiding(home, how)}", "background": True})
    line = Call("execute", {"command": f"echo once >> effects.txt; {hiding(home, how)}"})
    async with ScriptedServer([Answer(calls=(job, line)), Answer("done")]) as server:
        settings = make_settings(tmp_path, server.url, **BYPASS)
        make_home(settings, **{"AGENTS.md": AGENTS})
        await killed(tmp_path, server)
        await gone(home)
        (journal,) = (home / "agents/main/sessions").glob("*.jsonl")
        async with Runtime.open(settings, {"OPENAI_API_KEY": "k"}) as runtime:
            session = await runtime.session(runtime.home("ada"), journal.stem)
            session.recover()
            state = await session.idle()
            assert [status for status, _ in results(state)] == ["ok", "outcome_unknown"]
        assert (home / "work/effects.txt").read_text() == "once\n"
        assert alive(home) == []


async def gone(home: Path) -> None:
    """Waits until nothing runs for that home; fails if that takes longer than it may."""
    with anyio.move_on_after(GONE_SECONDS):
        while alive(home):
            await anyio.sleep(0.02)
    assert alive(home) == []


def alive(home: Path) -> list[bytes]:
    """The command lines of all that runs for that home, which its command line or its environment tells."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(home).encode() in line + environment:
            found.append(line)
    return found
