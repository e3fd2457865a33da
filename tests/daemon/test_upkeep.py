"""What is kept up beside the conversation: a full context becomes a summary, what was said becomes memory."""

from pathlib import Path

import pytest

from harnessd.facts.message import text_of
from harnessd.models.script import Answer, Request
from tests.daemon.living import call, living, results

FULL = (7_000, 20, 0)
"""More tokens than four fifths of what gpt-4 holds."""


def asks_for(request: Request, purpose: str) -> bool:
    return str(request.body["messages"][0]["content"]).startswith(purpose)


@pytest.mark.parametrize("summary", ["The user reads files.", ""])
async def test_f4_a_full_context_is_never_cut_between_a_call_and_its_result(tmp_path: Path, summary: str) -> None:
    """Whether the summary succeeds or not, a call that the model asked for is run and its result is its own."""

    def script(request: Request) -> Answer:
        if asks_for(request, "You shorten"):
            return Answer(summary)
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return Answer("read", usage=FULL)
        return Answer(calls=call("read", path="AGENTS.md").calls, usage=FULL)

    async with living(tmp_path, script, settings={"model": "openai/gpt-4"}) as one:
        session, state = await one.say("read " + "one " * 500)
        for number in range(3):
            _, state = await one.say(f"read {number} " + "more " * 500, session)
            assert state.last_run is not None
            assert state.last_run.reason == "completed"
        completed = [event.status for event in session.journal() if event.type == "tool.call.completed"]  # type: ignore[attr-defined]
        assert completed == ["ok"] * 4
        assert "outcome_unknown" not in [status for status, _ in results(state)]
        wanted = "context.compacted" if summary else "context.truncated"
        assert wanted in [event.type for event in session.journal()]


async def test_w5_what_was_said_becomes_memory_when_it_is_due(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        if asks_for(request, "You keep the long-term memory"):
            return Answer("- The user lives in Oslo.\n- nothing\n")
        return Answer("How nice.")

    agents = "---\nname: Ada\nmemory:\n  every: 2\n---\nTalk.\n"
    async with living(tmp_path, script, **{"AGENTS.md": agents}) as one:
        session, _ = await one.say("I live in Oslo")
        assert "Oslo" not in (one.home.path / "MEMORY.md").read_text()
        await one.say("and I like it", session)
        assert "- The user lives in Oslo." in (one.home.path / "MEMORY.md").read_text()
        (told,) = [event for event in session.journal() if event.type == "memory.consolidated"]
        assert told.outcome == "merged"  # type: ignore[attr-defined]
        assert one.runtime.log(one.home)[0].commit == told.commit  # type: ignore[attr-defined]


async def test_an_answer_stands_though_memory_cannot_be_kept_up(tmp_path: Path) -> None:
    """What comes after a run can spoil neither the run nor the session."""

    def script(request: Request) -> Answer:
        if asks_for(request, "You keep the long-term memory"):
            (one.home.path / ".git/HEAD").write_text("nonsense\n")
            return Answer("- The user lives in Oslo.")
        return Answer("How nice.")

    agents = "---\nname: Ada\nmemory:\n  every: 1\n---\nTalk.\n"
    async with living(tmp_path, script, **{"AGENTS.md": agents}) as one:
        head = (one.home.path / ".git/HEAD").read_text()
        session, state = await one.say("I live in Oslo")
        assert state.last_run is not None
        assert state.last_run.reason == "completed"
        assert [problem.code for problem in state.problems] == ["hook-failed"]
        (one.home.path / ".git/HEAD").write_text(head)
        _, state = await one.say("go on", session)
        assert text_of(state.messages[-1]) == "How nice."
