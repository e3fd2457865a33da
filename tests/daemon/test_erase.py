"""A session that is deleted is gone with those of its subagents, and its id is not given again."""

from pathlib import Path

import pytest

from harnessd.daemon.session import Accepted
from harnessd.errors import Conflict, SessionNotFound, UsageError
from harnessd.facts.control import Invoke
from harnessd.models.script import Answer
from tests.daemon.living import call, living
from tests.daemon.test_delegate import delegates, scout, script

CANARY = "the-word-that-must-go"


@pytest.mark.parametrize("visited", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_nothing_of_it_stays_but_the_fact(tmp_path: Path, visited: bool, waits: bool) -> None:
    inner = [call("write", path="work/x.txt", content=CANARY), Answer("Found.")] if waits else [Answer(CANARY)]
    asked = script([delegates(("scout", CANARY)), Answer("Done.")], inner)
    async with living(tmp_path, asked, **scout()) as one:
        session, state = await one.say(CANARY)
        below = state.subagents[0].session_id
        assert len(one.runtime.waiting()) == waits
        if not visited:
            await one.runtime.sessions.close()
        await one.runtime.erase(one.home, session.session_id)
        assert session.closed
        assert one.runtime.waiting() == ()
        left = [path for path in (one.home.path / "agents").rglob("*") if path.is_file()]
        assert not [path for path in left if CANARY.encode() in path.read_bytes()]
        for session_id in (session.session_id, below):
            with pytest.raises(SessionNotFound, match="deleted"):
                await one.runtime.session(one.home, session_id)


async def test_who_leaves_a_session_that_was_closed_is_not_counted_at_the_next(tmp_path: Path) -> None:
    """A deletion that fails midway closes the session under its readers; others open it before they leave."""
    async with living(tmp_path, [Answer("Hello.")]) as one:
        sessions, runtime = one.runtime.sessions, one.runtime
        session, _ = await one.say("hello")
        key = (one.home.path, session.session_id)
        early = runtime.visit(one.home, session.session_id)
        await early.__aenter__()
        with pytest.raises(OSError, match="full"):
            async with sessions.shut(key):
                raise OSError("full")
        async with runtime.visit(one.home, session.session_id) as again:
            assert again is not session
            await early.__aexit__(None, None, None)
            await sessions.let_go(key)
            assert not again.closed
        await sessions.let_go(key)
        assert again.closed


async def test_one_in_which_something_runs_is_not_deleted(tmp_path: Path) -> None:
    async with living(tmp_path, [Answer("never", ends="hang", after=0)]) as one:
        session = await one.runtime.session(one.home)
        assert isinstance(await session.control(Invoke(input="go")), Accepted)
        with pytest.raises(Conflict, match="something runs"):
            await one.runtime.erase(one.home, session.session_id)
        assert not session.closed


async def test_a_subagents_session_goes_with_that_which_it_worked_for(tmp_path: Path) -> None:
    asked = script([delegates(("scout", "go")), Answer("Done.")], [Answer("Found.")])
    async with living(tmp_path, asked, **scout()) as one:
        _, state = await one.say("go")
        with pytest.raises(UsageError, match="the subagent scout's"):
            await one.runtime.erase(one.home, state.subagents[0].session_id)
