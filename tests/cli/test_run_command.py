"""Does `run` say it, show it, and end with the code that tells how?"""

import json
import os
import re
import signal
from pathlib import Path

import anyio
import pytest

from harnessd.facts.event import read_event
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.models.script import Silence
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import ASKS, harnessd, make, start, waiting, write


def test_the_answer_goes_to_standard_output_and_the_calls_beside_it() -> None:
    make()
    said = harnessd("run", "ada", "Remember that my tea is black.")
    assert said.code == 0
    assert said.out.startswith("Remembered: my tea is black.")
    assert said.out.endswith("\n")
    assert "✓ remember(my tea is black.)" in said.err
    assert "commit" in said.err


def test_json_is_the_journal_one_event_a_line() -> None:
    home = make()
    said = harnessd("run", "ada", "Who are you?", "--json")
    assert said.code == 0
    assert said.err == ""
    events = said.records
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "session.created"
    assert {"run.started", "message.created", "run.finished"} <= {event["type"] for event in events}
    [journal] = home.glob("agents/main/sessions/*.jsonl")
    kept = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [{key: value for key, value in one.items() if key != "crc"} for one in kept[: len(events)]] == events
    state = State()
    for event in events:
        state = fold(state, read_event(event))
    assert state.last_run is not None
    assert state.last_run.reason == "completed"


def test_a_session_goes_on_and_only_the_new_run_is_shown() -> None:
    make()
    first = harnessd("run", "ada", "say one", "--json").records
    again = harnessd("run", "ada", "say two", "--session", "last", "--json").records
    assert again[0]["seq"] == first[-1]["seq"] + 1 or again[0]["seq"] > first[-1]["seq"]
    assert {event["sessionId"] for event in again} == {first[0]["sessionId"]}
    named = harnessd("run", "ada", "say three", "--session", first[0]["sessionId"])
    assert named.out == "three\n"
    assert len(harnessd("sessions", "ada", "--json").records) == 1


def test_text_comes_from_standard_input() -> None:
    make()
    assert harnessd("run", "ada", "-", stdin="say grüße\n".encode()).out == "grüße\n"
    assert harnessd("run", "ada", "-", stdin=b"say \xff!").out == "�!\n"
    assert harnessd("run", "ada", "-", stdin=b"").code == 2


def test_f1_what_waits_is_named_and_decided_from_the_command_line() -> None:
    home = make()
    said = harnessd("run", "ada", ASKS)
    assert said.code == 3
    [approval] = harnessd("sessions", "ada", "--json").records[0]["waiting"]
    assert f"harnessd approve ada {approval}" in said.err
    assert "+- Answer first, explain after. Brief beats" in said.err
    assert "Brief" not in (home / "AGENTS.md").read_text()
    allowed = harnessd("approve", "ada", approval)
    assert allowed.code == 0
    assert "✓ edit(AGENTS.md)" in allowed.err
    assert "Brief" in (home / "AGENTS.md").read_text()


def test_f1_a_denial_ends_the_run_without_the_change() -> None:
    home = make()
    approval = waiting()
    denied = harnessd("deny", "ada", approval, "--note", "leave it")
    assert denied.code == 0
    assert "denied" in denied.err
    assert "Brief" not in (home / "AGENTS.md").read_text()


def test_f1_a_decision_is_taken_once() -> None:
    make()
    approval = waiting()
    assert harnessd("approve", "ada", approval, "--json").code == 0
    for command in ("approve", "deny"):
        late = harnessd(command, "ada", approval, "--json")
        assert late.code == 5
        assert late.problem["title"] == "Conflict"
        assert "allowed" in late.problem["detail"]


def test_a_message_behind_an_approval_waits_and_says_so() -> None:
    make()
    approval = waiting()
    said = harnessd("run", "ada", "say later", "--session", "last")
    assert said.code == 3
    assert "the message waits until this is decided:" in said.err
    assert f"edit(AGENTS.md)  {approval}" in said.err
    assert "1 message(s) wait" in said.err
    assert harnessd("approve", "ada", approval).out.endswith("later\n")


def test_a_limit_ends_with_4() -> None:
    home = make()
    text = (home / "AGENTS.md").read_text().replace("mode: default", "mode: default\nbudget: {turns: 1}")
    write(home, "AGENTS_md", text)
    said = harnessd("run", "ada", "read AGENTS.md\nthen read MEMORY.md")
    assert said.code == 4
    assert "the turn limit is reached" in said.err


def test_a_mode_narrows_and_the_ceiling_holds(tmp_path: Path) -> None:
    make()
    said = harnessd("run", "ada", "Remember that my tea is black.", "--mode", "plan")
    assert said.code == 0
    assert "✗ remember" in said.err
    wide = harnessd("run", "ada", "say hi", "--mode", "bypassPermissions")
    assert wide.code == 2
    assert "ceiling" in wide.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
async def test_f5_a_signal_stops_the_run(number: signal.Signals) -> None:
    make()
    async with ScriptedServer([Silence()]) as server:
        env = {"OPENAI_API_BASE": f"{server.url}/v1", "OPENAI_API_KEY": "test-key"}
        process = start("run", "ada", "hello", "--model", "openai/scripted", env=env)
        await server.arrived.wait()
        process.send_signal(number)
        _, err = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert harnessd("sessions", "ada", "--json").records[0]["status"] == "stopped"


def test_f6_a_reader_that_goes_away_does_not_change_the_run() -> None:
    make()
    process = start("run", "ada", "Remember that my tea is black.\nthen say done")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0, err
    assert "Traceback" not in err
    assert harnessd("sessions", "ada", "--json").records[0]["status"] == "completed"


def test_a_call_is_shown_with_the_arguments_that_a_person_gave_it() -> None:
    make()
    assert harnessd("run", "ada", "run touch one").code == 3
    [approval] = harnessd("sessions", "ada", "--json").records[0]["waiting"]
    said = harnessd("approve", "ada", approval, "--argument", "command=touch two")
    shown = harnessd("show", "ada", "last")
    for text in (said.err, shown.out):
        assert "execute(touch two)" in text
        assert "✓ execute(touch one)" not in text
        assert "✗ execute(touch one)" not in text


def test_f1_what_a_subagent_asks_for_is_shown_and_decided_from_the_command_line() -> None:
    home = make(subagents__scout_md="---\nname: scout\ndescription: Looks.\n---\nLook.\n")
    said = harnessd("run", "ada", "delegate to scout: in AGENTS.md replace Short with Brief")
    assert said.code == 3
    assert "+- Answer first, explain after. Brief beats" in said.err
    above, below = home.glob("agents/main/sessions/*.jsonl"), home.glob("agents/scout/sessions/*.jsonl")
    for path, at in ((next(below), 1), (next(above), 2)):
        os.utime(path, (at, at))  # whichever of them was written last
    approval = re.search(r"harnessd approve ada (apr_\S+)", said.err)
    assert approval is not None
    assert harnessd("approve", "ada", approval[1]).code == 0
    assert "Brief" in (home / "AGENTS.md").read_text()


def test_p5_a_wider_approval_names_its_rule_and_never_covers_changed_arguments() -> None:
    home = make()
    assert harnessd("run", "ada", "run touch one").code == 3
    [approval] = harnessd("sessions", "ada", "--json").records[0]["waiting"]
    refused = harnessd("approve", "ada", approval, "--scope", "always", "--argument", "command=touch two")
    assert refused.code == 2, refused
    assert "allowed once" in refused.err
    assert "execute" not in (home / "tools.json").read_text()
    said = harnessd("approve", "ada", approval, "--scope", "always")
    assert "for good: execute(touch one)" in said.err
    assert "execute(touch one)" in (home / "tools.json").read_text()


def test_a_check_that_fails_to_the_end_is_told_to_the_person() -> None:
    make(tools_json='{"checks": [{"before": "finish", "command": "false"}]}')
    said = harnessd("run", "ada", "say done")
    assert "the run ended: completed: The check `false` failed (exit 1)" in said.err
    assert "The check `false` failed (exit 1)" in harnessd("show", "ada", "last").out
