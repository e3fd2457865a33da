"""What the events of `--json` say of a call in both lanes: schema, tokens, cost, and a worker that dies."""

import json
import os
import signal
from typing import Any

import anyio
import jsonschema
import pytest

from harnessd.facts.message import Usage
from harnessd.models.prices import Prices
from harnessd.models.script import Answer, Request
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import harnessd as here
from tests.cli.command_line import make
from tests.e2e.lanes import LANES, WORKER, Lane, calls, descendants, of_type, talking

FIRST, SECOND = (1_000, 200, 400), (1_500, 100, 900)
"""Input, output and cached tokens of the two turns."""


def cost(lane: Lane, tokens: tuple[int, int, int]) -> float:
    prices = Prices()
    prices.load_now()
    given, made, cached = tokens
    found = prices.cost(Usage(input_tokens=given, output_tokens=made, cached_tokens=cached), lane.model)
    assert found
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_l5_tokens_and_cost_of_each_turn_are_facts_and_add_up(lane: Lane) -> None:
    make()
    script = [calls(("read", {"path": "AGENTS.md"})), Answer("done", usage=SECOND)]
    script[0] = Answer(calls=script[0].calls, usage=FIRST)
    async with (
        ScriptedServer(script) as server,
        talking("ada", "--model", lane.model, env=lane.env(server)) as talk,
    ):
        events = await talk.say("Read it.")
    turns = of_type(events, "turn.finished")
    for turn, tokens in zip(turns, (FIRST, SECOND), strict=True):
        assert _tokens(turn["usage"]) == tokens
        assert not turn["usage"].get("estimated")
        assert turn["usage"]["cost"] == pytest.approx(cost(lane, tokens))
    [finished] = of_type(events, "run.finished")
    assert _tokens(finished["usage"]) == tuple(a + b for a, b in zip(FIRST, SECOND, strict=True))
    assert finished["usage"]["cost"] == pytest.approx(sum(turn["usage"]["cost"] for turn in turns))
    _are_as_the_schema_says(talk.events)


@pytest.mark.timeout(240)
async def test_l3_a_worker_that_dies_in_a_reply_is_on_record_and_replaced() -> None:
    make()
    begun = anyio.Event()

    def script(_: Request) -> Answer:
        if begun.is_set():
            return Answer("whole")
        begun.set()
        return Answer("half an answer", piece=4, ends="hang", after=4)

    async with (
        ScriptedServer(script) as server,
        talking("ada", "--model", WORKER.model, env=WORKER.env(server)) as talk,
        anyio.create_task_group() as tasks,
    ):

        async def kill_the_worker() -> None:
            await begun.wait()
            [pid] = [pid for pid, line in descendants(os.getpid()).items() if "litellm_worker.py" in line]
            os.kill(pid, signal.SIGKILL)

        tasks.start_soon(kill_the_worker)
        events = await talk.say("hello")
    [retried] = of_type(events, "turn.retried")
    assert (retried["action"], retried["failure"]["kind"]) == ("wait", "server_error")
    assert "the model worker died" in retried["failure"]["message"]
    assert retried["failure"]["hint"]
    [said] = [one["message"] for one in of_type(events, "message.created") if one["message"]["role"] == "assistant"]
    assert [part["text"] for part in said["parts"]] == ["whole"]
    assert of_type(events, "run.finished")[0]["reason"] == "completed"
    _are_as_the_schema_says(events)


def _tokens(usage: dict[str, Any]) -> tuple[int, ...]:
    return usage["inputTokens"], usage["outputTokens"], usage["cachedTokens"]


def _are_as_the_schema_says(events: list[dict[str, Any]]) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(here("schema", "events").out))
    for event in events:
        validator.validate(event)
