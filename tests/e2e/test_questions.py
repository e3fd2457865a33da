"""A person answers a server's question from the command line, in the chat, and over HTTP."""

import subprocess
from pathlib import Path

import anyio
import pytest

from harnessd.models.script import Answer, Request
from harnessd.models.scripted import ScriptedServer
from tests.api.served import served
from tests.cli.command_line import make, start, write
from tests.daemon.test_asking import ASKING, HOLDING, effects, tools_json
from tests.e2e.lanes import DIRECT, calls, harnessd

BREW, POUR = (("mcp__tea__brew", {}),), (("mcp__tea__pour", {}),)


def script(wanted: tuple[tuple[str, dict[str, object]], ...]) -> ScriptedServer:
    def answer(request: Request) -> Answer:
        return Answer("done") if DIRECT.results(request) else calls(*wanted)

    return ScriptedServer(answer)


@pytest.mark.timeout(120)
async def test_a_question_is_answered_from_the_command_line(tmp_path: Path) -> None:
    home = make()
    write(home, "tools_json", tools_json(tmp_path, ASKING))
    async with script(BREW) as server:
        env = DIRECT.env(server)
        said = await harnessd("run", "ada", "Brew.", "--model", DIRECT.model, env=env)
        assert said.code == 3, said
        assert "tea asks: How much?" in said.err
        assert "cups (integer, 1…9)" in said.err
        assert "sugar (boolean, false if empty)" in said.err
        listed = await harnessd("approve", "ada", "--json", env=env)
        (waiting,) = listed.records[0]["waiting"]
        assert waiting["question"]["server"] == "tea"
        assert f"harnessd approve ada {waiting['id']} --argument cups=…" in said.err
        wrong = await harnessd("approve", "ada", waiting["id"], "--argument", "cups=12", env=env)
        assert wrong.code == 2
        assert "cups" in wrong.err
        right = await harnessd("approve", "ada", waiting["id"], "--arguments", '{"cups": 3}', env=env)
        assert right.code == 0, right
    assert effects(tmp_path) == ["brew 3 False"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("server_file", "wanted", "made"), [(ASKING, BREW, "brew 2 True"), (HOLDING, POUR, "pour 2")], ids=["2026", "2025"]
)
async def test_a_question_is_answered_in_the_chat_field_by_field(
    tmp_path: Path, server_file: Path, wanted: tuple[tuple[str, dict[str, object]], ...], made: str
) -> None:
    home = make()
    write(home, "tools_json", tools_json(tmp_path, server_file))
    async with script(wanted) as server:
        child = start("chat", "ada", "--model", DIRECT.model, stdin=subprocess.PIPE, env=DIRECT.env(server))
        typed = ["Brew.", "y", "2", "yes", ""] if server_file == ASKING else ["Brew.", "y", "2"]
        out, err = await anyio.to_thread.run_sync(lambda: child.communicate("\n".join(typed) + "\n", timeout=90))
    assert "Traceback" not in err
    assert child.returncode == 0, err
    assert "done" in out
    assert effects(tmp_path) == [made]


async def test_a_question_is_answered_over_http(tmp_path: Path) -> None:
    files = {"tools.json": tools_json(tmp_path, ASKING)}
    async with served(tmp_path, [calls(*BREW), Answer("done")], **files) as one:
        session, _ = await one.living.say("brew")
        listed = await one.ask("GET", "/api/approvals")
        (entry,) = listed.json["approvals"]
        approval = entry["approval"]
        assert approval["question"]["message"] == "How much?"
        place = f"/api/agents/ada/sessions/{session.session_id}/control"
        control = {"control": "resume", "approvalId": approval["id"], "decision": "allow"}
        for answer, named in ((None, "cups"), ({"cups": 99}, "cups"), ({"cup": 1, "cups": 1}, "cup")):
            refused = await one.ask("POST", place, control | ({"arguments": answer} if answer else {}))
            assert refused.status == 400
            assert named in refused.json["detail"]
        accepted = await one.ask("POST", place, control | {"arguments": {"cups": 3}})
        assert accepted.status == 202
        await session.idle()
        late = await one.ask("POST", place, control | {"arguments": {"cups": 4}})
        assert late.status == 409
        assert late.json["current"]["arguments"] == {"cups": 3, "sugar": False}
    assert effects(tmp_path) == ["brew 3 False"]
