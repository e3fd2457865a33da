"""A client that works with a real daemon which is killed in the middle of an answer, and comes back elsewhere."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from harnessd.client.answers import Accepted
from harnessd.client.client import Client
from harnessd.client.find import find_daemon
from harnessd.client.mirror import Mirror
from harnessd.facts.control import Invoke
from harnessd.facts.event import AssistantTextDelta, Event
from harnessd.facts.message import text_of
from harnessd.models.script import Answer
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings, write
from tests.life.daemons import daemon

HALF, WHOLE = "Once upon", "Once upon a time"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGTERM, id="stopped", marks=pytest.mark.matrix),
    ],
)
async def test_f6_a_client_sees_one_conversation_whatever_becomes_of_the_daemon(
    tmp_path: Path, end: signal.Signals
) -> None:
    script = [Answer(HALF, piece=3, ends="hang", after=3), Answer(WHOLE, piece=4), Answer("Again.")]
    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        make_home(settings)
        operator = {"apiBase": settings.api_base, "model": settings.model, "graceSeconds": 0.2}
        write(settings.workspaces / "harnessd.yaml", json.dumps(operator))
        mirror, away, seen = Mirror(), [], asyncio.Event()

        async def watch(client: Client, session_id: str) -> None:
            async with client.follow("ada", session_id, away=away.append) as items:
                async for item in items:
                    if isinstance(item, Event):
                        assert item.seq == mirror.state.seq + 1
                    mirror.take(item)
                    if isinstance(item, AssistantTextDelta) and mirror.drafts.text(item.message_id) == HALF:
                        seen.set()

        async with daemon(tmp_path, HARNESSD_MODEL="openai/scripted") as first:
            await first.hears()
            connecting = Client.connect(settings, patience=30)
            client = await connecting.__aenter__()
            session_id = await client.create_session("ada")
            watching = asyncio.create_task(watch(client, session_id))
            begun = await client.control("ada", session_id, Invoke(input="tell"))
            assert isinstance(begun, Accepted)
            await asyncio.wait_for(seen.wait(), 20)
            opening = client.open_session("ada", session_id)
            session = await opening.__aenter__()
            idle = asyncio.create_task(session.idle())
            await first.stops(end)
        assert await find_daemon(settings) is None
        async with daemon(tmp_path, HARNESSD_MODEL="openai/scripted") as second:
            await second.hears()
            state = await asyncio.wait_for(idle, 30)
            assert text_of(state.messages[-1]) == WHOLE
            assert state.last_run is not None
            assert state.last_run.run_id == begun.run_id
            again = await session.control(Invoke(input="and again"))
            assert isinstance(again, Accepted)
            state = await session.idle()
            assert text_of(state.messages[-1]) == "Again."
            snapshot = await client.session("ada", session_id)
            while mirror.state.seq < snapshot.seq:
                await asyncio.sleep(0.01)
            assert mirror.state.model_dump_json() == snapshot.state.model_dump_json() == state.model_dump_json()
            assert away[-1] is False
            watching.cancel()
            await asyncio.wait([watching])
            await opening.__aexit__(None, None, None)
            await connecting.__aexit__(None, None, None)
