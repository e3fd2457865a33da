"""A command that is talked to while it runs: its output as it comes, its input, its end, with and without a sandbox."""

import resource
import shutil
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.sandbox.bubblewrap import Ran, Sandbox, Started, Unavailable
from harnessd.sandbox.started import KEPT_OUTPUT, Tail
from tests.sandbox.boxes import sandbox

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.parametrize("confined", [True, False]),
]


async def test_it_answers_while_it_runs_and_ends_with_its_input(home: Path, confined: bool) -> None:
    async with sandbox(home, confined=confined).start(["cat"]) as started:
        assert isinstance(started, Started)
        for said in (b"one\n", b"two\n", bytes(range(256)) * 200):
            await started.send(said)
            heard = b""
            while len(heard) < len(said):
                heard += await started.output.receive()
            assert heard == said
        await started.close_input()
        await started.close_input()
        assert await started.wait() == 0
        with pytest.raises(anyio.EndOfStream):
            await started.output.receive()


async def test_errors_come_apart_if_asked(home: Path, confined: bool) -> None:
    command = ["sh", "-c", "echo out; echo err >&2; exit 7"]
    async with sandbox(home, confined=confined).start(command, errors_apart=True) as started:
        assert isinstance(started, Started)
        assert started.errors is not None
        assert (await started.output.receive(), await started.errors.receive()) == (b"out\n", b"err\n")
        assert await started.wait() == 7
    async with sandbox(home, confined=confined).start(command) as started:
        assert isinstance(started, Started)
        assert started.errors is None


@pytest.mark.parametrize("apart", [True, False])
async def test_what_cannot_be_started_is_told_and_nothing_ran(home: Path, confined: bool, apart: bool) -> None:
    async with sandbox(home, confined=confined).start(["no-such-program"], errors_apart=apart) as started:
        assert isinstance(started, Unavailable)
        assert "no-such-program" in started.message
    async with sandbox(home, confined=confined).start(["true"], cwd=home / "gone", errors_apart=apart) as started:
        assert isinstance(started, Unavailable)
        assert "gone" in started.message
    (home / "work/odd").write_bytes(b"\x00\x01")
    (home / "work/odd").chmod(0o755)
    async with sandbox(home, confined=confined).start(["./odd"]) as started:
        assert isinstance(started, Started)
        assert b"odd" in await started.output.receive()
        assert await started.wait() == 126


async def test_it_starts_where_it_is_told(home: Path, confined: bool) -> None:
    (home / "work/inner").mkdir()
    async with sandbox(home, confined=confined).start(["pwd"], cwd=home / "work/inner") as started:
        assert isinstance(started, Started)
        assert await started.output.receive() == f"{home}/work/inner\n".encode()


async def test_a_command_that_reads_nothing_can_be_sent_much(home: Path, confined: bool) -> None:
    ran = await sandbox(home, confined=confined).run(["true"], stdin=b"x" * 5_000_000, seconds=9)
    assert ran == Ran(0, "")
    assert await sandbox(home, confined=confined).run(["wc", "-c"], stdin=b"x" * 500_000, seconds=9) == Ran(
        0, "500000\n"
    )


@pytest.mark.parametrize(("signal", "status"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
async def test_the_status_of_a_signal_is_as_a_shell_says_it(
    home: Path, confined: bool, signal: str, status: int
) -> None:
    ran = await sandbox(home, confined=confined).run(["sh", "-c", f"kill -{signal} $$"], seconds=9)
    assert isinstance(ran, Ran)
    assert ran.status == status


async def test_output_is_heard_in_order_as_it_comes(home: Path, confined: bool) -> None:
    """Also before the command ends, and with characters that come in halves."""
    heard: list[str] = []
    begun = anyio.Event()

    def hear(text: str) -> None:
        heard.append(text)
        if "ä" in text:
            begun.set()

    script = "printf '1 \\303'; sleep 0.05; printf '\\244\\r 2'; read -r _ < go; printf '\\n3 \\342\\202'; sleep 0.02"
    script = f"mkfifo go; {script}; printf '\\254'"
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            assert await sandbox(home, confined=confined).run(["sh", "-c", script], seconds=9, hear=hear) == Ran(
                0, "1 ä\r 2\n3 €"
            )

        tasks.start_soon(run)
        await begun.wait()
        async with await anyio.open_file(home / "work/go", "w") as go:
            await go.write("go\n")
    assert "".join(heard) == "1 ä\r 2\n3 €"
    assert len(heard) >= 3


@pytest.mark.parametrize("megabytes", [200, pytest.param(1000, marks=pytest.mark.matrix)])
async def test_much_output_takes_no_memory(home: Path, confined: bool, megabytes: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    script = f"head -c {megabytes}M /dev/zero; echo end"
    ran = await sandbox(home, confined=confined).run(["sh", "-c", script], seconds=90)
    assert isinstance(ran, Ran)
    assert ran.output.endswith("end\n")
    assert len(ran.output) <= KEPT_OUTPUT
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


async def test_a_command_waits_for_whoever_does_not_read(home: Path, confined: bool) -> None:
    async with sandbox(home, confined=confined).start(["sh", "-c", "yes & yes >&2"]) as started:
        assert isinstance(started, Started)
        await started.output.receive()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await anyio.sleep(0.2)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 5 * 1024


async def test_many_at_once(home: Path, confined: bool) -> None:
    box: Sandbox = sandbox(home, confined=confined)
    found: dict[int, object] = {}

    async def one(number: int) -> None:
        found[number] = await box.run(["echo", str(number)], seconds=30)

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(one, number)
    assert found == {number: Ran(0, f"{number}\n") for number in range(12)}


@settings(max_examples=40)
@given(text=st.text(max_size=40), cuts=st.lists(st.integers(0, 160), max_size=8))
def test_what_is_heard_is_what_was_said_however_it_is_cut(confined: bool, text: str, cuts: list[int]) -> None:
    said = text.encode("utf-8", "replace")
    heard: list[str] = []
    tail = Tail(heard.append)
    places = [0, *sorted(min(cut, len(said)) for cut in cuts), len(said)]
    for start, end in pairwise(places):
        tail.take(said[start:end])
    tail.take(b"", last=True)
    assert "".join(heard) == said.decode("utf-8", "replace") == tail.text


def test_what_is_kept_begins_with_a_whole_character(confined: bool) -> None:
    tail = Tail()
    tail.take("€".encode() * KEPT_OUTPUT)
    assert set(tail.text) == {"€"}
