"""Following a session: nothing is lost and nothing comes twice, whatever the line and the daemon do."""

import asyncio
import dataclasses
import json
import os
import random
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.api.keys import LISTENERS
from harnessd.client.client import Client
from harnessd.client.connection import Unreachable
from harnessd.client.find import Address
from harnessd.client.frames import Frame, Frames
from harnessd.client.mirror import Mirror
from harnessd.errors import Conflict, HarnessdError, SessionNotFound
from harnessd.facts.event import AssistantTextDelta, Event, MessageCreated, UnknownEvent
from harnessd.facts.message import AssistantMessage, TextPart, text_of
from harnessd.facts.view import view
from tests.client.proxy import bad_line
from tests.client.room import AGENT, TOKEN, Served, served
from tests.facts.samples import numbered, session
from tests.journal.desk import SESSION, said


async def write(place: Served, total: int, rng: random.Random) -> dict[str, str]:
    """`total` events and texts that grow in between, the last of which is still being written: each text by its id."""
    pending = [event.model_copy(update={"seq": 0}) for event in numbered(session(rng, total // 15))]
    ledger, name, texts = place.ledger, "text_0", {"text_0": ""}
    for number in range(total):
        if number % 10 == 9 and number != total - 1:
            ledger.record(MessageCreated(message=AssistantMessage(id=name, parts=(TextPart(text=texts[name]),))))
            name = f"text_{number}"
            texts[name] = ""
        else:
            ledger.record(pending[number] if number < len(pending) else said(f"{number} {'x' * rng.randint(0, 300)}"))
        piece = f"w{number} " * rng.randint(1, 3)
        ledger.delta(AssistantTextDelta(message_id=name, offset=len(texts[name]), text=piece))
        texts[name] += piece
        if rng.random() < 0.05:
            await ledger.barrier()
        elif rng.random() < 0.1:
            await asyncio.sleep(0.001)
    await ledger.barrier()
    return texts


def check_draft(mirror: Mirror, message: AssistantMessage) -> None:
    """What was known of the text before it was whole is a part of it, and stands where it says."""
    for draft in mirror.drafts.so_far():
        if draft.message_id == message.id:
            assert text_of(message)[draft.offset :].startswith(draft.text)


@pytest.mark.parametrize(
    "seed", [6, pytest.param(7, marks=pytest.mark.matrix), pytest.param(8, marks=pytest.mark.matrix)]
)
async def test_f6_a_hundred_disconnects_while_ten_thousand_events_flow(tmp_path: Path, seed: int) -> None:
    """The line breaks at random bytes, the daemon drops everybody, the client leaves and comes back."""
    rng, total = random.Random(seed), 10_000
    async with (
        served(tmp_path) as place,
        bad_line(
            tmp_path / "p.sock",
            tmp_path / "d.sock",
            lambda: rng.choice([9, 400, 2_000, 20_000, 60_000, 60_000, 200_000]),
        ) as line,
    ):
        address = dataclasses.replace(place.address, socket=line.path)
        async with Client.connect(address) as client:
            writing = asyncio.create_task(write(place, total, random.Random(seed)))
            mirror, leaves, drops = Mirror(), 0, 0
            while mirror.state.seq < total:
                leave_after = rng.randint(1, 900)
                async with client.follow(AGENT, SESSION, mirror.state.seq) as items:
                    async for item in items:
                        if isinstance(item, Event):
                            assert item.seq == mirror.state.seq + 1
                            if isinstance(item, MessageCreated) and item.message.id.startswith("text_"):
                                check_draft(mirror, item.message)
                        mirror.take(item)
                        leave_after -= 1
                        if rng.random() < 0.002:
                            place.app[LISTENERS].let_go()
                            drops += 1
                        if mirror.state.seq == total:
                            break
                        if not leave_after:
                            leaves += 1
                            break
            texts = await writing
            last = max(texts, key=lambda name: int(name.partition("_")[2]))
            assert line.breaks + leaves + drops > 100, (line.breaks, leaves, drops)
            line.whole = True
            async with client.follow(AGENT, SESSION, total) as items:
                draft = await anext(items)
            assert isinstance(draft, AssistantTextDelta)
            assert draft.message_id == last
            assert texts[last][draft.offset :] == draft.text != ""
            snapshot = await client.session(AGENT, SESSION)
    assert snapshot.seq == total
    assert mirror.state.model_dump_json() == snapshot.state.model_dump_json() == place.ledger.state.model_dump_json()
    assert mirror.view == snapshot.view == view(place.ledger.state)


async def test_f6_a_connection_cut_at_any_byte_loses_nothing(tmp_path: Path) -> None:
    """From the first byte of the head to the last of a frame; the second try comes through."""
    cuts = range(1, 900, 11)
    budgets = iter([budget for cut in cuts for budget in (cut, 1 << 30)])
    async with (
        served(tmp_path) as place,
        bad_line(tmp_path / "p.sock", tmp_path / "d.sock", lambda: next(budgets)) as line,
        Client.connect(dataclasses.replace(place.address, socket=line.path)) as client,
    ):
        for number in range(4):
            place.ledger.record(said(f"ü🐈{number}"))
        await place.ledger.barrier()
        written = list(place.ledger.journal.read())
        for _ in cuts:
            async with client.follow(AGENT, SESSION) as items:
                assert [await anext(items) for _ in range(4)] == written
                with anyio.move_on_after(0.0 if items.reconnects else 0.005):
                    pytest.fail(f"one too many: {await anext(items)}")
        assert line.breaks > len(cuts) / 2


async def test_f6_a_daemon_that_moves_is_found_again(tmp_path: Path) -> None:
    """daemon.json is read again: another port, another process."""
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    told: list[bool] = []
    seen: list[int] = []
    async with served(tmp_path, over="tcp") as first:
        write_daemon_json(state_dir, first)
        first.ledger.record(said("one"))
        await first.ledger.barrier()
        connecting = Client.connect(Where(state_dir), env={"HARNESSD_TOKEN": TOKEN}, patience=20)
        client = await connecting.__aenter__()
        items = client.follow(AGENT, SESSION, away=told.append)
        seen += [item.seq for item in [await anext(items)] if isinstance(item, Event)]
    waiting = asyncio.create_task(anext(items))
    asked = asyncio.create_task(client.session(AGENT, SESSION))
    while told != [True]:
        await asyncio.sleep(0.01)
    async with served(tmp_path, over="tcp") as second:
        assert second.address.url != first.address.url
        write_daemon_json(state_dir, second)
        second.ledger.record(said("two"))
        await second.ledger.barrier()
        item = await waiting
        assert isinstance(item, Event)
        assert [*seen, item.seq] == [1, 2]
        assert told == [True, False]
        assert (await asked).state.session_id == SESSION
        await items.close()
        await connecting.__aexit__(None, None, None)


async def test_a_daemon_that_stays_away_is_given_up(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        connecting = Client.connect(place.address, patience=0.3)
        client = await connecting.__aenter__()
        await client.session(AGENT, SESSION)
        items = client.follow(AGENT, SESSION)
        place.ledger.record(said("one"))
        assert isinstance(await anext(items), Event)
    with pytest.raises(Unreachable, match="does not answer"):
        await anext(items)
    with pytest.raises(Unreachable, match="does not answer"):
        await client.session(AGENT, SESSION)
    await items.close()
    await connecting.__aexit__(None, None, None)


async def test_a_daemon_that_is_stopped_by_a_signal_is_given_up(tmp_path: Path) -> None:
    """It takes connections, since the kernel does, and never says a word: neither in the middle nor to who comes."""
    async with (
        served(tmp_path) as place,
        bad_line(tmp_path / "p.sock", tmp_path / "d.sock", lambda: 1 << 30) as line,
        Client.connect(dataclasses.replace(place.address, socket=line.path), patience=0.1, silence=0.3) as client,
    ):
        place.ledger.record(said("one"))
        told: list[bool] = []
        async with client.follow(AGENT, SESSION, away=told.append) as items:
            assert isinstance(await anext(items), Event)
            line.passes.clear()
            with anyio.fail_after(10), pytest.raises(Unreachable, match="does not answer"):
                await anext(items)
        assert told == [True]
        line.passes.set()
        async with client.follow(AGENT, SESSION) as items:
            assert isinstance(await anext(items), Event)


async def test_a_daemon_that_comes_back_with_another_token_is_followed(tmp_path: Path) -> None:
    """At the same place: what it does not let in had no effect, and is asked again with the token that counts now."""
    state_dir = tmp_path / "state"
    state_dir.mkdir()

    def tell(place: Served) -> None:
        port = int(place.address.url.rpartition(":")[2])
        where = {"pid": os.getpid(), "port": port, "socket": str(place.address.socket)}
        (state_dir / "daemon.json").write_text(json.dumps(where))
        (state_dir / "token").write_text(place.address.token)

    async with served(tmp_path) as place:
        tell(place)
        connecting = Client.connect(Where(state_dir), env={}, patience=10)
        client = await connecting.__aenter__()
        place.ledger.record(said("one"))
        items = client.follow(AGENT, SESSION)
        assert isinstance(await anext(items), Event)
    async with served(tmp_path, token="another-token") as place:
        tell(place)
        assert (await client.session(AGENT, SESSION)).seq == 1
        place.ledger.record(said("two"))
        assert isinstance(await anext(items), Event)
        (state_dir / "token").write_text("a-wrong-token")
        await client._connection.relocate()
        with pytest.raises(HarnessdError, match="token"):
            await client.session(AGENT, SESSION)
        await items.close()
        await connecting.__aexit__(None, None, None)


async def test_who_asks_nobody_is_told_at_once(tmp_path: Path) -> None:
    nobody = Address("http://127.0.0.1:9", "t", tmp_path / "no.sock")
    async with Client.connect(nobody, patience=60) as client:
        with pytest.raises(Unreachable, match="harnessd ps"):
            await client.agents()
    with pytest.raises(Unreachable, match="harnessd serve"):
        async with Client.connect(Where(tmp_path)):
            pass


async def test_what_can_never_come_is_an_error_and_no_endless_try(tmp_path: Path) -> None:
    async with served(tmp_path) as place, Client.connect(place.address) as client:
        with pytest.raises(SessionNotFound):
            await anext(client.follow(AGENT, "ses_01kbc3fqz-0000000"))
        with pytest.raises(Conflict, match="not happened yet"):
            await anext(client.follow(AGENT, SESSION, 5))
        stranger = dataclasses.replace(place.address, token="wrong")
        async with Client.connect(stranger) as wrong:
            with pytest.raises(HarnessdError, match="token"):
                await anext(wrong.follow(AGENT, SESSION))


async def test_f6_who_gives_up_waiting_misses_nothing(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as place,
        Client.connect(place.address) as client,
        client.follow(AGENT, SESSION) as items,
    ):
        for number in range(1, 30):
            for seconds in (0, 0.001, 0.003):
                with anyio.move_on_after(seconds):
                    await anext(items)
                    pytest.fail("nothing was written")
            place.ledger.record(said(str(number)))
            item = await anext(items)
            assert isinstance(item, Event)
            assert item.seq == number


async def test_a_daemon_that_says_goodbye_each_time_is_not_besieged(tmp_path: Path) -> None:
    async with served(tmp_path) as place, Client.connect(place.address) as client:
        place.ledger.record(said("one"))
        await place.ledger.close()
        async with client.follow(AGENT, SESSION) as items:
            assert isinstance(await anext(items), Event)
            with anyio.move_on_after(0.6):
                pytest.fail(f"there is no more: {await anext(items)}")
        assert 1 < place.room.visits < 12


async def test_what_a_newer_daemon_tells_is_carried_along(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as place,
        Client.connect(place.address) as client,
        client.follow(AGENT, SESSION) as items,
    ):
        place.ledger.record(UnknownEvent(type="dream.began", raw={"type": "dream.began", "of": ["🐑", None]}))
        item = await anext(items)
        assert isinstance(item, UnknownEvent)
        assert (item.seq, item.raw["of"]) == (1, ["🐑", None])


@given(st.lists(st.integers(1, 40), max_size=30), st.booleans())
def test_frames_are_the_same_wherever_the_network_cuts_them(cuts: list[int], crlf: bool) -> None:
    text = ': hi\n\nid: 7\nevent: a\ndata: {"x":"ü"}\n\n\nevent: cut\ndata:1\ndata: 2\n\nid: 9\ndata: z\n\ndata: half'
    data = (text.replace("\n", "\r\n") if crlf else text).encode()
    frames, found, at = Frames(), [], 0
    for cut in [*cuts, len(data)]:
        found += frames.feed(data[at : at + cut])
        at += cut
    assert found == [
        Frame("a", '{"x":"ü"}'.encode(), "7"),
        Frame("cut", b"1\n2"),
        Frame("message", b"z", "9"),
    ]


@dataclasses.dataclass(frozen=True)
class Where:
    state_dir: Path


def write_daemon_json(state_dir: Path, place: Served) -> None:
    port = int(place.address.url.rpartition(":")[2])
    where = {"pid": os.getpid(), "port": port, "host": "127.0.0.1", "socket": None}
    (state_dir / "daemon.json").write_text(json.dumps(where))
