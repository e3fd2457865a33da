"""Do `log`, `why`, `show` and `sessions` lead from a change to what caused it?"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import harnessd, make, waiting, write


def test_w7_log_tells_who_learned_what_when_and_why() -> None:
    make()
    harnessd("run", "ada", "Remember that my tea is black.")
    newest, oldest = harnessd("log", "ada", "--json").records
    assert newest["kind"] == "agent"
    assert newest["author"] == "ada"
    assert newest["paths"] == ["MEMORY.md"]
    assert newest["because"] == "Remember that my tea is black."
    assert newest["trailers"]["run"].startswith("run_")
    assert newest["trailers"]["origin"] == "user"
    assert oldest["kind"] == "operator"
    told = harnessd("log", "ada").out
    assert "tea is black" in told
    assert newest["trailers"]["run"] in told
    assert newest["commit"][:10] in told
    assert harnessd("log", "ada", "MEMORY.md", "--json").records[0]["paths"] == ["MEMORY.md"]
    assert len(harnessd("log", "ada", "--limit", "1", "--json").records) == 1


def test_w7_why_names_the_version_of_each_file_also_when_it_was_not_committed() -> None:
    home = make()
    write(home, "KNOWLEDGE_md", "# Knowledge\n\nuncommitted\n")
    first = harnessd("run", "ada", "Remember that my tea is black.", "--json").records
    harnessd("run", "ada", "say x")
    run_id = next(one["runId"] for one in first if one["type"] == "run.started")
    [why] = harnessd("why", "ada", run_id, "--json").records
    assert why["asked"] == "Remember that my tea is black."
    assert why["answered"].startswith("Remembered: my tea is black.")
    assert why["ended"] == "completed"
    files = {one["path"]: one for one in why["files"]}
    assert set(files) >= {"AGENTS.md", "MEMORY.md", "KNOWLEDGE.md", "tools.json"}
    assert "commit" not in files["KNOWLEDGE.md"]
    assert files["AGENTS.md"]["commit"]
    [last] = harnessd("why", "ada", "--json").records
    assert last["asked"] == "say x"
    after = {one["path"]: one for one in last["files"]}
    assert after["MEMORY.md"]["run"] == run_id, "the run that wrote the memory"
    [alone] = harnessd("why", run_id, "--json").records
    assert alone == why
    told = harnessd("why", "ada", run_id).out
    assert "not committed when it was used" in told
    assert "Remember that my tea is black." in told
    assert "said    “Remembered: my tea is black." in told
    assert "ended   completed" in told


def test_show_tells_a_session_and_a_run_with_decisions_and_cost() -> None:
    make()
    events = harnessd("run", "ada", "Remember that my tea is black.", "--json").records
    harnessd("run", "ada", "say later", "--session", "last")
    session, run_id = events[0]["sessionId"], next(one["runId"] for one in events if one["type"] == "run.started")
    whole = harnessd("show", "ada", session).out
    assert whole == harnessd("show", "ada").out
    assert "you: Remember" in whole
    assert "you: say later" in whole
    assert "allow by mode" in whole
    assert "tokens in" in whole
    one = harnessd("show", "ada", run_id)
    assert "say later" not in one.out
    assert "you: Remember" in one.out
    shown = harnessd("show", "ada", run_id, "--json").records
    assert {event.get("runId", run_id) for event in shown} == {run_id}
    assert [event["seq"] for event in harnessd("show", "ada", session, "--json").records][:3] == [1, 2, 3]


def test_sessions_tell_how_each_stands() -> None:
    make()
    harnessd("run", "ada", "say hi")
    approval = waiting()
    wait, done = harnessd("sessions", "ada", "--json").records
    assert (wait["status"], done["status"]) == ("waiting", "completed")
    assert wait["waiting"] == [approval]
    assert done["title"] == "say hi"
    told = harnessd("sessions", "ada").out
    assert f"harnessd approve ada {approval}" in told


@pytest.mark.parametrize("content", [b"", b"garbage\n", b"\0" * 4096], ids=["empty", "garbage", "zeros"])
def test_f9_a_journal_that_cannot_be_read_hides_no_other(content: bytes) -> None:
    home = make()
    harnessd("run", "ada", "say hi")
    (home / "agents" / "main" / "sessions" / "ses_01kbc3fqz-7h2m9xw.jsonl").write_bytes(content)
    for command in ("sessions", "show", "why", "log"):
        assert harnessd(command, "ada").code == 0
    statuses = {one["sessionId"]: one["status"] for one in harnessd("sessions", "ada", "--json").records}
    assert statuses["ses_01kbc3fqz-7h2m9xw"] == "unreadable"
    assert "completed" in statuses.values()


def test_a_home_without_its_journals_still_has_its_history() -> None:
    home = make()
    harnessd("run", "ada", "Remember that my tea is black.")
    shutil.rmtree(home / "agents")
    newest = harnessd("log", "ada", "--json").records[0]
    assert "because" not in newest
    assert newest["trailers"]["run"]


def test_a_moment_is_written_the_same_way_everywhere() -> None:
    make()
    harnessd("run", "ada", "say x")
    for command in ("show", "why", "sessions"):
        told = harnessd(command, "ada").out
        assert re.search(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", told)
        assert not re.search(r"\dT\d\d:\d\d", told), f"{command} tells a time as a program writes it"


def test_a_refusal_is_told_once() -> None:
    make()
    harnessd("run", "ada", "write notes.md: x")
    assert harnessd("show", "ada").out.count("Not allowed, nothing was run") == 2, "the call's line and the answer"


def test_the_agents_own_commit_is_not_told_as_a_change_of_the_home() -> None:
    make()
    said = harnessd("run", "ada", "remember that a is b\nthen learn a skill tea: heat")
    assert said.err.count("commit ") == 2
    assert "the home changed" not in said.err
    assert "the home changed" not in harnessd("run", "ada", "remember that I am Bo", "--user", "bo").err


@pytest.mark.parametrize("wanted", ["ses_01kbc3fqz-7h2m9xw", "run_01kbc3fqz-7h2m9xw"])
def test_a_hint_names_the_home_so_that_it_can_be_pasted(wanted: str, tmp_path: Path) -> None:
    home = tmp_path / "my ada"
    assert f"harnessd run '{home}' " in harnessd("init", home).out
    said = harnessd("show", home, wanted)
    hint = said.err.splitlines()[-1]
    command = shlex.split(hint[hint.index("harnessd sessions") :])[1:3]
    assert harnessd(*command).code == 0
