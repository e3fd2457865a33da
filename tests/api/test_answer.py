"""Whatever its size, an answer is the same JSON, and nobody else waits while it is written."""

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest

from harnessd.api.answer import PIECE, WHOLE, _pieces
from harnessd.api.approvals import WaitingEntry, WaitingList
from harnessd.api.sessions import Snapshot
from harnessd.api.transcript import TranscriptPage, told
from harnessd.facts.base import Record
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.facts.view import View, view
from tests.client.room import AGENT, Served, served
from tests.facts.samples import full, numbered, session
from tests.journal.desk import SESSION, said

PATH = f"/api/agents/{AGENT}/sessions/{SESSION}"


def check(record: Record) -> None:
    assert b"".join(_pieces(record)).decode() == record.model_dump_json(exclude_none=True)


@pytest.mark.parametrize("seed", range(4))
def test_in_pieces_a_record_is_what_it_is_as_a_whole(seed: int) -> None:
    events = numbered(session(random.Random(seed), 6))
    state = State()
    for event in events:
        state = fold(state, event)
        check(Snapshot(state=state, view=view(state), seq=state.seq))
        check(WaitingList(approvals=tuple(WaitingEntry(home="ada", approval=one) for one in state.pending_approvals)))
    check(TranscriptPage(messages=told(events), before=3))


@pytest.mark.parametrize("kind", [View, WaitingList, TranscriptPage])
def test_in_pieces_all_fields_and_unknown_ones_are_there(kind: type[Record]) -> None:
    check(kind())
    check(full(kind))
    check(kind.model_validate({'an"odd': [{"a": None}, {}, []], "none": None, "title": 'ü"🐈'}))


def http(place: Served) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(place.address.url, headers={"Authorization": f"Bearer {place.address.token}"})


async def test_f9_a_giant_session_lets_others_have_their_turns(tmp_path: Path) -> None:
    async with served(tmp_path, over="tcp") as place, http(place) as client:
        for number in range(60):
            place.ledger.record(said(f"{number} {'x' * 100_000}"))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        for what in ("", "/transcript?limit=200"):
            beside, turns = asyncio.create_task(others()), 0
            async with client.get(PATH + what) as answer:
                body = await answer.read()
            beside.cancel()
            assert "Content-Length" not in answer.headers
            assert len(body) > 60 * 100_000
            assert turns > len(body) / PIECE
            if not what:
                state = place.ledger.state
                known = Snapshot(state=state, view=view(state), seq=state.seq)
                assert body.decode() == known.model_dump_json(exclude_none=True)
        async with client.head(PATH) as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with client.get(PATH + "/transcript?limit=1") as answer:
            assert int(answer.headers["Content-Length"]) == len(await answer.read()) < WHOLE
