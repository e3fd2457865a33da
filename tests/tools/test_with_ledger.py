"""Files, gate, door and journal together: an approval over a restart, and what is on disk afterwards."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harnessd.facts.event import MessageCreated, RunStarted, ToolApprovalResolved, TurnStarted
from harnessd.facts.message import AssistantMessage, TextPart
from harnessd.facts.run import Decision
from harnessd.home.layout import Home
from harnessd.journal.committer import Committer
from harnessd.journal.ledger import Ledger
from harnessd.permissions.call import GateCall
from harnessd.permissions.gate import GateContext, decide
from harnessd.tools.files import file_tools
from harnessd.tools.memory import memory_tools
from harnessd.tools.pipeline import Done, Waiting, run_calls
from harnessd.tools.toolbox import Toolbox
from tests.tools.a_session import TURN, a_call, a_context, a_home

SESSION = "ses_01kbc3fqz-7h2m9xw"
EDIT = a_call("edit", '{"path": "AGENTS.md", "edits": [{"old": "# Ada", "new": "# Ada, who likes tea"}]}')
REMEMBER = a_call("remember", '{"text": "likes tea"}')
READ = a_call("read", '{"path": "AGENTS.md"}')


@asynccontextmanager
async def opened(home: Home) -> AsyncIterator[Ledger]:
    committer = Committer()
    ledger = await Ledger.open(
        home.journal("main", SESSION),
        home.checkpoint("main", SESSION),
        session_id=SESSION,
        agent_id="main",
        committer=committer,
    )
    try:
        yield ledger
    finally:
        await ledger.close()
        committer.close()


def gate(**known: object) -> Callable[[GateCall], Awaitable[Decision]]:
    context = replace(GateContext(), **known)  # type: ignore[arg-type]

    async def ask(call: GateCall) -> Decision:
        return await decide(call, context)

    return ask


async def go(home: Home, ledger: Ledger) -> Done | Waiting:
    run = ledger.state.active_run
    assert run is not None
    return await run_calls(
        ledger,
        TURN,
        run.calls,
        toolbox=Toolbox((*file_tools(), *memory_tools())),
        decide=gate(),
        context_for=lambda call: a_context(home),
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return a_home(tmp_path, {"MEMORY.md": "# Memory\n"})


@pytest.mark.parametrize("meanwhile", ["nothing", "the file changes"])
async def test_f1_an_approval_outlives_the_process_and_is_bound_to_its_base(home: Home, meanwhile: str) -> None:
    async with opened(home) as ledger:
        ledger.record(RunStarted(run_id=TURN.run_id))
        ledger.record(TurnStarted(run_id=TURN.run_id, turn_id=TURN.turn_id, number=1))
        ledger.record(MessageCreated(message=AssistantMessage(id="msg_1", tool_calls=(EDIT, REMEMBER, READ))))
        waiting = await go(home, ledger)
        assert isinstance(waiting, Waiting)
    assert "likes tea" in (home.path / "MEMORY.md").read_text()
    async with opened(home) as ledger:
        (approval,) = ledger.state.pending_approvals
        assert (approval.id,) == waiting.approvals
        assert approval.diff is not None
        assert "+# Ada, who likes tea" in approval.diff
        assert approval.policy.answers
        if meanwhile != "nothing":
            (home.path / "AGENTS.md").write_text("# Ada\nBe kind.\n")
        ledger.record(allowed(approval.id))
        again = await go(home, ledger)
        if meanwhile != "nothing":
            assert isinstance(again, Waiting)
            assert again != waiting
            (approval,) = ledger.state.pending_approvals
            ledger.record(allowed(approval.id))
            again = await go(home, ledger)
        assert again == Done()
        assert ledger.state.active_run is not None
        edit, remember, read = ledger.state.active_run.calls
        assert [one.result.status for one in (edit, remember, read) if one.result] == ["ok", "ok", "ok"]
        assert read.result is not None
        assert read.result.parts == (TextPart(text="# Ada\n"),)
    text = (home.path / "AGENTS.md").read_text()
    assert text.startswith("# Ada, who likes tea\n")
    assert ("Be kind." in text) == (meanwhile != "nothing")


def allowed(approval_id: str) -> ToolApprovalResolved:
    return ToolApprovalResolved(approval_id=approval_id, tool_call_id=EDIT.id, outcome="allowed", by="uma")
