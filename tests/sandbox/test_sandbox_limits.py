"""What a command may take: it ends by its own limits, and this process does not feel it."""

import os
import shutil
import time
from pathlib import Path

import pytest

from harnessd.sandbox.bubblewrap import Limits, Ran
from harnessd.sandbox.cgroups import _bases, make_group, remove_abandoned
from harnessd.sandbox.plan import counts_processes
from tests.sandbox.boxes import alive, mark, python, sandbox, sh

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

SMALL = Limits(memory=256 * 1024**2, processes=60, file_size=8 * 1024**2, open_files=64)


@pytest.fixture(scope="module")
def bounds() -> frozenset[str]:
    """What can be bounded for a sandbox as a whole on this machine."""
    group = make_group(SMALL)
    group.remove()
    return group.bounds


@pytest.mark.parametrize("confined", [True, False])
async def test_a_memory_bomb_ends_itself(home: Path, confined: bool) -> None:
    ran = await python(sandbox(home, limits=SMALL, confined=confined), "x = bytearray(10**9)")
    assert isinstance(ran, Ran)
    assert ran.status != 0


BOMBS = {
    "many processes": """
import os, time
for _ in range(6):
    if os.fork() == 0:
        x = b"x" * 60_000_000
        time.sleep(0.6)
        os._exit(0)
print("survived", all(os.wait()[1] == 0 for _ in range(6)))
""",
    "shared memory": """
import mmap
x = mmap.mmap(-1, 10**9)
for _ in range(900):
    x.write(bytes(10**6))
print("survived", True)
""",
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_memory_is_bounded_for_all_of_a_command(home: Path, bounds: frozenset[str], bomb: str) -> None:
    if "memory" not in bounds:
        pytest.skip("no control group for memory can be made here")
    ran = await python(sandbox(home, limits=SMALL), BOMBS[bomb])
    assert isinstance(ran, Ran)
    assert "survived True" not in ran.output


async def test_a_fork_bomb_is_bounded_and_gone(home: Path, bounds: frozenset[str]) -> None:
    if "pids" not in bounds and not counts_processes():
        pytest.skip("nothing bounds processes here")
    script = f"bomb() {{ sleep {mark(home)} & bomb | bomb & }}; bomb; sleep 0.3; ls -d /proc/[0-9]* | wc -l > n"
    box = sandbox(home, limits=SMALL)
    await sh(box, f"({script}); while ! test -s n; do ls -d /proc/[0-9]* > m && wc -l < m > n; done", seconds=3)
    assert 5 < int((home / "work/n").read_text()) <= SMALL.processes + 5
    assert not alive(home)


@pytest.mark.parametrize("confined", [True, False])
async def test_one_file_is_bounded(home: Path, confined: bool) -> None:
    ran = await sh(sandbox(home, limits=SMALL, confined=confined), "head -c 100M /dev/zero > big; echo ended; exit 4")
    assert isinstance(ran, Ran)
    assert ran.status == 4
    assert (home / "work/big").stat().st_size == SMALL.file_size


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_what_lies_in_memory_is_bounded_by_an_error_and_not_by_an_end(home: Path, place: str) -> None:
    """Older bubblewraps leave it to the control group."""
    script = f"for n in $(seq 100); do head -c 7M /dev/zero > {place}/$n || break; done; du -sm {place}"
    ran = await sh(sandbox(home, limits=SMALL), script)
    assert isinstance(ran, Ran)
    assert "No space left" in ran.output
    assert 100 <= int(ran.output.splitlines()[-1].split()[0]) <= 136


@pytest.mark.parametrize("place", ["/home", "/run", "/dev", "..", "../agents", "../../", "/", "/proc", "/sys"])
async def test_nothing_else_can_be_filled(home: Path, place: str) -> None:
    ran = await sh(sandbox(home), f"echo x > {place}/file")
    assert isinstance(ran, Ran)
    assert ran.status != 0


async def test_open_files_and_core_dumps_are_bounded(home: Path) -> None:
    script = "import os, resource\nprint(resource.getrlimit(resource.RLIMIT_CORE))\n[os.dup(0) for _ in range(100)]"
    ran = await python(sandbox(home, limits=SMALL), script)
    assert isinstance(ran, Ran)
    assert "(0, 0)" in ran.output
    assert "Too many open files" in ran.output
    raised = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))"
    assert "not allowed" in (await python(sandbox(home, limits=SMALL), raised)).output


@pytest.mark.skipif(shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None, reason="node is not installed")
async def test_node_lives_with_the_usual_limits(home: Path) -> None:
    """It reserves more address space than any limit of that would leave it, and has a dozen threads."""
    script = (
        "const {Worker} = require('worker_threads'); let a = []; for (let i = 0; i < 2e6; i++) a.push({i});"
        "const w = new Worker('require(\"worker_threads\").parentPort.postMessage(1)', {eval: true});"
        "w.on('message', (m) => console.log(m + a.length))"
    )
    assert await sandbox(home).run(["node", "-e", script], seconds=30) == Ran(0, "2000001\n")


async def test_o1_no_control_group_is_left(home: Path) -> None:
    for _ in range(3):
        await sh(sandbox(home), "true")
        await sh(sandbox(home), f"(setsid sleep {mark(home)} &); sleep 9", seconds=0.1)
    until = time.monotonic() + 3
    while left := list(Path("/sys/fs/cgroup").rglob(f"harnessd-{os.getpid()}-*")):
        assert time.monotonic() < until, left
        time.sleep(0.01)


def test_o1_what_a_killed_process_could_not_remove_the_next_one_does(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    mounted = f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    dead = 1 << 30  # more than any process's id
    for name in (f"harnessd-{dead}-a", f"harnessd-{os.getpid()}-b", f"harnessd-{dead}-full/one", "harnessd-x", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / f"harnessd-{dead}-file").write_text("")
    remove_abandoned(mounted, "0::/\n")
    assert (tmp_path / f"harnessd-{dead}-a").exists()  # it may have been made a moment ago
    remove_abandoned(mounted, "0::/\n", seconds=0)
    left = {f"harnessd-{os.getpid()}-b", f"harnessd-{dead}-full", f"harnessd-{dead}-file", "harnessd-x", "other"}
    assert {path.name for path in tmp_path.iterdir()} == {"cgroup.subtree_control", *left}


def test_the_group_is_made_where_the_kernel_says(tmp_path: Path) -> None:
    """Version 2 below our own group where its controllers are given on, else beside it, and never above the mount."""
    own = tmp_path / "system.slice/harnessd.service"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("")
    (own.parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    mounted = f"30 23 0:26 / {tmp_path} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    assert list(_bases(mounted, "0::/system.slice/harnessd.service\n")) == [(2, {"memory", "pids"}, own.parent)]
    (own / "cgroup.subtree_control").write_text("pids\n")
    assert list(_bases(mounted, "0::/system.slice/harnessd.service\n")) == [(2, {"pids"}, own)]
    inner = f"30 23 0:26 /system.slice {tmp_path / 'system.slice'} rw - cgroup2 cgroup2 rw\n"
    assert list(_bases(inner, "0::/system.slice/harnessd.service\n")) == [(2, {"pids"}, own)]
    assert list(_bases(mounted, "0::/\n")) == []
    old = f"31 23 0:27 / {tmp_path}/m rw - cgroup cgroup rw,memory\n"
    old += f"32 23 0:28 / {tmp_path}/p rw - cgroup cgroup rw,pids\n"
    assert list(_bases(old, "4:memory:/a\n8:pids:/b\n9:name=systemd:/\n0::/\n")) == [
        (1, {"memory"}, tmp_path / "m/a"),
        (1, {"pids"}, tmp_path / "p/b"),
    ]


@pytest.mark.parametrize(
    ("mounted", "ours"), [("", ""), ("", "0::/\n"), ("30 23 0:26 / /nowhere rw - cgroup2 c rw\n", "0::/a\n")]
)
def test_where_no_group_can_be_made_there_is_none(mounted: str, ours: str) -> None:
    group = make_group(SMALL, mounted, ours)
    assert (group.folders, group.bounds) == ((), frozenset())
    assert group.entering(["true"]) == ["true"]


def test_a_group_that_cannot_be_entered_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    mounted = f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert make_group(SMALL, mounted, "0::/\n").folders == ()
    assert [path.name for path in tmp_path.iterdir()] == ["cgroup.subtree_control"]
