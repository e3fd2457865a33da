"""P7, P6 as a matrix: whatever a command tries on whatever it must not touch, nothing happens and nothing is seen."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from harnessd.sandbox.bubblewrap import Ran, Unavailable
from harnessd.sandbox.gate import landlock_version
from tests.sandbox.boxes import CANARY, commands, make_home, python, sandbox, sh, snapshot

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

TRIES = r"""
import ctypes, os, shutil, sys
target = sys.argv[1]
folder, name = os.path.split(target)
libc = ctypes.CDLL(None, use_errno=True)

def system(*arguments):
    if libc.syscall(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "refused")

def write(path, flags):
    handle = os.open(path, flags, 0o644)
    os.write(handle, b"changed")
    os.close(handle)

def link_then_write():
    os.link(target, "hard")
    write("hard", os.O_WRONLY)

def symlink_then_write():
    os.symlink(target, "soft")
    write("soft", os.O_WRONLY | os.O_TRUNC)

def swapped():
    os.makedirs("swap", exist_ok=True)
    handle = os.open("swap", os.O_DIRECTORY)
    os.rename("swap", "gone")
    os.symlink(folder, "swap")
    write("swap/" + name, os.O_WRONLY)

def by_handle(start):
    handle = os.open(start, os.O_PATH | os.O_DIRECTORY)
    inner = os.open(target.lstrip("/"), os.O_WRONLY, dir_fd=handle)
    os.write(inner, b"changed")

def own_namespace(act):
    def inner():
        child = os.fork()
        if child == 0:
            try:
                system(272, 0x10000000 | 0x00020000)  # unshare: user and mount namespace
                act()
            except BaseException:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise OSError("refused")
    return inner

def unmount():
    for place in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        libc.umount2(place.encode(), 2)
    write(target, os.O_WRONLY)

def remount():
    system(165, b"none", folder.encode(), None, 32 | 4096, None)  # mount: MS_REMOUNT | MS_BIND, not read-only
    write(target, os.O_WRONLY)

def cover():
    system(165, b"none", b"/", None, 4096 | 16384, None)
    os.makedirs("over", exist_ok=True)
    system(165, b"/", b"over", None, 4096, None)
    write("over" + target, os.O_WRONLY)

def trace():
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            if libc.ptrace(16, int(entry), None, None) == 0:
                return
    raise OSError("refused")

def memory():
    write("/proc/1/mem", os.O_RDWR)

tries = {
    "append": lambda: write(target, os.O_WRONLY | os.O_APPEND),
    "truncate": lambda: write(target, os.O_WRONLY | os.O_TRUNC),
    "read and write": lambda: write(target, os.O_RDWR),
    "create beside": lambda: write(folder + "/new", os.O_WRONLY | os.O_CREAT),
    "unnamed file": lambda: write(folder, os.O_WRONLY | os.O_TMPFILE),
    "make folder": lambda: os.mkdir(folder + "/newdir"),
    "make link": lambda: os.symlink("/etc", folder + "/newlink"),
    "make pipe": lambda: os.mkfifo(folder + "/newpipe"),
    "make device": lambda: os.mknod(folder + "/newdev", 0o020666, os.makedev(1, 3)),
    "delete": lambda: os.unlink(target),
    "delete all": lambda: shutil.rmtree(folder),
    "rename": lambda: os.rename(target, folder + "/other"),
    "move away": lambda: os.rename(target, "taken"),
    "move folder": lambda: os.rename(folder, folder + "2"),
    "move over": lambda: (write("mine", os.O_WRONLY | os.O_CREAT), os.rename("mine", target)),
    "replace by copy": lambda: (write("mine", os.O_WRONLY | os.O_CREAT), shutil.copy("mine", target)),
    "hard link": link_then_write,
    "hard link there": lambda: (write("mine", os.O_WRONLY | os.O_CREAT), os.link("mine", folder + "/linked")),
    "symlink": symlink_then_write,
    "swapped folder": swapped,
    "rights": lambda: os.chmod(target, 0o777),
    "owner": lambda: os.chown(target, os.getuid(), os.getgid()),
    "times": lambda: os.utime(target, (1, 1)),
    "attribute": lambda: os.setxattr(target, "user.x", b"x"),
    "root of the first process": lambda: write("/proc/1/root" + target, os.O_WRONLY),
    "own root": lambda: write("/proc/self/root" + target, os.O_WRONLY),
    "folder of the first process": lambda: by_handle("/proc/1/cwd/../../../../../../../.."),
    "handle of the root": lambda: by_handle("/"),
    "inherited handles": lambda: [by_handle("/proc/self/fd/%d" % n) for n in range(3, 40)],
    "mount": lambda: (system(165, b"tmpfs", folder.encode(), b"tmpfs", 0, None)),
    "unmount": unmount,
    "remount": remount,
    "unmount in a namespace": own_namespace(unmount),
    "remount in a namespace": own_namespace(remount),
    "the root once more": own_namespace(cover),
    "change root": lambda: os.chroot(folder),
    **({"trace": trace} if sys.argv[2] == "walled" else {}),  # else it stops what waits for it, to its own harm
    "memory of the first process": memory,
    "enter its namespace": lambda: system(308, os.open("/proc/1/ns/mnt", 0), 0),
}
for label, act in tries.items():
    for leftover in ("mine", "soft", "swap", "gone"):
        try:
            os.unlink(leftover)
        except OSError:
            shutil.rmtree(leftover, ignore_errors=True)
    try:
        act()
    except (OSError, shutil.Error):
        continue
    print("DONE", label)
print("end of", len(tries))
"""

TARGETS = {
    "the home": "AGENTS.md",
    "a skill": "skills/tea/SKILL.md",
    "a journal": "agents/main/sessions/ses_x.jsonl",
    "its own results": "agents/main/evicted/ses_x/call.txt",
    "another session": "agents/main/evicted/ses_y/call.txt",
    "git": ".git/config",
    "another home": "../bob/AGENTS.md",
    "another's journal": "../bob/agents/main/sessions/ses_z.jsonl",
    "the state directory": "../../state/secrets",
}
MACHINES: dict[str, dict[str, object]] = {
    "read-only": {},
    "with network": {"network": True},
    "as-user": {"machine": "as-user", "network": True},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("machine", ["read-only", pytest.param("with network", marks=pytest.mark.matrix), "as-user"])
async def test_p7_no_way_of_changing_reaches(home: Path, target: str, machine: str) -> None:
    own = home / "agents/main/evicted/ses_x"
    path = Path(os.path.normpath(home / TARGETS[target]))
    before = snapshot(home.parent.parent)
    walled = "walled" if landlock_version() >= 6 else "open"
    ran = await python(sandbox(home, visible=(own,), **MACHINES[machine]), TRIES, str(path), walled)
    assert snapshot(home.parent.parent) == before
    assert isinstance(ran, Ran)
    assert ran.output.splitlines()[-1].startswith("end of"), ran.output
    # Where a folder is not there at all, or links lead nowhere, a try may do something to nothing.
    assert "DONE" not in ran.output, ran.output


READS = """
import os, sys
for path in sys.argv[1:]:
    for seen in (path, "/proc/1/root" + path, "/proc/self/root" + path, "/proc/1/cwd/" + path):
        try:
            print(open(seen, errors="replace").read())
        except OSError:
            continue
for top in (sys.argv[1].split("/workspaces/")[0], "/root", "/home", "/run", "/dev/shm"):
    for folder, inner, names in os.walk(top):
        inner[:] = [name for name in inner if not name.startswith("python3")]  # the gate's own modules
        for name in names:
            try:
                print(open(os.path.join(folder, name), errors="replace").read(10000))
            except OSError:
                continue
for number in os.listdir("/proc"):
    if number.isdigit():
        for name in ("environ", "cmdline"):
            try:
                print(open(f"/proc/{number}/{name}").read())
            except OSError:
                continue
print("read all")
"""


@pytest.mark.parametrize("machine", ["read-only", "with network"])
async def test_p7_p6_no_way_of_reading_reaches(home: Path, machine: str) -> None:
    """Nor is there the environment of a process outside."""
    hidden = [str(home / TARGETS[name]) for name in TARGETS if name not in {"the home", "a skill", "its own results"}]
    with subprocess.Popen(["sleep", "60"], env={"TOKEN": CANARY, "PATH": os.environ["PATH"]}) as outside:
        ran = await python(sandbox(home, **MACHINES[machine]), READS, *hidden)
        outside.kill()
    assert isinstance(ran, Ran)
    assert ran.output.endswith("read all\n")
    assert CANARY not in ran.output


async def test_p7_servers_see_the_machine_but_no_home_and_no_state(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine\n")
    box = sandbox(home, machine="as-user")
    assert await sh(box, f"cat {tmp_path}/mine.txt && echo x > {tmp_path}/made && cat ../AGENTS.md") == Ran(
        0, "mine\nAda\n"
    )
    assert (tmp_path / "made").read_text() == "x\n"
    hidden = " ".join(str(home / TARGETS[name]) for name in ("a journal", "git", "another home", "the state directory"))
    ran = await sh(box, f"cat {hidden}")
    assert isinstance(ran, Ran)
    assert CANARY not in ran.output


async def test_p7_a_sessions_own_files_are_shown_and_not_writable(home: Path) -> None:
    own = home / "agents/main/evicted/ses_x"
    box = sandbox(home, visible=(own, home / "agents/main/artifacts/ses_x"))
    assert await sh(box, "cat ../agents/main/evicted/*/*") == Ran(0, "my own result\n")
    for other in (home / "AGENTS.md", home / "agents", home.parent / "bob"):
        ran = await sandbox(home, visible=(other,)).run(["true"], seconds=9)
        assert isinstance(ran, Unavailable)
        assert str(other) in ran.message


@pytest.mark.parametrize("network", [False, True])
async def test_p7_sockets_of_the_daemon_are_out_of_reach(home: Path, network: bool) -> None:
    """By its file, and by an abstract name; without network, by its port."""
    path = str(home.parent.parent / "state/daemon.sock")
    name = f"\0harnessd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as file, socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        for listening, address in ((file, path), (abstract, name), (tcp, ("127.0.0.1", 0))):
            listening.bind(address)
            listening.listen()
        script = (
            "import socket, sys\n"
            "path, name, port = sys.argv[1:]\n"
            "for family, address in ((1, path), (1, '\\0' + name), (2, ('127.0.0.1', int(port)))):\n"
            "    try:\n        socket.socket(family).connect(address); print('reached', family)\n"
            "    except OSError as error:\n        pass\n"
        )
        ran = await python(sandbox(home, network=network), script, path, name[1:], str(tcp.getsockname()[1]))
    assert isinstance(ran, Ran)
    if not network or landlock_version() >= 6:
        assert "reached 1" not in ran.output
    assert ("reached 2" in ran.output) == network


async def test_loopback_of_its_own_is_there_without_network(home: Path) -> None:
    """What a test suite needs: a server and a client in one command."""
    script = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    assert await python(sandbox(home), script) == Ran(0, "")


@pytest.mark.parametrize("confined", [True, False])
async def test_p6_what_is_granted_is_seen_by_the_command_alone(
    home: Path, confined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the arguments of any process, where all users could read it; and none of ours is handed on."""
    monkeypatch.setenv("DEPLOY_TOKEN", CANARY)
    granted = f"granted-{os.getpid()}"
    box = sandbox(home, confined=confined, environment={"GRANTED": granted})
    async with box.start(["sh", "-c", "env; read -r _"]) as started:
        assert not isinstance(started, Unavailable)
        said = b""
        while f"GRANTED={granted}\n".encode() not in said:
            said += await started.output.receive()
        assert not [command for command in commands() if granted.encode() in command]
    assert CANARY.encode() not in said
    names = {line.partition("=")[0] for line in said.decode().splitlines()}
    assert names <= {"GRANTED", "PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "PWD", "_", "SHLVL", "OLDPWD"}


async def test_p6_a_granted_variable_does_not_work_on_what_is_outside(home: Path) -> None:
    """A loader variable of a home's own would else be code in the daemon's name."""
    ran = await sandbox(home, environment={"LD_PRELOAD": "/no/such.so"}).run(["true"], seconds=9)
    assert isinstance(ran, Ran)
    assert ran.output.count("/no/such.so") == 1


LINKS = {
    "work": lambda home, out: ((home / "work").rmdir(), (home / "work").symlink_to(out)),
    "agents": lambda home, out: (
        shutil.move(home / "agents", out / "moved"),
        (home / "agents").symlink_to(out / "moved"),
    ),
    ".git": lambda home, out: (shutil.move(home / ".git", out / "moved"), (home / ".git").symlink_to(out / "moved")),
    ".git file": lambda home, out: (
        shutil.move(home / ".git", out / "moved"),
        (home / ".git").write_text(f"gitdir: {out}/moved\n"),
    ),
}


@pytest.mark.parametrize("link", LINKS)
async def test_p7_p2_a_link_in_place_of_a_folder_opens_nothing(home: Path, tmp_path: Path, link: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "file").write_text("theirs\n")
    LINKS[link](home, out)
    before = snapshot(tmp_path)
    script = f"echo x > {out}/file; echo x > ../agents/x; echo x > ../.git/x; echo x > {out}/moved/x; echo x > file; "
    ran = await sandbox(home).run(["sh", "-c", script + f"cat {out}/moved/* ../.git/* ../agents/*/*/* "], seconds=9)
    assert snapshot(tmp_path) == before
    if link == "work":
        assert isinstance(ran, Unavailable)
        assert str(home / "work") in ran.message
    else:
        assert isinstance(ran, Ran), ran
        assert CANARY not in ran.output


async def test_p2_granted_folders_that_overlap_what_is_closed_are_refused(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "state")
    bob, state = home.parent / "bob", tmp_path / "state"
    for asked in (home, home / "skills", home.parent, bob, state, tmp_path, Path("/"), link, home / "work/../skills"):
        ran = await sandbox(home, workdirs=(asked,)).run(["true"], seconds=9)
        assert isinstance(ran, Unavailable), asked
        assert str(asked) in ran.message


async def test_p2_a_link_put_inside_a_granted_folder_is_not_granted(home: Path, tmp_path: Path) -> None:
    """The agent can replace what lies in work/, and the next start must not follow."""
    out, granted = tmp_path / "out", tmp_path / "granted"
    for folder in (out, granted):
        folder.mkdir()
    (granted / "inner").symlink_to(out)
    (home / "work/inner").symlink_to(out)
    box = sandbox(home, workdirs=(granted, granted / "inner", home / "work/inner"))
    await sh(box, f"echo x > {granted}/inner/file; echo x > inner/file; echo x > {out}/file; echo x > {granted}/mine")
    assert not (out / "file").exists()
    assert (granted / "mine").read_text() == "x\n"


async def test_the_operators_readable_folders_are_shown_and_no_home_by_them(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "user" / "me"
    (mine / ".tools").mkdir(parents=True)
    (mine / ".tools/tool").write_text("tool\n")
    (mine / ".netrc").write_text(CANARY)
    monkeypatch.setenv("HOME", str(mine))
    box = sandbox(home, readable=(mine / ".tools", home.parent, tmp_path / "state", tmp_path / "gone"))
    ran = await sh(
        box, f"cat {mine}/.tools/tool; cat {mine}/.netrc ../../bob/* {tmp_path}/state/*; echo x > {mine}/.tools/x"
    )
    assert isinstance(ran, Ran)
    assert ran.output.startswith("tool\n")
    assert CANARY not in ran.output
    assert not (mine / ".tools/x").exists()


async def test_p4_two_homes_at_once_see_their_own(tmp_path: Path) -> None:
    homes = [make_home(tmp_path / name) for name in ("one", "two")]
    for home, box in ((home, sandbox(home)) for home in homes):
        assert await sh(box, "echo mine > file; cat ../AGENTS.md") == Ran(0, "Ada\n")
        assert (home / "work/file").read_text() == "mine\n"


async def test_what_a_command_is_used_to_works(home: Path) -> None:
    """/dev, /proc, /tmp, temporary files, terminals, semaphores."""
    pool = 'import multiprocessing as m, pty; m.Lock(); pty.openpty(); m.get_context("fork").Pool(2).map(abs, [1])'
    script = (
        "echo a > /dev/null && echo b > /dev/stdout && echo c >&2 && cat /proc/self/status > /dev/null && "
        "head -c 4 /dev/urandom | wc -c && f=$(mktemp) && echo d > $f && mv $f ./d && cat d && mkdir -p x/y && "
        "mv x z && ln d e && rm -r z d e && test $TMPDIR = /tmp && test $HOME = $PWD && "
        f"python3 -c '{pool}'"
    )
    assert await sh(sandbox(home), script) == Ran(0, "b\nc\n4\nd\n")


async def test_p7_the_command_cannot_signal_us(home: Path) -> None:
    """There is no process of ours in there, whatever number is tried."""
    ran = await sh(sandbox(home), f"kill -9 {os.getpid()} {os.getppid()}; kill -9 1; echo here; kill -9 -1; echo there")
    assert isinstance(ran, Ran)
    assert "here" in ran.output
