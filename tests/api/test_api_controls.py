"""Controls over HTTP: 202 with what began, or a problem that says what stands now. Decisions count once."""

import asyncio
from pathlib import Path

import anyio
import pytest

from harnessd.models.script import Answer, Silence
from tests.api.served import Reply, Served, a_write, served
from tests.daemon.living import call
from tests.daemon.test_delegate import delegates, ended, scout
from tests.daemon.test_delegate import script as by_whom

DONE = Answer("Done.")


async def waiting(door: Served, session_id: str) -> str:
    """The id of the one approval that waits."""
    await door.say(session_id, "Write about tea.")
    found = (await door.ask("GET", "/api/approvals")).json["approvals"]
    (one,) = [entry for entry in found if entry["sessionId"] == session_id]
    assert (one["home"], one["agentId"]) == ("ada", "main")
    return str(one["approval"]["id"])


async def test_f1_of_twenty_racing_decisions_one_counts_and_the_others_are_told_which(tmp_path: Path) -> None:
    async with served(tmp_path, [a_write(), Answer("Done.")]) as door:
        session_id = await door.session()
        approval = await waiting(door, session_id)

        async def decide(n: int) -> Reply:
            decision = "allow" if n % 2 else "deny"
            return await door.control(
                session_id, control="resume", approvalId=approval, decision=decision, note=f"by {n}"
            )

        replies = await asyncio.gather(*(decide(n) for n in range(20)))
        accepted = [reply for reply in replies if reply.status == 202]
        refused = [reply for reply in replies if reply.status == 409]
        assert (len(accepted), len(refused)) == (1, 19)
        recorded = [reply.json["current"] for reply in refused]
        assert all(one == recorded[0] for one in recorded)
        assert recorded[0]["type"] == "tool.approval_resolved"
        assert recorded[0]["approvalId"] == approval
        assert {reply.kind for reply in refused} == {"conflict"}
        async with door.living.runtime.visit(door.living.home, session_id) as session:
            await session.idle()
            resolved = [event for event in session.journal() if event.type == "tool.approval_resolved"]
        assert [event.note for event in resolved] == [recorded[0]["note"]]  # type: ignore[attr-defined]
        assert (door.living.home.path / "KNOWLEDGE.md").exists() == (recorded[0]["outcome"] == "allowed")
        assert (await door.ask("GET", "/api/approvals")).json == {"approvals": []}


async def test_an_invoke_says_which_run_began_and_one_that_waits_says_for_what(tmp_path: Path) -> None:
    async with served(tmp_path, [a_write(), Answer("Done.")]) as door:
        session_id = await door.session()
        approval = await waiting(door, session_id)
        queued = await door.control(session_id, control="invoke", input="And now?")
        assert queued.status == 202
        assert queued.json == {
            "runId": None,
            "seq": queued.json["seq"],
            "queued": True,
            "waitingFor": [approval],
            "portrait": None,
        }
        rejected = await door.control(session_id, control="invoke", input="Now!", whenBusy="reject")
        assert (rejected.status, rejected.kind) == (409, "conflict")
        stopped = await door.control(session_id, control="stop", scope="session")
        assert stopped.status == 202
        assert stopped.json["runId"].startswith("run_")


async def test_f7_an_outdated_expected_seq_is_told_what_stands(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        session_id = await door.session()
        for control in (
            {"control": "invoke", "input": "x", "expectedSeq": 99},
            {"control": "updateState", "patch": {"title": "x"}, "expectedSeq": 0},
        ):
            reply = await door.control(session_id, **control)
            assert (reply.status, reply.kind, reply.json["current"]) == (409, "conflict", 1)
        right = await door.control(session_id, control="updateState", patch={"title": "x"}, expectedSeq=1)
        assert right.status == 202
        assert (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}")).json["state"]["title"] == "x"


async def test_a_reload_answers_with_the_portrait(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        session_id = await door.session()
        (door.living.home.path / "AGENTS.md").write_text("---\nname: Ada\ndescription: Counts.\n---\n\nYou count.\n")
        reply = await door.control(session_id, control="reload")
        assert reply.status == 202
        assert reply.json["portrait"]["description"] == "Counts."


REFUSED = {
    "a session that is not there": ("ses_01kbc3fqz-7h2m9xw", {"control": "stop"}, 404, "session-not-found"),
    "an approval that is not there": (
        None,
        {"control": "resume", "approvalId": "apr_x", "decision": "allow"},
        404,
        "not-found",
    ),
    "nothing to stop": (None, {"control": "stop"}, 409, "conflict"),
    "nothing parked": (None, {"control": "resume", "runId": "run_x", "decision": "continue"}, 409, "conflict"),
    "above the ceiling": (
        None,
        {"control": "updateState", "patch": {"mode": "bypassPermissions"}},
        403,
        "forbidden",
    ),
}


@pytest.mark.parametrize(("session", "control", "status", "kind"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_done_is_refused_by_name(
    tmp_path: Path, session: str | None, control: dict[str, object], status: int, kind: str
) -> None:
    async with served(tmp_path) as door:
        reply = await door.control(session or await door.session(), **control)
        assert (reply.status, reply.kind) == (status, kind)
        assert reply.json["detail"]


async def test_f5_stop_is_acknowledged_over_http_and_ends_the_run(tmp_path: Path) -> None:
    async with served(tmp_path, [call("read", path="AGENTS.md"), Silence()]) as door:
        session_id = await door.session()
        began = await door.control(session_id, control="invoke", input="Go.")
        stopped = await door.control(session_id, control="stop", runId=began.json["runId"])
        assert stopped.status == 202
        assert stopped.json["runId"] == began.json["runId"]
        async with door.living.runtime.visit(door.living.home, session_id) as session:
            state = await session.idle()
        assert state.last_run is not None
        assert state.last_run.reason == "stopped"


async def test_controls_are_refused_while_the_daemon_drains(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        session_id = await door.session()
        await door.living.runtime.drain(0)
        reply = await door.control(session_id, control="invoke", input="x")
        assert (reply.status, reply.kind) == (503, "unavailable")
        assert (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}")).status == 200


async def test_f1_an_approval_of_a_subagent_is_listed_and_decided_over_http(tmp_path: Path) -> None:
    script = by_whom([delegates(("scout", "look")), Answer("Top.")], [call("write", path="work/x", content="x"), DONE])
    async with served(tmp_path, script, **scout("tools: write\n")) as door:
        session_id = await door.session()
        await door.say(session_id, "Go.")
        (waits,) = (await door.ask("GET", "/api/approvals")).json["approvals"]
        assert waits["agentId"] == "scout"
        assert waits["sessionId"] != session_id
        shown = (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}")).json["view"]["approvalBanner"]
        assert (shown["count"], shown["below"][0]["approval"]["id"]) == (1, waits["approval"]["id"])
        below = await door.ask("GET", f"/api/agents/ada/sessions/{waits['sessionId']}")
        assert below.json["state"]["agentId"] == "scout"
        asked = {"control": "resume", "approvalId": waits["approval"]["id"], "decision": "allow"}
        assert (await door.control(session_id, **asked)).status == 404
        assert (await door.control(waits["sessionId"], **asked)).status == 202
        async with door.living.runtime.visit(door.living.home, session_id) as session:
            with anyio.fail_after(20):
                assert (await ended(session)).active_run is None
        again = await door.control(waits["sessionId"], **asked)
        assert (again.status, again.json["current"]["outcome"]) == (409, "allowed")
        told = (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}/transcript")).json["messages"]
        (subagent,) = [one["subagent"] for item in told for one in item.get("calls", ()) if "subagent" in one]
        assert (subagent["sessionId"], subagent["status"]) == (waits["sessionId"], "completed")
        erased = await door.ask("DELETE", f"/api/agents/ada/sessions/{waits['sessionId']}")
        assert (erased.status, erased.kind) == (400, "usage-error")
