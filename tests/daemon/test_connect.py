"""connect, with a model that asks for it: nothing starts, leaves or stays without a person's word (W4, H9, P6)."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harnessd.daemon.session import Session
from harnessd.facts.control import Resume
from harnessd.facts.state import State
from harnessd.home.trust import TrustStore
from harnessd.models.script import Answer, Call, Script
from tests.daemon.living import Living, living, results
from tests.home.a_home import git

SERVER = str(Path(__file__).parent.parent / "tools" / "producing_server.py")
COMMAND = {"command": sys.executable, "args": [SERVER]}
MODES = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")
WIDE = {"ceiling": {"mode": "bypassPermissions"}}


def call(tool: str, /, **arguments: object) -> Answer:
    return Answer(calls=(Call(tool, arguments),))


def connect(**arguments: object) -> Answer:
    """`connect`, one of whose arguments is a name."""
    return Answer(calls=(Call("connect", arguments),))


def script(*calls: Answer) -> Script:
    return [*calls, Answer("done"), Answer("done")]


@asynccontextmanager
async def committed(base: Path, script: Script, **more: object) -> AsyncIterator[Living]:
    """A living home whose files are all committed, as after `harnessd init`."""
    more = {"tools.json": "{}\n", **more}
    async with living(base, script, **more) as one:  # type: ignore[arg-type]
        git(one.home.path, "add", "-A")
        git(one.home.path, "commit", "-qm", "mine")
        yield one


async def decide(one: Living, session: Session, decision: str) -> State:
    (approval,) = session.state.pending_approvals
    await session.control(Resume(approval_id=approval.id, decision=decision))  # type: ignore[arg-type]
    return await session.idle()


def touching(base: Path) -> tuple[dict[str, object], Path]:
    """A command that leaves a trace as soon as it runs."""
    trace = base / "trace"
    return {"command": "/bin/sh", "args": ["-c", f"touch {trace}; exec {sys.executable} {SERVER}"]}, trace


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ["try", "attach", "detach"])
async def test_w4_no_mode_starts_or_keeps_a_server_without_a_person(tmp_path: Path, mode: str, action: str) -> None:
    command, trace = touching(tmp_path)
    arguments = {"name": "old"} if action == "detach" else {"name": "new", **command}
    tools = json.dumps({"mcpServers": {"old": {**COMMAND, "enabled": False}}, "allow": ["connect", "*"]})
    header = f"---\nmode: {mode}\n---\nYou are Ada.\n"
    wanted = script(connect(action=action, **arguments))
    files = {"AGENTS.md": header, "tools.json": tools}
    async with committed(tmp_path, wanted, settings=WIDE, **files) as one:
        session, state = await one.say("go")
        if mode in {"plan", "dontAsk"}:
            assert results(state)[0][0] == "denied"
        else:
            (approval,) = state.pending_approvals
            assert approval.tool_name == "connect"
            assert approval.policy.layer == "arguments"
            assert approval.diff
            assert one.runtime.resident(one.home).rule_for(approval) is None, "no rule may lift this"
            await decide(one, session, "deny")
        assert not trace.exists()
        assert (one.home.path / "tools.json").read_text() == tools


async def test_attach_adds_what_a_person_allowed_and_the_next_turn_has_it(tmp_path: Path) -> None:
    wanted = script(connect(action="attach", name="maker", **COMMAND), call("mcp__maker__make", what="small text"))
    async with committed(
        tmp_path, wanted, **{"tools.json": '{\n  // ours\n  "allow": ["write(work/**)"],\n}\n'}
    ) as one:
        session, state = await one.say("get me the maker")
        (approval,) = state.pending_approvals
        assert approval.diff is not None
        assert '+  "mcpServers"' in approval.diff
        assert approval.base
        state = await decide(one, session, "allow")
        told = results(state)
        assert told[0][0] == "ok", told
        assert "1 tool" in told[0][1]
        assert "make" in told[0][1]
        assert "mcp__maker__make" in one.tools(1)
        assert "mcp__maker__make" not in one.tools(0)
        text = (one.home.path / "tools.json").read_text()
        assert "// ours" in text
        assert '"allow": ["write(work/**)"]' in text
        assert git(one.home.path, "log", "-1", "--format=%an").strip() == "ada"


async def test_a_trial_shows_the_command_and_keeps_nothing(tmp_path: Path) -> None:
    wanted = script(connect(action="try", name="maker", **COMMAND), connect(action="list"))
    async with committed(tmp_path, wanted) as one:
        before = (one.home.path / "tools.json").read_bytes()
        session, state = await one.say("what does it have?")
        (approval,) = state.pending_approvals
        assert json.dumps(SERVER) in (approval.diff or "")
        state = await decide(one, session, "allow")
        (status, text), (_, listed) = results(state)
        assert status == "ok"
        assert "- make: (no description)" in text
        assert "No server is declared" in listed
        assert (one.home.path / "tools.json").read_bytes() == before
        assert not [name for name in one.tools() if name.startswith("mcp__")]
        assert state.context_origin == "remote", "what a stranger's server says is not to be trusted"


async def test_h9_a_home_from_elsewhere_tries_no_program_whoever_agrees(tmp_path: Path) -> None:
    command, trace = touching(tmp_path)
    wanted = script(connect(action="try", **command), connect(action="attach", name="new", **command))
    async with committed(tmp_path, wanted) as one:
        TrustStore(one.runtime.settings.state_dir).now_foreign(one.home, "0" * 64)
        session, state = await one.say("go")
        assert results(state)[0][0] == "error"
        assert "harnessd trust" in results(state)[0][1]
        state = await decide(one, session, "allow")
        status, text = results(state)[1]
        assert status == "ok"
        assert "harnessd trust" in text
        assert not trace.exists()


async def test_what_was_attached_with_an_approval_needs_no_new_trust(tmp_path: Path) -> None:
    wanted = script(connect(action="attach", name="maker", **COMMAND))
    async with committed(tmp_path, wanted) as one:
        store = TrustStore(one.runtime.settings.state_dir)
        store.now_foreign(one.home, "0" * 64)
        one.runtime.trust_home(one.home)
        session, _ = await one.say("go")
        state = await decide(one, session, "allow")
        assert "1 tool" in results(state)[0][1]
        assert "mcp__maker__make" in one.tools(1)


async def test_p6_a_variable_is_a_secret_of_the_operators_and_never_told(tmp_path: Path) -> None:
    secret = "s3cr3t-" + "value-of-bo"
    wanted = script(
        connect(action="try", name="maker", **COMMAND, env={"API_KEY": "${BO_KEY}"}),
        connect(action="try", url="http://127.0.0.1:9/${BO_KEY}"),
        connect(action="try", url=f"http://127.0.0.1:9/{secret}"),
        call(
            "connect", action="attach", name="web", url="https://mcp.example", headers={"X-Api-Key": "hunter2hunter2"}
        ),
        connect(action="try", name="none", **COMMAND, env={"API_KEY": "${NOT_SET}"}),
    )
    store = tmp_path / "state" / "secrets"
    store.parent.mkdir()
    store.write_text(f"BO_KEY={secret}\n")
    store.chmod(0o600)
    async with committed(tmp_path, wanted) as one:
        session, state = await one.say("go")
        assert "values of ${BO_KEY}" in (state.pending_approvals[0].diff or "")
        state = await decide(one, session, "allow")
        assert results(state)[0][0] == "ok"
        state = await decide(one, session, "allow")  # the url with the variable
        assert results(state)[1][0] == "error"
        assert "[redacted]" in (state.pending_approvals[0].diff or "")
        state = await decide(one, session, "deny")
        assert "X-Api-Key" in results(state)[3][1]
        state = await decide(one, session, "allow")
        assert "${NOT_SET}" in results(state)[4][1]
        assert secret not in "".join(text for _, text in results(state))


async def test_a_url_is_tried_like_any_call_that_leaves_the_machine(tmp_path: Path) -> None:
    wanted = script(connect(action="try", url="http://127.0.0.1:9/mcp"))
    async with committed(tmp_path, wanted, **{"AGENTS.md": "---\nmode: acceptEdits\n---\nAda\n"}) as one:
        session, state = await one.say("go")
        assert state.pending_approvals[0].policy.layer == "mode"
        state = await decide(one, session, "allow")
        ((status, text),) = results(state)
        assert status == "error"
        assert "unreachable" in text


async def test_list_tells_how_each_server_is(tmp_path: Path) -> None:
    tools = {
        "good": {**COMMAND, "trust": "local"},
        "off": {**COMMAND, "enabled": False},
        "unset": {**COMMAND, "env": {"K": "${NOT_SET}"}},
        "gone": {"command": "/no/such/program", "trust": "local"},
    }
    wanted = script(connect(action="list"))
    async with committed(tmp_path, wanted, **{"tools.json": json.dumps({"mcpServers": tools})}) as one:
        _, state = await one.say("how are they?")
        ((status, text),) = results(state)
        assert status == "ok"
        told = dict(line[2:].split(" (", 1) for line in text.splitlines() if line.startswith("- "))
        assert "connected, protocol" in told["good"]
        assert "1 tool" in told["good"]
        assert "switched off" in told["off"]
        assert "${NOT_SET}" in told["unset"]
        assert "not usable" in told["gone"]
        assert state.context_origin != "remote"


async def test_detach_takes_one_out_and_its_tools_go(tmp_path: Path) -> None:
    tools = json.dumps({"mcpServers": {"maker": {**COMMAND, "trust": "local"}}}, indent=2)
    wanted = script(connect(action="detach", name="maker"))
    async with committed(tmp_path, wanted, **{"tools.json": tools}) as one:
        session, _ = await one.say("remove it")
        state = await decide(one, session, "allow")
        assert results(state)[0][0] == "ok", results(state)
        assert "mcp__maker__make" in one.tools(0)
        assert "mcp__maker__make" not in one.tools(1)
        assert json.loads((one.home.path / "tools.json").read_text()) == {"mcpServers": {}}


@pytest.mark.parametrize("action", ["attach", "detach"])
async def test_f1_an_approval_holds_for_the_file_it_was_made_from(tmp_path: Path, action: str) -> None:
    arguments = {"name": "old"} if action == "detach" else {"name": "maker", **COMMAND}
    old = '{\n  "mcpServers": {\n    "old": {"url": "https://old.example", "enabled": false}\n  },\n\n  "deny": []\n}\n'
    async with committed(tmp_path, script(connect(action=action, **arguments)), **{"tools.json": old}) as one:
        session, state = await one.say("go")
        first = state.pending_approvals[0]
        edited = old.replace('"deny": []', '"deny": ["forget"]')
        (one.home.path / "tools.json").write_text(edited)
        state = await decide(one, session, "allow")
        assert state.pending_approvals, results(state)
        (second,) = state.pending_approvals
        assert second.id != first.id
        assert second.base != first.base
        assert (one.home.path / "tools.json").read_text() == edited


async def test_w2_the_users_uncommitted_edits_stay_theirs(tmp_path: Path) -> None:
    old = '{\n  "mcpServers": {\n    "old": {"url": "https://old.example", "enabled": false}\n  },\n\n  "deny": []\n}\n'
    wanted = script(connect(action="attach", name="maker", **COMMAND))
    async with committed(tmp_path, wanted, **{"tools.json": old}) as one:
        (one.home.path / "tools.json").write_text(old.replace('"deny": []', '"deny": ["forget"]'))
        session, _ = await one.say("go")
        state = await decide(one, session, "allow")
        assert results(state)[0][0] == "ok", results(state)
        now = json.loads((one.home.path / "tools.json").read_text())
        assert now["deny"] == ["forget"]
        assert set(now["mcpServers"]) == {"old", "maker"}
        head = json.loads(git(one.home.path, "show", "HEAD:tools.json"))
        assert head["deny"] == []
        assert set(head["mcpServers"]) == {"old", "maker"}
