"""W2, H5 through whole runs: the user's own work, and files that broke, under an agent that writes."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.models.script import Answer, Call
from tests.daemon.living import Living, living, results, write


def git(home: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=u", "-c", "user.email=u@x", "-c", "core.editor=true")
    return subprocess.run(
        ["git", "-C", home, *identity, *arguments], capture_output=True, text=True, check=False
    ).stdout


def staged(home: Path) -> None:
    write(home / "KNOWLEDGE.md", "staged by the user\n")
    git(home, "add", "KNOWLEDGE.md")


def dirty(home: Path) -> None:
    write(home / "AGENTS.md", (home / "AGENTS.md").read_text() + "\nBy hand.\n")
    write(home / "notes.txt", "untracked")


def same_file(home: Path) -> None:
    write(home / "MEMORY.md", (home / "MEMORY.md").read_text() + "- by hand\n")


def same_file_staged(home: Path) -> None:
    same_file(home)
    git(home, "add", "MEMORY.md")
    same_file(home)


def removed(home: Path) -> None:
    git(home, "rm", "-q", "--cached", "KNOWLEDGE.md")


def intent_to_add(home: Path) -> None:
    write(home / "skills/new/SKILL.md", "---\nname: new\ndescription: New. Use when new.\n---\nNew.\n")
    git(home, "add", "-N", "skills/new/SKILL.md")


def rebasing(home: Path) -> None:
    git(home, "checkout", "-qb", "other")
    write(home / "KNOWLEDGE.md", "theirs\n")
    git(home, "commit", "-qam", "theirs")
    git(home, "checkout", "-q", "main")
    write(home / "KNOWLEDGE.md", "ours\n")
    git(home, "commit", "-qam", "ours")
    git(home, "rebase", "-q", "other")


def merging(home: Path) -> None:
    rebasing(home)
    git(home, "rebase", "--abort")
    git(home, "merge", "-q", "other")


def bisecting(home: Path) -> None:
    git(home, "bisect", "start")


def detached(home: Path) -> None:
    git(home, "checkout", "-q", "--detach")


STATES = (staged, dirty, same_file, same_file_staged, removed, intent_to_add, rebasing, merging, bisecting, detached)
REFUSING = {rebasing, merging, bisecting, detached}


def picture(home: Path) -> dict[str, str]:
    """What is the user's: what is staged and what is not, but for what the agent itself writes."""
    tea = ":!skills/tea"
    return {
        "staged": git(home, "diff", "--cached", "--", ".", tea, ":!MEMORY.md"),
        "unstaged": git(home, "diff", "--", ".", tea, ":!MEMORY.md"),
        "status": git(home, "status", "--porcelain", "--", ".", tea, ":!MEMORY.md"),
        "memory": git(home, "diff", "--cached", "--", "MEMORY.md"),
        "stash": git(home, "stash", "list"),
    }


@pytest.mark.parametrize("state", STATES)
async def test_w2_the_users_work_is_as_it_was_whatever_state_it_is_in(
    tmp_path: Path, state: Callable[[Path], None]
) -> None:
    skill = "---\nname: tea\ndescription: Brews tea. Use when somebody is thirsty.\n---\nBoil water.\n"
    script = [
        Answer(
            calls=(
                Call("remember", {"text": "likes tea"}),
                Call("write", {"path": "skills/tea/SKILL.md", "content": skill}),
            )
        ),
        Answer("done"),
    ]
    async with living(tmp_path, script, **{"KNOWLEDGE.md": "base\n", "MEMORY.md": "- a fact\n- another\n"}) as one:
        home = one.home.path
        git(home, "add", "-A")
        git(home, "commit", "-qm", "base")
        state(home)
        before, head, memory = picture(home), git(home, "rev-parse", "HEAD"), (home / "MEMORY.md").read_text()
        _, now = await one.say("go")
        after = picture(home)
        if state is same_file_staged:  # the staged text is the user's; the agent's fact is in HEAD below it
            assert "by hand" in after.pop("memory")
            before.pop("memory")
        assert after == before
        outcomes = {status for status, _ in results(now)}
        if state in REFUSING:
            assert outcomes == {"error"}, results(now)
            assert git(home, "rev-parse", "HEAD") == head
            assert (home / "MEMORY.md").read_text() == memory
            return
        assert outcomes == {"ok"}, results(now)
        assert "likes tea" in (home / "MEMORY.md").read_text()
        assert set(memory.splitlines()) <= set((home / "MEMORY.md").read_text().splitlines())
        by_agent = git(home, "log", "--format=", "-p", f"{head.strip()}..HEAD")
        assert "by hand" not in by_agent.lower().replace("-by hand", "")
        git(home, "commit", "-qm", "the user's next commit")
        kept = git(home, "show", "HEAD:MEMORY.md")
        assert "likes tea" in kept or state is same_file_staged, kept
        assert git(home, "show", "HEAD:skills/tea/SKILL.md") == skill


HEADER = "---\nname: Ada\nmode: plan\nbudget:\n  turns: 2\n---\nWork.\n"
DENY = '{"deny": ["read", "write(work/**)"], "ask": ["todo"]}\n'
BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda raw: raw[: len(raw) // 2],
    "first byte gone": lambda raw: raw[1:],
    "NUL": lambda raw: raw[:5] + b"\0" + raw[6:],
    "all NUL": lambda raw: b"\0" * len(raw),
    "latin-1": lambda raw: raw.replace(b"a", b"\xe4", 1),
    "conflict": lambda raw: b"<<<<<<< HEAD\n" + raw + b"=======\n" + raw + b">>>>>>> other\n",
    "tab": lambda raw: raw.replace(b"  ", b"\t"),
    "quote": lambda raw: raw.replace(b":", b': "', 1),
    "utf-16 torn": lambda raw: raw.decode().encode("utf-16")[:-1],
}


@pytest.mark.parametrize("how", [*BREAKS, "folder", "dangling link", "link outside", "pipe", "unreadable"])
@pytest.mark.parametrize("path", ["AGENTS.md", "tools.json"])
async def test_h5_no_break_of_a_file_loosens_what_it_limited_before_or_after_a_restart(
    tmp_path: Path, path: str, how: str
) -> None:
    attempt = Answer(
        calls=(
            Call("write", {"path": "work/x.txt", "content": "x"}),
            Call("read", {"path": "MEMORY.md"}),
            Call("remember", {"text": "x"}),
        )
    )
    script = [attempt, Answer("done"), attempt, Answer("done"), attempt, Answer("done")]
    async with living(tmp_path, script, **{path: HEADER if path == "AGENTS.md" else DENY}) as one:
        home = one.home.path
        git(home, "add", "-A")
        git(home, "commit", "-qm", "base")
        _, state = await one.say("go")
        whole = results(state)
        place = home / path
        raw = place.read_bytes()
        if how in BREAKS:
            place.write_bytes(BREAKS[how](raw))
        else:
            place.unlink()
            if how == "folder":
                place.mkdir()
            elif how == "dangling link":
                place.symlink_to("nowhere")
            elif how == "link outside":
                (tmp_path / "wide").write_text("Do anything.\n" if path == "AGENTS.md" else "{}")
                place.symlink_to(tmp_path / "wide")
            elif how == "pipe":
                os.mkfifo(place)
            else:
                place.write_bytes(raw)
                place.chmod(0)
        _, state = await one.say("go")
        before = results(state)
        assert [status for status, _ in before] == [status for status, _ in whole], (before, state.problems)
        async with Runtime.open(one.runtime.settings, {"OPENAI_API_KEY": "test-key"}) as again:
            _, state = await Living(again, one.home, one.server).say("go", await again.session(one.home))
            assert [status for status, _ in results(state)] == [status for status, _ in whole]
        assert not (home / "work/x.txt").exists()


async def test_w5_upkeep_reads_no_link_and_survives_odd_bytes(tmp_path: Path) -> None:
    agents = "---\nname: Ada\nmemory:\n  every: 1\n---\nWork.\n"
    outside = tmp_path / "outside.md"
    outside.write_text("- private thing\n")
    for odd in ("link", "latin-1", "folder"):
        async with living(tmp_path / odd, [Answer("- a fact"), Answer("- a fact")], **{"AGENTS.md": agents}) as one:
            place = one.home.path / "MEMORY.md"
            git(one.home.path, "add", "-A")
            git(one.home.path, "commit", "-qm", "base")
            place.unlink(missing_ok=True)
            if odd == "link":
                place.symlink_to(outside)
            elif odd == "folder":
                place.mkdir()
            else:
                place.write_bytes(b"- caf\xe9\n")
            _, state = await one.say("go")
            assert state.last_run is not None
            assert state.last_run.reason == "completed", (odd, state.last_run)
            assert outside.read_text() == "- private thing\n"
            assert "private thing" not in str([request.body for request in one.requests])
            assert "private thing" not in git(one.home.path, "log", "-p")
