"""Does bad input get a clear message with the file and the way out, the designed code, and no traceback?"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import Said, harnessd, make, workspaces, write

KINDS = [pytest.param(False, id="text"), pytest.param(True, id="json")]


def check(said: Said, code: int, as_json: bool, *named: str) -> None:
    """The code, and each text named in the message; with JSON the problem says the same."""
    assert said.code == code, said
    if as_json:
        assert said.problem["exitCode"] == code
        told = " ".join(str(value) for value in said.problem.values())
    else:
        told = said.err
    for text in named:
        assert text in told


def _missing() -> tuple[str, str]:
    return "ada", str(workspaces() / "ada")


def _missing_path() -> tuple[str, str]:
    path = str(workspaces().parent / "nowhere" / "ada")
    return path, path


def _no_repository() -> tuple[str, str]:
    (workspaces() / "ada").mkdir(parents=True)
    write(workspaces() / "ada", "AGENTS_md", "# Ada\n")
    return "ada", "no git repository"


def _no_agents() -> tuple[str, str]:
    (make() / "AGENTS.md").unlink()
    return "ada", "AGENTS.md"


def _file() -> tuple[str, str]:
    write(workspaces(), "ada", "x")
    return "ada", "file"


@pytest.mark.parametrize("as_json", KINDS)
@pytest.mark.parametrize("broken", [_missing, _missing_path, _no_repository, _no_agents, _file])
@pytest.mark.parametrize(
    "command", [["run", "@", "hi"], ["chat", "@"], ["sessions", "@"], ["show", "@"], ["log", "@"], ["why", "@"],
                ["lint", "@"], ["trust", "@"], ["approve", "@", "apr_01kbc3fqz-7h2m9xw"]], ids=lambda one: one[0],
)  # fmt: skip
def test_a_home_that_is_none(command: list[str], broken: Callable[[], tuple[str, str]], as_json: bool) -> None:
    agent, named = broken()
    said = harnessd(*[agent if one == "@" else one for one in command], *(["--json"] if as_json else []))
    check(said, 2, as_json, named, "harnessd init")
    assert said.out == ""


@pytest.mark.parametrize("as_json", KINDS)
@pytest.mark.parametrize("bad", ["../x", "ses_../../etc", "ses_01kbc3fqz-7h2m9xw/../x", "", "ses_\0", "run_01"])
@pytest.mark.parametrize(
    "command",
    [["run", "ada", "hi", "--session", "@"], ["show", "ada", "@"], ["why", "ada", "@"], ["approve", "ada", "@"],
     ["deny", "ada", "@"]], ids=lambda one: one[0],
)  # fmt: skip
def test_an_id_that_could_leave_its_folder(command: list[str], bad: str, as_json: bool) -> None:
    home = make()
    before = sorted(home.rglob("*"))
    said = harnessd(*[bad if one == "@" else one for one in command], *(["--json"] if as_json else []))
    check(said, 2, as_json)
    assert [path for path in sorted(home.rglob("*")) if path not in before and "refs" not in str(path)] == []


@pytest.mark.parametrize("as_json", KINDS)
@pytest.mark.parametrize(
    ("command", "said_of"),
    [(["run", "ada", "hi", "--session", "ses_01kbc3fqz-7h2m9xw"], "session"),
     (["show", "ada", "ses_01kbc3fqz-7h2m9xw"], "session"), (["show", "ada", "run_01kbc3fqz-7h2m9xw"], "run"),
     (["why", "ada", "run_01kbc3fqz-7h2m9xw"], "run"), (["why", "run_01kbc3fqz-7h2m9xw"], "run"),
     (["show", "ada"], "no sessions yet"), (["why", "ada"], "not run yet"),
     (["approve", "ada", "apr_01kbc3fqz-7h2m9xw"], "approval")], ids=lambda one: " ".join(one),
)  # fmt: skip
def test_what_is_not_there(command: list[str], said_of: str, as_json: bool) -> None:
    make()
    check(harnessd(*command, *(["--json"] if as_json else [])), 2, as_json, said_of)


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("session", "sessions"), ("aprove", "approve")])
def test_a_command_that_is_nearly_one(typed: str, meant: str) -> None:
    said = harnessd(typed, "ada")
    assert said.code == 2
    assert f"Did you mean '{meant}'?" in said.err


def test_a_name_that_is_no_home_names_those_that_are() -> None:
    make("ada")
    make("ben")
    said = harnessd("run", "adda", "hi")
    assert said.code == 2
    assert "harnessd init adda; there are: ada, ben" in said.err


def test_h5_one_fault_is_told_once_with_what_stands_in_for_it(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    write(home, "AGENTS_md", "---\nmode: [plan\n---\nHi\n")
    harnessd("init", home)
    found = [one for one in harnessd("lint", home, "--json").records if one["code"] == "power-not-strict"]
    assert len(found) == 1
    assert "only read-only tools run" in found[0]["message"]
    made = make("ben")
    harnessd("run", "ben", "say x")
    write(made, "AGENTS_md", "---\nmode: [plan\n---\nHi\n")
    said = harnessd("run", "ben", "remember that a is b")
    assert said.err.count("mode is not applied") == 1, "its own commit does not make it news"
    assert "read-only" not in said.err


BROKEN: dict[str, tuple[str, bytes]] = {
    "AGENTS.md holds NUL": ("AGENTS_md", b"# Ada\n\0\0"),
    "AGENTS.md is no UTF-8": ("AGENTS_md", b"# Ada\n\xff\xfe\xfa"),
    "AGENTS.md is torn to nothing": ("AGENTS_md", b""),
    "AGENTS.md has a broken header": ("AGENTS_md", b"---\nmode: [plan\nbudget: {turns\n---\n# Ada\n"),
    "AGENTS.md has a wrong power": ("AGENTS_md", b"---\nmode: wild\n---\n# Ada\n"),
    "MEMORY.md holds NUL": ("MEMORY_md", b"# Memory\n\0"),
    "KNOWLEDGE.md holds NUL": ("KNOWLEDGE_md", b"# Knowledge\n\0"),
    "tools.json is no JSON": ("tools_json", b'{"allow": ['),
    "tools.json breaks its schema": ("tools_json", b'{"allow": 7}'),
    "tools.json is torn to nothing": ("tools_json", b""),
    "a skill holds NUL": ("skills__tea__SKILL_md", b"---\nname: tea\ndescription: x\n---\n\0"),
    "a skill is no UTF-8": ("skills__tea__SKILL_md", b"---\nname: tea\ndescription: x\n---\n\xff\xfe\xfa"),
    "a subagent holds NUL": ("subagents__scout_md", b"---\nname: scout\ndescription: x\n---\n\0"),
    "a subagent has a broken header": ("subagents__scout_md", b"---\ntools: [read\nmode: plan: x\n---\nLook.\n"),
    "a subagent has a wrong power": ("subagents__scout_md", b"---\nname: scout\nmode: wild\n---\nLook.\n"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_h5_a_broken_file_is_told_and_the_agent_answers(case: str) -> None:
    key, content = BROKEN[case]
    home = make()
    path = write(home, key, content)
    relative = str(path.relative_to(home))
    said = harnessd("run", "ada", "say still here")
    assert said.code == 0
    assert said.out == "still here\n"
    assert relative in said.err
    found = harnessd("lint", "ada", "--json")
    assert found.code == 5
    [error] = [one for one in found.records if one["path"] == relative and one["severity"] == "error"]
    assert error["message"]
    assert path.read_bytes() == content, "nothing of the user's is touched"


@pytest.mark.parametrize("name", ["AGENTS.md", "MEMORY.md", "KNOWLEDGE.md", "tools.json"])
@pytest.mark.parametrize("kind", ["folder", "link out of the home", "dangling link"])
def test_h5_a_thing_in_a_files_place_is_told_and_the_agent_answers(name: str, kind: str, tmp_path: Path) -> None:
    home = make()
    path = home / name
    path.unlink()
    (tmp_path / "elsewhere").write_text("SECRET ELSEWHERE")
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("elsewhere" if kind.startswith("link") else "nothing"))
    said = harnessd("run", "ada", "say still here")
    assert (said.code, said.out) == (0, "still here\n"), said
    assert name in said.err
    assert "SECRET ELSEWHERE" not in harnessd("run", "ada", "who are you?").out
    assert [one for one in harnessd("lint", "ada", "--json").records if one["path"] == name]


@pytest.mark.parametrize("damage", ["garbage at the end", "garbage in the middle", "garbage alone", "a folder"])
def test_f3_a_damaged_journal_costs_only_what_is_damaged(damage: str) -> None:
    home = make()
    assert harnessd("run", "ada", "say one").code == 0
    [session] = harnessd("sessions", "ada", "--json").records
    [journal] = home.glob("agents/main/sessions/*.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    match damage:
        case "garbage at the end":
            journal.write_bytes(b"".join(lines) + b'{"crc":"0')
        case "garbage in the middle":
            journal.write_bytes(b"".join([*lines[:2], b"\xff\0garbage\n", *lines[2:]]))
        case "garbage alone":
            journal.write_bytes(b"\0" * 100)
        case "a folder":
            journal.unlink()
            journal.mkdir()
    again = harnessd("run", "ada", "say two", "--session", session["sessionId"])
    other = harnessd("run", "ada", "say three")
    assert (other.code, other.out) == (0, "three\n"), "another session is not touched"
    if damage == "a folder":
        check(again, 5, False, str(journal))
    else:
        assert (again.code, again.out) == (0, "two\n"), again
    listed = harnessd("sessions", "ada")
    assert listed.code == 0
    assert session["sessionId"] in listed.out


@pytest.mark.parametrize("content", [b"", b"\0\0", b"{", b"[]", b'{"seq": "x"}'])
def test_f3_a_damaged_checkpoint_costs_nothing(content: bytes) -> None:
    home = make()
    assert harnessd("run", "ada", "say one").code == 0
    [session] = harnessd("sessions", "ada", "--json").records
    checkpoint = home / "agents" / "main" / "context" / session["sessionId"] / "state.json"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_bytes(content)
    again = harnessd("run", "ada", "say two", "--session", "last")
    assert (again.code, again.out) == (0, "two\n"), again
    assert "say one" in harnessd("show", "ada", "last").out


@pytest.mark.parametrize("as_json", KINDS)
def test_p6_a_secret_store_that_others_may_read_is_refused(as_json: bool) -> None:
    make()
    store = Path.home() / ".local" / "state" / "harnessd" / "secrets"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text("OPENAI_API_KEY=sk-store\n")
    store.chmod(0o644)
    check(harnessd("run", "ada", "hi", *(["--json"] if as_json else [])), 2, as_json, str(store), "chmod 600")


@pytest.mark.parametrize("as_json", KINDS)
@pytest.mark.parametrize(
    ("text", "named"),
    [("model: [", "harnessd.yaml:"), ("modle: x\n", "modle"), ("ceiling: {mode: wild}\n", "ceiling.mode"),
     ("ceiling: {budget: {token: 9}}\n", "ceiling.budget"),
     ("- a list\n", "harnessd.yaml"), (b"\xff\xfe\xfa", "harnessd.yaml")], ids=str,
)  # fmt: skip
def test_settings_that_are_wrong_name_their_file_and_field(text: str | bytes, named: str, as_json: bool) -> None:
    make()
    write(workspaces(), "harnessd_yaml", text)
    check(harnessd("run", "ada", "hi", *(["--json"] if as_json else [])), 2, as_json, named)


@pytest.mark.parametrize(
    ("model", "named"),
    [("nonsense", "openai/gpt-5-mini"), ("foo/bar", "provider/name"), ("anthropic/x", "ANTHROPIC_API_KEY"),
     ("openai/x", "OPENAI_API_KEY")],
)  # fmt: skip
def test_l3_a_model_that_cannot_answer_fails_by_name(model: str, named: str) -> None:
    make()
    said = harnessd("run", "ada", "hi", "--model", model)
    assert said.code == 5
    assert named in said.err
    last = harnessd("run", "ada", "hi", "--model", model, "--json")
    assert last.code == 5
    [finished] = [one for one in last.records if one["type"] == "run.finished"]
    assert named in finished["failure"]["message"] + finished["failure"]["hint"]


def test_l3_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    said = harnessd("run", "ada", "hi", "--model", "openai/x")
    assert said.code == 5
    assert "http://127.0.0.1:9/v1" in said.err
    assert "harnessd doctor" in said.err


@pytest.mark.parametrize("as_json", KINDS)
def test_f9_a_home_whose_record_cannot_be_made(as_json: bool) -> None:
    home = make()
    shutil.rmtree(home / "agents")
    (home / "agents").write_text("in the way")
    said = harnessd("run", "ada", "hi", *(["--json"] if as_json else []))
    check(said, 5, as_json, str(home / "agents"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_f9_a_home_that_is_not_writable() -> None:
    home = make()
    (home / "agents").chmod(0o500)
    try:
        check(harnessd("run", "ada", "hi"), 5, False, str(home / "agents"))
    finally:
        (home / "agents").chmod(0o700)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("as_json", KINDS)
def test_f9_a_full_disk_is_told_and_loses_nothing(small_disk: Path, as_json: bool) -> None:
    home = small_disk / "ada"
    assert harnessd("init", home).code == 0
    assert harnessd("run", home, "say before").out == "before\n"
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass
    said = harnessd("run", home, "say now", *(["--json"] if as_json else []))
    check(said, 5, as_json, str(home))
    (small_disk / "filler").unlink()
    assert harnessd("run", home, "say after", "--session", "last").out.endswith("after\n")
    shown = harnessd("show", home, "last")
    assert shown.code == 0
    texts = "".join(
        harnessd("show", home, one["sessionId"]).out for one in harnessd("sessions", home, "--json").records
    )
    assert "before" in texts


@pytest.mark.parametrize("as_json", KINDS)
def test_h8_a_home_on_a_read_only_disk_can_be_looked_at_but_not_lived_in(small_disk: Path, as_json: bool) -> None:
    home = small_disk / "ada"
    assert harnessd("init", home).code == 0
    assert harnessd("run", home, "say before").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    said = harnessd("run", home, "say now", *(["--json"] if as_json else []))
    check(said, 5, as_json, str(home), "read-only")
    for command in ("sessions", "show", "log", "why", "lint"):
        assert harnessd(command, home).code == 0, command
