"""P2: whatever stands on the path, and whenever it came there, no tool reads or changes anything outside the roots."""

import os
import shutil
import socket
import subprocess
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harnessd.home.layout import Home
from harnessd.permissions.call import Target
from harnessd.permissions.paths import resolve_target
from harnessd.tools.files import file_tools
from harnessd.tools.rooted import Unusable, list_folder, replace_file
from harnessd.tools.tool import Outcome, ToolContext
from tests.tools.a_session import a_context, a_home, text, use

READ, WRITE, EDIT = file_tools()
SECRET = "canary-7f3a"
OPERATIONS = ("read", "write", "edit", "delete")


@dataclass(frozen=True)
class World:
    """A home beside a folder that is not open to it; everything in that folder says `SECRET`."""

    home: Home
    outside: Path
    context: ToolContext

    @property
    def work(self) -> Path:
        return self.home.work

    def state(self) -> dict[str, object]:
        """Everything outside `work/` that a tool could change, and of what lies elsewhere also what it is."""
        found: dict[str, object] = {}
        for path in [*self.outside.rglob("*"), *self.home.path.rglob("*")]:
            if path.is_relative_to(self.work):
                continue
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (status.st_mode, status.st_ino, content)
        return found


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_home(tmp_path_factory.mktemp("template")).path


@pytest.fixture
def world(tmp_path: Path, template: Path) -> World:
    home = Home(shutil.copytree(template, tmp_path / "ada"))
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (outside / "secret").write_text(SECRET)
    (outside / "b/secret").write_text(SECRET)
    (home.path / "agents/main/sessions").mkdir(parents=True)
    (home.path / "agents/main/sessions/other.jsonl").write_text(SECRET)
    return World(home, outside, replace(a_context(home), approved=True))


async def act(world: World, operation: str, path: str) -> Outcome | Target:
    """The operation as the agent may ask for it, with a person who allows everything."""
    if operation == "delete":  # no tool deletes; what one would be given
        return resolve_target(world.context.roots, path, "delete")
    if operation == "read":
        return await use(READ, world.context, path=path)
    if operation == "write":
        return await use(WRITE, world.context, path=path, content="overwritten")
    return await use(EDIT, world.context, path=path, edits=[{"old": SECRET, "new": "overwritten"}])


# --- what stands on the path when it is looked up


def leaf(world: World) -> str:
    (world.work / "x").symlink_to(world.outside / "secret")
    return "work/x"


def ancestor(world: World) -> str:
    (world.work / "x").symlink_to(world.outside)
    return "work/x/secret"


def ancestor_to_new(world: World) -> str:
    (world.work / "x").symlink_to(world.outside)
    return "work/x/new/deep"


def dangling(world: World) -> str:
    (world.work / "x").symlink_to(world.outside / "not-yet")
    return "work/x"


def dangling_ancestor(world: World) -> str:
    (world.work / "x").symlink_to(world.outside / "not-yet")
    return "work/x/new"


def chain(world: World) -> str:
    (world.work / "x").symlink_to("y")
    (world.work / "y").symlink_to("../work/z")
    (world.work / "z").symlink_to(world.outside / "secret")
    return "work/x"


def loop(world: World) -> str:
    (world.work / "x").symlink_to("y")
    (world.work / "y").symlink_to("x")
    return "work/x/secret"


def dots(world: World) -> str:
    return "work/../../outside/secret"


def dots_through_link(world: World) -> str:
    (world.work / "x").symlink_to(world.outside / "b")
    return "work/x/../secret"


def absolute(world: World) -> str:
    return str(world.outside / "secret")


def trailing_slash(world: World) -> str:
    return leaf(world) + "/"


def trailing_dot(world: World) -> str:
    (world.work / "x").symlink_to(world.outside)
    return "work/x/."


def doubled_slashes(world: World) -> str:
    return f"//{world.outside}//secret"


def proc_root(world: World) -> str:
    return f"/proc/self/root{world.outside}/secret"


def proc_link(world: World) -> str:
    (world.work / "x").symlink_to(f"/proc/self/root{world.outside}")
    return "work/x/secret"


def proc_descriptor(world: World) -> str:
    return "/proc/self/fd/0"


def environment(world: World) -> str:
    return "/proc/self/environ"


def device(world: World) -> str:
    return "/dev/null"


def device_by_link(world: World) -> str:
    (world.work / "x").symlink_to("/dev/zero")
    return "work/x"


def journal(world: World) -> str:
    return "agents/main/sessions/other.jsonl"


def journal_by_link(world: World) -> str:
    (world.work / "x").symlink_to("../agents/main/sessions")
    return "work/x/other.jsonl"


def git(world: World) -> str:
    return ".git/config"


def folded_case(world: World) -> str:
    """On a file system that tells no case apart this is `.git`; here it is a name of its own, and locked."""
    return ".GIT/config"


def look_alike(world: World) -> str:
    return "work/\uff0e\uff0e/\uff0e\uff0e/outside/secret"


def slash_like(world: World) -> str:
    return "work/..\u2215..\u2215outside\u2215secret"


def composed(world: World) -> str:
    """A link of the one spelling is not met by the other."""
    (world.work / unicodedata.normalize("NFD", "é")).symlink_to(world.outside)
    return f"work/{unicodedata.normalize('NFC', 'é')}/secret"


def decomposed(world: World) -> str:
    (world.work / unicodedata.normalize("NFD", "é")).symlink_to(world.outside)
    return f"work/{unicodedata.normalize('NFD', 'é')}/secret"


def very_long_name(world: World) -> str:
    return "work/" + "x" * 256


def very_long_path(world: World) -> str:
    return "work/" + "x/" * 2100 + "secret"


def nul(world: World) -> str:
    return "work/x\0/../../outside/secret"


def half_character(world: World) -> str:
    return "work/\udcff"


def pipe(world: World) -> str:
    os.mkfifo(world.work / "x")
    return "work/x"


def unix_socket(world: World) -> str:
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(world.work)  # a socket's name is short
        try:
            listening.bind("x")
        finally:
            os.chdir(here)
    return "work/x"


def a_folder(world: World) -> str:
    (world.work / "x").mkdir()
    return "work/x"


def the_root(world: World) -> str:
    return "/"


def the_home(world: World) -> str:
    return "."


KINDS: tuple[Callable[[World], str], ...] = (
    leaf, ancestor, ancestor_to_new, dangling, dangling_ancestor, chain, loop, dots, dots_through_link, absolute,
    trailing_slash, trailing_dot, doubled_slashes, proc_root, proc_link, proc_descriptor, environment, device,
    device_by_link, journal, journal_by_link, git, folded_case, look_alike, slash_like, composed, decomposed,
    very_long_name, very_long_path, nul, half_character, pipe, unix_socket, a_folder, the_root, the_home,
)  # fmt: skip
INSIDE = {composed, slash_like, look_alike, very_long_path, a_folder, the_home, folded_case}
"""What means a place within the home after all: a name of its own, a folder that is listed."""

LINK_ITSELF = {leaf, dangling, chain, device_by_link, pipe, unix_socket}
"""Of these the name in `work/` is what a deletion would take."""


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_p2_nothing_outside_the_roots_is_touched(
    world: World, kind: Callable[[World], str], operation: str
) -> None:
    path = kind(world)
    before = world.state()
    done = await act(world, operation, path)
    assert world.state() == before
    if isinstance(done, Target):
        if kind in LINK_ITSELF:
            assert Path(done.path).parent == world.work
        elif kind not in INSIDE:
            assert done.within in {"outside", "hidden"} or done.tier == "locked"
        return
    assert SECRET not in text(done)
    if kind not in INSIDE:
        assert done.status == "error"


@contextmanager
def mounted(goal: Path, place: Path) -> Iterator[None]:
    if subprocess.run(["mount", "--bind", goal, place], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("operation", ["read", "write", "edit"])
async def test_p2_a_mount_in_work_is_a_folder_of_it(world: World, operation: str) -> None:
    """Only the operator can mount; what is mounted was put there to be used. Nothing climbs out of it."""
    (world.work / "m").mkdir()
    (world.outside / "b/mine").write_text("mine")
    with mounted(world.outside / "b", world.work / "m"):
        assert text(await use(READ, world.context, path="work/m/mine")) == "mine"
        done = await act(world, operation, "work/m/../../../outside/secret")
        assert isinstance(done, Outcome)
        assert done.status == "error"
    assert (world.outside / "secret").read_text() == SECRET


# --- what comes onto the path after it was looked up


def swap_leaf(world: World, path: Path) -> None:
    path.unlink()
    path.symlink_to(world.outside / "secret")


def swap_leaf_hard(world: World, path: Path) -> None:
    path.unlink()
    os.link(world.outside / "secret", path)


def swap_leaf_for_pipe(world: World, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap_leaf_for_folder(world: World, path: Path) -> None:
    path.unlink()
    path.mkdir()


def swap_parent(world: World, path: Path) -> None:
    path.parent.rename(world.work / "moved")
    path.parent.symlink_to(world.outside)


def swap_grandparent(world: World, path: Path) -> None:
    path.parent.parent.rename(world.work / "moved")
    path.parent.parent.symlink_to(world.outside)


def swap_parent_for_proc(world: World, path: Path) -> None:
    path.parent.rename(world.work / "moved")
    path.parent.symlink_to(f"/proc/self/root{world.outside}")


SWAPS = (
    swap_leaf,
    swap_leaf_hard,
    swap_leaf_for_pipe,
    swap_leaf_for_folder,
    swap_parent,
    swap_grandparent,
    swap_parent_for_proc,
)


@pytest.mark.parametrize("operation", ["read", "write", "edit"])
@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
async def test_p2_what_is_swapped_between_check_and_use_is_not_followed(
    world: World, swap: Callable[[World, Path], None], operation: str
) -> None:
    path = world.work / "a/b/secret"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    tool, arguments = {
        "read": (READ, {}),
        "write": (WRITE, {"content": "overwritten"}),
        "edit": (EDIT, {"edits": [{"old": SECRET, "new": "overwritten"}]}),
    }[operation]
    arguments["path"] = "work/a/b/secret"
    await use(READ, world.context, path="work/a/b/secret")
    decided = world.context.decided(tool.targets(world.context, arguments), approved=False, base=None)
    swap(world, path)
    before = world.state()
    outcome = await tool.run(decided, arguments)
    assert isinstance(outcome, Outcome)
    assert world.state() == before
    if swap is swap_leaf_hard:
        # A hard link is the file itself: reading it can't be told from reading a file of ours, writing parts from it.
        assert (world.outside / "secret").read_text() == SECRET
        return
    if (swap, operation) != (swap_leaf_for_folder, "read"):  # a folder of work/ is listed
        assert outcome.status == "error"
    assert SECRET not in text(outcome)


def flipping(world: World, path: Path, goal: Path, stop: threading.Event) -> None:
    """Puts a link to `goal` and what belongs there onto `path` by turns, each in one step, until it is told to stop."""
    mine, link = path.with_name("mine"), path.with_name("link")
    link.symlink_to(goal)
    path.rename(mine)
    while not stop.is_set():
        for one in (link, mine):
            put(one, path)
            path.rename(one)
    put(mine, path)
    link.unlink()


def put(one: Path, path: Path) -> None:
    """Moves it there, also if a tool has just made a folder in the gap."""
    while True:
        try:
            one.rename(path)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
        else:
            return


@contextmanager
def flipped(world: World, path: Path, goal: Path) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=flipping, args=(world, path, goal, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def race(world: World, operation: str, which: str, rounds: int) -> None:
    path = world.work / "a/b/secret"
    path.parent.mkdir(parents=True)
    path.write_text("mine 0")
    swapped, goal = {
        "leaf": (path, world.outside / "secret"),
        "parent": (path.parent, world.outside),
        "grandparent": (path.parent.parent, world.outside),
    }[which]
    before = world.state()
    with flipped(world, swapped, goal):
        for _ in range(rounds):
            if operation == "list":
                try:
                    listed = list_folder(str(path.parent))
                except Unusable:
                    continue
                assert "b" not in {entry.name for entry in listed or ()}
                continue
            done = await act(world, operation, "work/a/b/secret")
            assert isinstance(done, Outcome)
            assert SECRET not in text(done)
    assert world.state() == before


RACES = [
    (operation, which) for operation in ("read", "write", "edit", "list") for which in ("leaf", "parent", "grandparent")
]


@pytest.mark.parametrize(("operation", "which"), RACES)
async def test_p2_a_race_against_links_is_never_won(world: World, operation: str, which: str) -> None:
    await race(world, operation, which, 60)


@pytest.mark.matrix
@pytest.mark.parametrize(("operation", "which"), RACES)
async def test_p2_a_long_race_against_links_is_never_won(world: World, operation: str, which: str) -> None:
    await race(world, operation, which, 3000)


def test_p2_a_race_at_the_replacement_itself_is_never_won(world: World) -> None:
    """Past every check of names: the replacement goes on in the folder that it opened."""
    folder = (world.work / "a").resolve()
    folder.mkdir()
    (folder / "secret").write_text("0")
    before, now = world.state(), b"0"
    with flipped(world, folder, world.outside):
        for number in range(150):
            after = str(number).encode()
            try:
                replace_file(str(folder / "secret"), after, expected=now)
            except Unusable:
                continue
            now = after
    assert world.state() == before
    assert (folder / "secret").read_bytes() == now
