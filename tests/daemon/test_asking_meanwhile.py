"""F1: a question is open while its server is changed, taken away, forbidden or unreadable: nobody is wedged by it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessd.daemon.session import Accepted
from harnessd.models.script import Answer, Request
from tests.daemon.living import call, living, results
from tests.daemon.test_asking import ASKING, HOLDING, control, effects, only, tools_json


def script(tool: str) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        last = request.body["messages"][-1]
        asked = last["role"] == "user" and "go" in str(last["content"])
        return call(f"mcp__tea__{tool}", tea="x") if asked else Answer("done")

    return answer


def changed(base: Path, file: Path, how: str) -> str:
    """tools.json after somebody's change."""
    told = json.loads(tools_json(base, file))
    server = told["mcpServers"]["tea"]
    match how:
        case "removed":
            del told["mcpServers"]["tea"]
        case "disabled":
            server["enabled"] = False
        case "started anew":
            server["env"] = {"OTHER": "1"}
        case "denied":
            told["deny"] = ["mcp__tea__*"]
        case _:
            return "{"
    return json.dumps(told)


TABLE = {
    "2026": {"removed": "invalid", "disabled": "invalid", "denied": "invalid", "started anew": "ok", "broken": "ok"},
    "2025": {"removed": "error", "disabled": "error", "denied": "ok", "started anew": "error", "broken": "ok"},
}
"""How the call ends. A held one goes with its server; one of 2026 meets whatever server and rules there are by then."""


@pytest.mark.parametrize(
    ("era", "how", "status"), [(era, how, status) for era, ends in TABLE.items() for how, status in ends.items()]
)
async def test_f1_tools_json_changes_while_a_question_is_open(tmp_path: Path, era: str, how: str, status: str) -> None:
    file, tool = (ASKING, "brew") if era == "2026" else (HOLDING, "pour")
    async with living(tmp_path, script(tool), **{"tools.json": tools_json(tmp_path, file)}) as one:
        session, state = await one.say("go")
        approval = only(state)
        (one.home.path / "tools.json").write_text(changed(tmp_path, file, how))
        await one.say("the change is read")
        answer = await session.control(control(approval, arguments={"cups": 2}))
        assert isinstance(answer, Accepted) or answer.status == 409
        state = await session.idle()
        assert state.pending_approvals == ()
        assert [ended for ended, _ in results(state)] == [status]
        assert len(effects(tmp_path)) == (status == "ok")
        _, state = await one.say("and now?", session)
        assert state.last_run is not None
        assert state.last_run.reason == "completed"
