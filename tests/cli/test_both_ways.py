"""Is what a command says and does the same with a daemon and without?"""

import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cli.command_line import ASKS, Said, harnessd, make, start, write
from tests.cli.daemon import Daemon, serving

NUMBERS = count(1)
ONE, TWO = "write work/one.txt: one", "write work/two.txt: two"
DELEGATES = "delegate to scout: read AGENTS.md\nthen in AGENTS.md replace Short with Brief"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests of this module; each makes homes of its own in its workspaces."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        with serving(folder) as daemon:
            yield daemon


Speak = Callable[..., Said]
Story = Callable[[str, Speak], None]


def quiet_commands(home: str, say: Speak) -> None:
    say("sessions", home)
    say("ps", home)
    say("ps", home, "--json")
    say("approve", home)
    say("stop", home)
    say("show", home)
    say("approve", home, "apr_none")
    say("approve", home, "run_none")
    say("deny", home, "apr_none")
    say("stop", home, "ses_none")
    say("stop", home, "run_none", "--json")


def one_answer(home: str, say: Speak) -> None:
    say("run", home, "say one")
    say("run", home, "say two", "--json")
    say("run", home, "-", stdin=b"say three")
    say("run", home, "say four", "--session", "last")
    say("run", home, "say five", "--session", "ses_none")
    say("run", home, "say six", "--session", "../x")
    say("run", home, "say seven", "--user", "Not A Name!")
    say("run", home, "say eight", "--user", "kim", "--mode", "plan")
    say("run", home, "say nine", "--mode", "bypassPermissions")
    say("run", home, "Remember that my tea is black.")
    say("sessions", home)
    say("sessions", home, "--json")
    say("show", home)
    say("ps", home)


def an_approval(home: str, say: Speak) -> None:
    asked = say("run", home, ASKS)
    approval = re.search(r"apr_[\w-]+", asked.err)
    assert approval is not None
    say("ps", home)
    say("ps", home, "--json")
    say("approve", home)
    say("run", home, "say later", "--session", "last")
    say("run", home, "say never", "--session", "last", "--when-busy", "reject")
    say("run", home, "say steered", "--session", "last", "--when-busy", "steer")
    say("approve", home, approval[0])
    say("approve", home, approval[0])
    say("deny", home, approval[0], "--json")
    say("ps", home)
    say("show", home)


def an_approval_edited(home: str, say: Speak) -> None:
    approval = asked(home, say)
    say("approve", home, approval, "--argument", "nonsense")
    say("approve", home, approval, "--arguments", "[1]")
    say("approve", home, approval, "--arguments", "{")
    say("approve", home, approval, "--argument", "new=Terse", "--note", "shorter")
    say("show", home, "--whole")


def a_denial(home: str, say: Speak) -> None:
    say("deny", home, asked(home, say), "--note", "leave it")
    say("deny", home, asked(home, say), "--cancel", "--json")
    say("show", home)


def in_the_session(home: str, say: Speak) -> None:
    say("approve", home, asked(home, say), "--scope", "session")  # no rule can say this
    say("deny", home, asked(home, say, ONE))
    say("approve", home, asked(home, say, ONE), "--scope", "session")
    say("run", home, ONE, "--session", "last")
    say("approve", home, asked(home, say, TWO), "--scope", "always")
    say("run", home, TWO)


def a_stop(home: str, say: Speak) -> None:
    asked(home, say)
    say("run", home, "say later", "--session", "last")
    say("stop", home, "--scope", "session")
    say("stop", home, "last")
    asked(home, say)
    say("stop", home, "--json")
    asked(home, say)
    asked(home, say)
    say("stop", home)
    say("ps", home)
    say("sessions", home)


def a_subagent_asks(home: str, say: Speak) -> None:
    said = say("run", home, DELEGATES)
    approval = re.search(r"apr_[\w-]+", said.err)
    assert approval is not None, said
    say("ps", home)
    say("approve", home)
    say("approve", home, approval[0])
    say("sessions", home)
    say("ps", home)


STORIES = {
    story.__name__: (story, codes)
    for story, codes in [
        (quiet_commands, [0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2]),
        (one_answer, [0, 0, 0, 0, 2, 2, 2, 0, 2, 0, 0, 0, 0, 0]),
        (an_approval, [3, 0, 0, 0, 3, 5, 3, 0, 5, 5, 0, 0]),
        (an_approval_edited, [3, 2, 2, 2, 0, 0]),
        (a_denial, [3, 0, 3, 0, 0]),
        (in_the_session, [3, 5, 3, 0, 3, 0, 0, 3, 0, 0]),
        (a_stop, [3, 3, 0, 5, 3, 0, 3, 3, 2, 0, 0]),
        (a_subagent_asks, [3, 0, 0, 0, 0, 0]),
    ]
}


@pytest.mark.parametrize("name", STORIES)
def test_a_command_says_and_does_the_same_with_a_daemon_and_without(
    name: str, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, codes = STORIES[name]
    monkeypatch.setenv("HARNESSD_WORKSPACES", str(daemon.workspaces))
    told: list[list[str]] = []
    for state_dir in (tmp_path / "alone", daemon.state_dir):
        monkeypatch.setenv("HARNESSD_STATE", str(state_dir))
        home = f"ada-{next(NUMBERS)}"
        write(make(home), "subagents__scout_md", "---\nname: scout\ndescription: Looks.\n---\nLook.\n")
        said: list[tuple[tuple[str, ...], Said]] = []

        def say(*args: str, stdin: bytes = b"", said: list[tuple[tuple[str, ...], Said]] = said) -> Said:
            said.append((args, harnessd(*args, stdin=stdin)))
            return said[-1][1]

        story(home, say)
        assert [one.code for _, one in said] == codes, [(args, one.code, one.err) for args, one in said]
        told.append(plain(said, home, str(state_dir)))
    assert told[0] == told[1]


def test_a_chat_is_the_same_with_a_daemon_and_without(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["say one", *(line.removeprefix("then ") for line in ASKS.splitlines()), "l", "say queued", "/show", "y"]
    lines += ["/new", "say two", "/sessions", "/nonsense", "say bye", "/quit"]
    monkeypatch.setenv("HARNESSD_WORKSPACES", str(daemon.workspaces))
    told: list[list[str]] = []
    for state_dir in (tmp_path / "alone", daemon.state_dir):
        monkeypatch.setenv("HARNESSD_STATE", str(state_dir))
        home = f"ada-{next(NUMBERS)}"
        make(home)
        process = start("chat", home, stdin=subprocess.PIPE)
        out, err = process.communicate("\n".join(lines), timeout=60)
        assert process.returncode == 0, err
        told.append(plain([((), Said(0, out, err))], home, str(state_dir)))
    assert told[0] == told[1]
    assert "bye" in told[0]


def asked(home: str, say: Speak, words: str = ASKS) -> str:
    """Runs into an approval; its id."""
    said = say("run", home, words)
    found = re.search(r"apr_[\w-]+", said.err)
    assert found is not None, said
    return found[0]


def plain(said: list[tuple[tuple[str, ...], Said]], home: str, state_dir: str) -> list[str]:
    """What was said, with each id numbered in the order of first sight, and without times and hashes."""
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        kind = found[1]
        return names.setdefault(found[0], f"{kind}_{sum(name.startswith(kind) for name in names.values()) + 1}")

    lines = [line for args, one in said for line in (" ".join(args), *one.out.splitlines(), *one.err.splitlines())]
    text = "\n".join(lines).replace(state_dir, "STATE")
    text = re.sub(rf"\b{home}\b", "HOME", text)
    text = re.sub(r"\b(ses|run|turn|call|apr|msg|art|sub)_[0-9a-z]{6,}(?:-[0-9a-z]+)?\b", numbered, text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z)?", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{10,64}\b", "HASH", text)
    text = re.sub(r'("\w*(?:Ms|Seconds|seconds)"):[\d.e-]+', r"\1:N", text)
    return re.sub(r"\b\d+\.\d s\b", "N s", text).split("\n")
