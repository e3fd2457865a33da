"""L2, L5: a context that does not fit is made to fit, whatever the summariser does, and what that cost is counted."""

from pathlib import Path

import pytest

from harnessd.models.script import Answer, Refusal, Request, ScriptedReply
from tests.daemon.living import call, events, last_text, living

OVERFLOW = Refusal(400, {"error": {"code": "context_length_exceeded", "message": "maximum context length is 900"}})
LONG = "a long story " * 60


def is_summary(request: Request) -> bool:
    return not request.body.get("tools")


def size(request: Request) -> int:
    return sum(len(str(message.get("content"))) for message in request.body["messages"][1:])


@pytest.mark.parametrize(
    ("summariser", "ends"),
    [
        (Answer("Short: the user told stories."), "context.compacted"),
        (Answer(""), "context.truncated"),
        (Answer("nothing left out " * 500), "context.truncated"),
        (Refusal(400, {"error": {"message": "no"}}), "context.truncated"),
        (Refusal(500, "broken"), "context.truncated"),
        (Answer("half", ends="cut"), "context.truncated"),
    ],
    ids=["good", "empty", "long", "refuses", "error", "cut"],
)
async def test_l2_the_run_goes_on_whatever_the_summariser_does(
    tmp_path: Path, summariser: ScriptedReply, ends: str
) -> None:
    small = False

    def script(request: Request) -> ScriptedReply:
        if is_summary(request):
            return summariser
        if small and size(request) > 2500:
            return OVERFLOW
        last = request.body["messages"][-1]
        if last["role"] == "user" and "read" in str(last["content"]):
            return call("read", path="AGENTS.md")
        return Answer("Noted.")

    async with living(tmp_path, script) as one:
        session, _ = await one.say(f"read it. {LONG}")
        for number in range(3):
            await one.say(f"{number} {LONG}", session)
        small = True
        _, state = await one.say("and now?", session)
        assert state.last_run is not None
        assert state.last_run.reason == "completed", state.last_run
        assert last_text(state) == "Noted."
        kinds = [event.type for event in events(session)]
        assert ends in kinds
        assert sum(map(is_summary, one.requests)) <= 3
        calls = [entry.id for message in state.messages if message.role == "assistant" for entry in message.tool_calls]
        told = [message.tool_call_id for message in state.messages if message.role == "tool"]
        assert calls == told
        assert state.usage.total.input_tokens == sum(
            event.usage.input_tokens  # type: ignore[attr-defined]
            for event in events(session)
            if event.type == "run.finished"
        )
        _, state = await one.say("still there?", session)
        assert last_text(state) == "Noted."


async def test_l3_a_message_that_can_never_fit_is_a_named_failure_and_the_session_goes_on(tmp_path: Path) -> None:
    def script(request: Request) -> ScriptedReply:
        return OVERFLOW if size(request) > 3000 else Answer("Noted.")

    async with living(tmp_path, script) as one:
        session, state = await one.say("x" * 10_000)
        assert state.last_run is not None
        assert state.last_run.failure is not None
        assert state.last_run.failure.kind == "context_overflow"
        _, state = await one.say("something short", session)
        assert state.last_run is not None
        assert state.last_run.reason == "completed", state.last_run
