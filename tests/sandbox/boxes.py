"""A home with neighbours, sandboxes for it, and a look at what is left of a command."""

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from harnessd.sandbox.bubblewrap import Ran, Sandbox, TimedOut

CANARY = "canary-4711"


def make_home(folder: Path) -> Path:
    """`ada` beside `bob` and a state directory; every file that must not be reached holds the canary."""
    home = folder / "workspaces" / "ada"
    for name in ("agents/main/sessions", "agents/main/evicted/ses_x", "agents/main/evicted/ses_y", ".git", "work"):
        (home / name).mkdir(parents=True)
    (home / "skills/tea").mkdir(parents=True)
    (home / "AGENTS.md").write_text("Ada\n")
    (home / "skills/tea/SKILL.md").write_text("tea\n")
    (home / "agents/main/sessions/ses_x.jsonl").write_text(f"journal {CANARY}\n")
    (home / "agents/main/evicted/ses_x/call.txt").write_text("my own result\n")
    (home / "agents/main/evicted/ses_y/call.txt").write_text(f"another's {CANARY}\n")
    (home / ".git/config").write_text(f"[core] {CANARY}\n")
    (folder / "workspaces/bob/agents/main/sessions").mkdir(parents=True)
    (folder / "workspaces/bob/AGENTS.md").write_text(f"Bob {CANARY}\n")
    (folder / "workspaces/bob/agents/main/sessions/ses_z.jsonl").write_text(f"journal {CANARY}\n")
    (folder / "state").mkdir()
    (folder / "state/secrets").write_text(f"KEY={CANARY}\n")
    return home


def sandbox(home: Path, **more: object) -> Sandbox:
    hidden = (home.parent, home.parent.parent / "state")
    return Sandbox(home, hidden=hidden, **more)  # type: ignore[arg-type]


async def sh(box: Sandbox, script: str, seconds: float = 20) -> Ran | TimedOut:
    ran = await box.run(["sh", "-c", script], seconds=seconds)
    assert isinstance(ran, Ran | TimedOut), ran
    return ran


async def python(box: Sandbox, script: str, *arguments: str, seconds: float = 20) -> Ran | TimedOut:
    ran = await box.run(["python3", "-c", script, *arguments], seconds=seconds)
    assert isinstance(ran, Ran | TimedOut), ran
    return ran


def mark(home: Path) -> str:
    """Seconds to sleep that tell a process of this test from every other."""
    return f"300.{os.getpid()}{crc32(bytes(home))}"


def sleeper(home: Path) -> str:
    """A command that goes on for minutes and can be told from every other process by its argument."""
    return f"sleep {mark(home)}"


def alive(home: Path) -> list[bytes]:
    """The processes of this test that are still there."""
    return [command for command in commands() if mark(home).encode() in command]


def commands() -> list[bytes]:
    """The command line of every process on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder but what is in `work/`: kind, rights, links, time and bytes of each."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        if "work" in below.parts:
            continue
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        times = () if path.is_dir() and (path / "work").exists() else (stat.st_mtime_ns,)
        found[str(below)] = (stat.st_mode, stat.st_nlink, stat.st_uid, *times, content)
    return found
