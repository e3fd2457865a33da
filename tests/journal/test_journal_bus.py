"""The bus: every event once and in order for each reader, from any seq on; nobody waits for a reader."""

import asyncio
import random

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.facts.event import AssistantTextDelta, Event, MessageCreated, TurnRetried
from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.facts.view import view
from harnessd.journal.bus import BATCH, Bus, Cut, Subscription
from harnessd.journal.ledger import Ledger
from harnessd.journal.records import read_events
from tests.facts.samples import numbered, session
from tests.journal.desk import Desk, said, seqs


async def test_f6_a_hundred_disconnects_while_ten_thousand_events_flow(desk: Desk) -> None:
    rng, leaving = random.Random(6), random.Random(7)  # of its own, so that timing changes no draw
    total = 10_000
    client = State()
    async with desk.ledger() as ledger, anyio.create_task_group() as group:

        async def write() -> None:
            pending = [event.model_copy(update={"seq": 0}) for event in numbered(session(rng, 400))]
            assert len(pending) > 5_000
            for number in range(total):
                ledger.record(pending[number % len(pending)] if number < len(pending) else said(str(number)))
                if rng.random() < 0.02:
                    await ledger.barrier()
                elif rng.random() < 0.02:
                    await asyncio.sleep(0)
            await ledger.barrier()

        group.start_soon(write)
        disconnects = 0
        while client.seq < total:
            async with ledger.subscribe(client.seq) as told:
                for _ in range(leaving.randint(1, 150)):
                    item = await anext(told)
                    assert isinstance(item, Event)
                    assert item.seq == client.seq + 1
                    client = fold(client, item)
                    if client.seq == total:
                        break
            disconnects += 1
        assert disconnects > 100
    assert client.model_dump_json() == ledger.state.model_dump_json()
    assert view(client).model_dump_json() == view(ledger.state).model_dump_json()


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("record"), st.integers(1, 5)),
            st.tuples(st.just("durable"), st.integers(0, 5)),
            st.tuples(st.just("subscribe"), st.integers(0, 8)),
            st.tuples(st.just("take"), st.integers(0, 6)),
        ),
        max_size=40,
    )
)
@settings(max_examples=150, deadline=None)
def test_f6_no_interleaving_of_replay_and_live_has_a_gap_or_a_repetition(steps: list[tuple[str, int]]) -> None:
    asyncio.run(_interleave(steps))


async def _interleave(steps: list[tuple[str, int]]) -> None:
    """Recording, syncing, subscribing and taking in any order, on a bus whose disk is a list."""
    disk: list[Event] = []
    recorded: list[Event] = []
    bus = Bus(lambda after, upto, count: [e for e in disk if after < e.seq <= upto][: min(count, 3)], 0)
    readers: list[tuple[Subscription, int, list[int]]] = []

    async def take(reader: Subscription, found: list[int]) -> None:
        item = await anext(reader)
        assert isinstance(item, Event)
        found.append(item.seq)

    for what, number in steps:
        if what == "record":
            for _ in range(number):
                event = said("x").model_copy(update={"seq": len(recorded) + 1})
                recorded.append(event)
                bus.hold(event)
        elif what == "durable":
            # The bytes may be in the file before the sync is done; a reader must not see them yet.
            disk[:] = recorded
            bus.release(min(bus.durable + number, len(recorded)))
        elif what == "subscribe":
            readers.append((bus.subscribe(min(number, len(recorded))), min(number, len(recorded)), []))
        elif readers:
            reader, after, found = readers[number % len(readers)]
            while after + len(found) < bus.durable and len(found) % 4 != 3:
                await take(reader, found)
            if after + len(found) < bus.durable:
                await take(reader, found)
    disk[:] = recorded
    bus.release(len(recorded))
    for reader, after, found in readers:
        while after + len(found) < len(recorded):
            await take(reader, found)
        assert found == list(range(after + 1, len(recorded) + 1))
        assert not reader.pending


async def test_f6_nobody_is_told_what_is_not_on_disk(desk: Desk) -> None:
    async with desk.ledger() as ledger, ledger.subscribe() as told:
        for number in range(300):
            ledger.record(said(str(number)))
        for _ in range(300):
            item = await anext(told)
            assert isinstance(item, Event)
            assert ledger.journal.durable >= item.seq


async def test_f6_a_slow_reader_is_cut_and_comes_back_without_a_gap(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        slow = ledger.subscribe(limit=10)
        ledger.record(said("first"))
        first = await anext(slow)
        assert isinstance(first, Event)
        for number in range(40):
            ledger.record(said(str(number)))
        await ledger.barrier()
        rest = [item async for item in slow]
        assert rest == [Cut(after=1)]
        async with ledger.subscribe(1) as again:
            assert seqs([item for item in [await anext(again) for _ in range(40)] if isinstance(item, Event)]) == list(
                range(2, 42)
            )


async def test_f6_replay_longer_than_the_queue_cuts_nobody(desk: Desk) -> None:
    count = BATCH * 3 + 7
    async with desk.ledger() as ledger:
        for number in range(count):
            ledger.record(said(str(number)))
        await ledger.barrier()
        async with ledger.subscribe(limit=4) as told:
            for seq in range(1, count + 1):
                item = await anext(told)
                assert isinstance(item, Event)
                assert item.seq == seq


async def test_f6_a_delta_comes_behind_the_events_recorded_before_it_and_is_never_on_disk(desk: Desk) -> None:
    async with desk.ledger() as ledger, ledger.subscribe() as told:
        await _joined(ledger, told)
        ledger.record(said("two"))
        for number in range(3):
            ledger.delta(AssistantTextDelta(message_id="m", offset=number, text="x"))
        ledger.record(said("three"))
        await ledger.barrier()
        items = [await anext(told) for _ in range(5)]
        assert [getattr(item, "offset", None) for item in items] == [None, 0, 1, 2, None]
    assert b"delta" not in desk.journal.read_bytes()


@pytest.mark.parametrize("joins_at", range(7))
async def test_f6_who_joins_in_the_middle_of_an_answer_begins_with_the_text_so_far(desk: Desk, joins_at: int) -> None:
    pieces = ["Once ", "upon ", "a ", "time", "", " …"]
    async with desk.ledger() as ledger:
        ledger.record(said("one"))
        await ledger.barrier()
        offset = 0
        text = ""
        async with ledger.subscribe(1) as told:
            for number, piece in enumerate(pieces):
                if number == joins_at:
                    with anyio.move_on_after(0.01):
                        first = await anext(told)
                        assert isinstance(first, AssistantTextDelta)
                        assert (first.offset, first.text) == (0, "".join(pieces[:joins_at]))
                        text = first.text
                ledger.delta(AssistantTextDelta(message_id="m", offset=offset, text=piece))
                offset += len(piece)
            while len(text) < offset:
                item = await anext(told)
                assert isinstance(item, AssistantTextDelta)
                assert item.offset == len(text)
                text += item.text
        assert text == "".join(pieces)


async def test_f6_a_draft_holds_no_more_than_what_was_told(desk: Desk) -> None:
    """A delta that waits behind an event that is not on disk comes to a new reader after that event, not before."""
    async with desk.ledger() as ledger:
        ledger.record(said("one"))
        await ledger.barrier()
        ledger.delta(AssistantTextDelta(message_id="m", text="to"))
        ledger.record(said("two"))
        ledger.delta(AssistantTextDelta(message_id="m", offset=2, text="ld"))
        async with ledger.subscribe(1) as told:
            items = [await anext(told) for _ in range(3)]
        assert [getattr(item, "text", "event") for item in items] in (["to", "event", "ld"], ["event", "told"])


async def test_f6_what_became_a_fact_or_came_to_nothing_is_no_draft_any_more(desk: Desk) -> None:
    async with desk.ledger() as ledger:
        ledger.delta(AssistantTextDelta(message_id="msg_one", text="draft"))
        ledger.delta(AssistantTextDelta(message_id="msg_two", text="given up"))
        ledger.record(said("one"))
        ledger.record(TurnRetried())
        await ledger.barrier()
        async with ledger.subscribe() as told:
            assert [type(await anext(told)) for _ in range(2)] == [MessageCreated, TurnRetried]
            ledger.record(said("three"))
            item = await anext(told)
            assert isinstance(item, Event)


async def test_f6_a_subscription_ends_with_the_session_after_what_is_queued(desk: Desk) -> None:
    ledger = await desk.open()
    live, behind = ledger.subscribe(), ledger.subscribe()
    await _joined(ledger, live)
    ledger.record(said("two"))
    await ledger.close()
    assert [item.seq async for item in live if isinstance(item, Event)] == [2]
    assert [item.seq async for item in behind if isinstance(item, Event)] == [1, 2]
    with pytest.raises(StopAsyncIteration):
        await anext(live)


async def test_f6_a_reader_that_gives_up_waiting_misses_nothing(desk: Desk) -> None:
    async with desk.ledger() as ledger, ledger.subscribe() as told:
        await _joined(ledger, told)
        for _ in range(3):
            with anyio.move_on_after(0):
                await anext(told)
        ledger.record(said("two"))
        item = await anext(told)
        assert isinstance(item, Event)
        assert item.seq == 2


async def test_f6_subscribing_beyond_the_end_gives_only_what_comes_after(desk: Desk) -> None:
    async with desk.ledger() as ledger, ledger.subscribe(after=3) as told:
        for number in range(5):
            ledger.record(said(str(number)))
        items = [await anext(told) for _ in range(2)]
        assert [item.seq for item in items if isinstance(item, Event)] == [4, 5]
    assert len(list(read_events(desk.journal))) == 5


async def _joined(ledger: Ledger, told: Subscription) -> None:
    """Records one event and takes it, after which the reader is live."""
    ledger.record(said("one"))
    await ledger.barrier()
    assert isinstance(await anext(told), Event)
    with anyio.move_on_after(0.01):
        await anext(told)
