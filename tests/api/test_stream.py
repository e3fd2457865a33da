"""The event stream: the exact suffix from any seq on, drafts at any offset, and no reader that anybody waits for."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from pydantic_core import from_json

from harnessd.api.keys import LISTENERS
from harnessd.api.wire import Pace
from harnessd.client.connection import open_http
from harnessd.client.frames import Frame, Frames
from harnessd.facts.event import AssistantTextDelta, RunFinished, write_event
from harnessd.facts.view import view
from harnessd.journal.bus import QUEUE_LIMIT
from tests.api.json_patch import applied
from tests.client.room import Served, served
from tests.facts.samples import folded, numbered, one_of_each, session
from tests.journal.desk import said


class Reader:
    """Takes frames from an open stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._frames = Frames()
        self._ready: list[Frame] = []

    async def opened(self) -> None:
        """Waits until the daemon has shown that it hears."""
        self._ready += self._frames.feed(await self.response.content.readany())

    async def frame(self) -> Frame | None:
        """The next frame; None at the end."""
        while not self._ready:
            piece = await self.response.content.readany()
            if not piece:
                return None
            self._ready = self._frames.feed(piece)
        return self._ready.pop(0)

    async def frames(self, count: int) -> list[Frame]:
        return [frame for _ in range(count) if (frame := await self.frame())]


@asynccontextmanager
async def reading(place: Served, **query: object) -> AsyncIterator[Reader]:
    """A reader of the stream; `last` is sent as Last-Event-ID."""
    headers = {"Last-Event-ID": str(query.pop("last"))} if "last" in query else {}
    params = {"as" if name == "kind" else name: str(value) for name, value in query.items()}
    async with open_http(place.address) as http, http.get(place.path, params=params, headers=headers) as response:
        assert response.status == 200, await response.text()
        yield Reader(response)


async def record(place: Served, events: list[object]) -> None:
    for event in events:
        place.ledger.record(event.model_copy(update={"seq": 0}))  # type: ignore[attr-defined]
    await place.ledger.barrier()


@pytest.mark.parametrize("how", ["after", "last", "both"])
async def test_f6_from_every_seq_the_stream_is_the_exact_suffix(tmp_path: Path, how: str) -> None:
    async with served(tmp_path) as place:
        await record(place, one_of_each())
        written = [write_event(event) for event in place.ledger.journal.read()]
        assert len(written) > 40
        for after in range(len(written) + 1):
            query = {"after": {"after": after}, "last": {"last": after}, "both": {"last": after, "after": 1}}[how]
            async with reading(place, **query) as reader:
                frames = await reader.frames(len(written) - after)
            assert [from_json(frame.data) for frame in frames] == written[after:]
            assert [(int(frame.id), frame.event) for frame in frames] == [
                (one["seq"], one["type"]) for one in written[after:]
            ]


async def test_f6_what_comes_later_is_told_as_it_comes(tmp_path: Path) -> None:
    async with served(tmp_path) as place, reading(place) as reader:
        for number in range(5):
            await record(place, [said(str(number))])
            frame = await reader.frame()
            assert frame is not None
            assert frame.id == str(number + 1)


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ({"after": "x"}, 400, "after"),
        ({"after": "-1"}, 400, "after"),
        ({"after": "1" * 30}, 400, "after"),
        ({"after": "٣"}, 400, "after"),
        ({"as": "html"}, 400, "as"),
        ({"after": "4"}, 409, "has not happened yet"),
        ({"after": "999", "as": "view"}, 409, "has not happened yet"),
    ],
)
async def test_a_bad_question_gets_a_problem_that_names_it(
    tmp_path: Path, query: dict[str, str], status: int, word: str
) -> None:
    async with served(tmp_path) as place:
        await record(place, [said(str(number)) for number in range(3)])
        async with open_http(place.address) as http, http.get(place.path, params=query) as response:
            assert response.status == status
            assert word in await response.text()
            assert response.content_type == "application/problem+json"
        assert place.room.visitors == 0


async def test_f6_who_joins_at_any_offset_of_an_answer_has_all_of_its_text(tmp_path: Path) -> None:
    pieces = ["Once", " upon", " a", " ti", "me", " 🐈", "", "\n", "there was an agent", "."]
    whole = "".join(pieces)
    async with served(tmp_path) as place:
        await record(place, [said("hello")])
        for joined in range(len(pieces) + 1):
            offset = 0

            def say(piece: str, message: str = f"msg_{joined}") -> None:
                nonlocal offset
                place.ledger.delta(AssistantTextDelta(message_id=message, offset=offset, text=piece))
                offset += len(piece)

            for piece in pieces[:joined]:
                say(piece)
            async with reading(place, after=place.ledger.state.seq) as reader:
                await reader.opened()
                for piece in pieces[joined:]:
                    say(piece)
                    await asyncio.sleep(0)
                text = ""
                while len(text) < len(whole):
                    frame = await reader.frame()
                    assert frame is not None
                    assert (frame.event, frame.id) == ("assistant.text.delta", "")
                    data = from_json(frame.data)
                    assert data["offset"] <= len(text)
                    text = text[: data["offset"]] + data["text"]
                assert text == whole
            await record(place, [RunFinished()])


@pytest.mark.parametrize("seed", range(12))
async def test_f6_patches_give_exactly_the_view_at_each_seq(tmp_path: Path, seed: int) -> None:
    events = numbered(session(random.Random(seed), 4))
    begin = random.Random(seed).randint(0, len(events) // 2)
    async with served(tmp_path, pace=Pace(patch=0.0)) as place:
        await record(place, list(events[:begin]))
        async with reading(place, kind="view", last=begin) as reader:
            first = await reader.frame()
            assert first is not None
            assert (first.event, first.id) == ("view", str(begin))
            shown = from_json(first.data)
            assert shown == view(place.ledger.state).model_dump(mode="json", exclude_none=True)
            for event in events[begin:]:
                await record(place, [event])
                frame = await reader.frame()
                assert frame is not None
                assert (frame.event, frame.id) == ("view.patch", str(place.ledger.state.seq))
                shown = applied(shown, from_json(frame.data))
                assert shown == view(place.ledger.state).model_dump(mode="json", exclude_none=True)


async def test_f6_a_burst_of_changes_is_shown_at_once_and_then_together(tmp_path: Path) -> None:
    """The pause between patches is longer than any test: the first does not wait for it, a delta overtakes none."""
    async with served(tmp_path, pace=Pace(patch=600)) as place, reading(place, kind="view") as reader:
        assert (await reader.frames(1))[0].event == "view"
        await record(place, [said("first")])
        (first,) = await reader.frames(1)
        for number in range(200):
            await record(place, [said(str(number))])
        place.ledger.delta(AssistantTextDelta(message_id="m", text="x"))
        frames = await reader.frames(2)
        assert [frame.event for frame in frames] == ["view.patch", "assistant.text.delta"]
        assert [first.id, frames[0].id] == ["1", "201"]


async def test_f6_the_last_change_of_a_burst_is_shown_without_another_that_follows(tmp_path: Path) -> None:
    async with served(tmp_path, pace=Pace(patch=0.05)) as place, reading(place, kind="view") as reader:
        shown = from_json((await reader.frames(1))[0].data)
        await record(place, [said(str(number)) for number in range(3)])
        await record(place, [said("last")])
        while shown["seq"] < 4:
            (frame,) = await reader.frames(1)
            shown = applied(shown, from_json(frame.data))
        assert shown == view(folded(list(place.ledger.journal.read()))).model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize("kind", ["events", "view"])
async def test_the_daemon_shows_that_it_lives_while_nothing_happens(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path, pace=Pace(keep_alive=0.02, look=0.01)) as place, reading(place, kind=kind) as reader:
        seen = b""
        while seen.count(b":\n\n") < 4:
            seen += await reader.response.content.readany()


@pytest.mark.parametrize("kind", ["events", "view"])
async def test_f6_a_reader_that_leaves_frees_everything_at_once(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path) as place:
        await record(place, [said("one")])
        for _ in range(20):
            async with reading(place, kind=kind) as reader:
                await reader.frames(1)
                assert place.room.visitors == 1
            await asyncio.wait_for(place.empty(), 2)
        assert len(place.app[LISTENERS]) == 0


@pytest.mark.parametrize("kind", ["events", "view"])
async def test_o2_a_stream_says_goodbye_when_the_daemon_closes_its_door(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path) as place, reading(place, kind=kind) as reader:
        await record(place, [said("one")])
        assert (await reader.frames(1))[0].id
        place.app[LISTENERS].let_go()
        frame = await reader.frame()
        while frame is not None and frame.event != "bye":
            frame = await reader.frame()
        assert frame is not None
        assert await reader.frame() is None  # and the answer is complete
        await place.empty()


async def test_an_empty_last_event_id_is_none(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        await record(place, [said("one"), said("two"), said("three")])
        for headers, query, first in (({}, "2", 3), ({"Last-Event-ID": ""}, "2", 3), ({"Last-Event-ID": "1"}, "2", 2)):
            async with (
                aiohttp.ClientSession(place.address.url) as http,
                http.get(
                    f"{place.path}?after={query}",
                    headers={"Authorization": f"Bearer {place.address.token}", **headers},
                ) as answer,
            ):
                assert b"id: %d\n" % first == await anext(line async for line in answer.content if b"id:" in line)


@pytest.mark.parametrize("kind", ["events", "view"])
async def test_a_stream_ends_with_goodbye_when_the_session_is_closed(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path) as place, reading(place, kind=kind) as reader:
        await record(place, [said("one")])
        await reader.frames(1)
        await place.ledger.close()
        while (frame := await reader.frame()) and frame.event != "bye":
            assert frame.event == "view.patch"
        assert frame is not None
        assert await reader.frame() is None


@pytest.mark.parametrize("kind", ["events", "view"])
async def test_f6_a_reader_that_takes_nothing_is_let_go_and_slows_nobody(tmp_path: Path, kind: str) -> None:
    """Its socket is full; the writer goes on, a reader beside it gets everything, and in the end it is cut off."""
    long = "x" * 20_000
    async with served(tmp_path, pace=Pace(drain=0.3, look=0.02, patch=0.0), over="tcp") as place:
        stalled = asyncio.open_connection("127.0.0.1", int(place.address.url.rpartition(":")[2]), limit=1024)
        reader, writer = await stalled
        writer.write(
            f"GET {place.path}?as={kind} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {place.address.token}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\n\n")
        async with reading(place) as beside:
            for number in range(600):
                place.ledger.record(said(f"{number}{long}"))
                if number % 50 == 0:
                    await place.ledger.barrier()
            await place.ledger.barrier()
            frames = await beside.frames(600)
            assert [int(frame.id) for frame in frames] == list(range(1, 601))
            while place.room.visitors > 1:
                place.room.left.clear()
                await asyncio.wait_for(place.room.left.wait(), 5)
        writer.transport.abort()
        assert place.ledger.state.seq == 600


async def test_f6_a_reader_that_falls_behind_is_cut_and_told(tmp_path: Path) -> None:
    async with served(tmp_path) as place, reading(place) as reader:
        await reader.opened()
        await record(place, [said(str(number)) for number in range(QUEUE_LIMIT + 10)])
        seen = 0
        while frame := await reader.frame():
            if frame.event == "cut":
                assert from_json(frame.data) == {"after": seen}
            else:
                seen = int(frame.id)
        async with reading(place, last=seen) as again:
            frames = await again.frames(QUEUE_LIMIT + 10 - seen)
            assert [int(frame.id) for frame in frames] == list(range(seen + 1, QUEUE_LIMIT + 11))


async def test_many_readers_get_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as place:

        async def read() -> list[str]:
            async with reading(place) as reader:
                return [frame.id for frame in await reader.frames(300)]

        readers = [asyncio.create_task(read()) for _ in range(40)]
        for number in range(300):
            place.ledger.record(said(str(number)))
            if number % 20 == 0:
                await place.ledger.barrier()
        await place.ledger.barrier()
        for ids in await asyncio.gather(*readers):
            assert ids == [str(number) for number in range(1, 301)]


async def test_half_a_character_of_a_model_breaks_no_stream(tmp_path: Path) -> None:
    async with served(tmp_path) as place, reading(place) as reader:
        await reader.opened()
        place.ledger.delta(AssistantTextDelta(message_id="m", text="a\ud83db"))
        (frame,) = await reader.frames(1)
        assert from_json(frame.data)["text"] == "a\ufffdb"
