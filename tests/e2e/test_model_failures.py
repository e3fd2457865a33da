"""L3 through the real command, in both lanes: each failure has its recorded outcome, code and way out."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from harnessd.models.script import Answer, Refusal, ScriptedReply
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import make
from tests.e2e.lanes import DIRECT, WORKER, Lane, harnessd, of_type, talking

LATER = (("retry-after", "120"),)
"""A provider that asks for more than a minute is not waited for: the failure is final at once."""


@dataclass(frozen=True)
class Row:
    """A failure: the answers of the model in turn, what the run records, the code, and the way out that is told."""

    script: tuple[ScriptedReply, ...]
    kind: str
    code: int
    way_out: str = ""
    actions: tuple[str, ...] = ()


def refusal(status: int, message: str, kind: str = "error", headers: tuple[tuple[str, str], ...] = ()) -> Refusal:
    return Refusal(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)


OK = Answer("all right")
ROWS: dict[str, Row] = {
    "a key that is refused": Row((refusal(401, "invalid x-api-key"),), "auth", 5, "harnessd doctor"),
    "no money": Row((refusal(400, "Your credit balance is too low"),), "payment", 5, "--model"),
    "a model that is not there": Row((refusal(404, "model: no such model"),), "unknown_model", 5, "--model"),
    "a request that is refused": Row((refusal(400, "temperature is wrong"),), "bad_request", 5, "--model"),
    "a filtered answer": Row((Answer("", finish="content_filter"),), "content_filter", 5, "other words"),
    "a rate limit that passes": Row((refusal(429, "slow down"), OK), "rate_limit", 0, "asked again", ("wait",)),
    "a rate limit that lasts": Row((refusal(429, "slow down", headers=LATER),), "rate_limit", 5, "fallbackModels"),
    "a server error that passes": Row((refusal(500, "oops"), OK), "server_error", 0, "asked again", ("wait",)),
    "a server error that lasts": Row((refusal(500, "oops", headers=LATER),), "server_error", 5, "fallbackModels"),
    "an overload that lasts": Row((refusal(529, "overloaded", headers=LATER),), "overloaded", 5, "fallbackModels"),
    "a stream that is cut": Row((Answer("half a", ends="cut", after=2), OK), "cut_off", 0, "asked again", ("wait",)),
    "an empty answer": Row((Answer(""), OK), "empty", 0, "asked again", ("wait",)),
    "an error in the stream": Row((Answer("x", ends="error"), OK), "server_error", 0, "asked again", ("wait",)),
    "a context that cannot fit": Row(
        (refusal(400, "prompt is too long: 300000 tokens > 200000 maximum"),),
        "context_overflow",
        5,
        "new session",
        ("compact",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
async def test_l3_each_failure_in_the_direct_lane(case: str) -> None:
    await _one_run(DIRECT, ROWS[case])


@pytest.mark.matrix
@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", ROWS)
async def test_l3_each_failure_in_the_litellm_lane_by_a_command_of_its_own(case: str) -> None:
    await _one_run(WORKER, ROWS[case])


@pytest.mark.timeout(240)
async def test_l3_each_failure_in_the_litellm_lane() -> None:
    """One process for all rows, so that the worker starts once."""
    make()
    replies: list[ScriptedReply] = [OK]
    async with (
        ScriptedServer(lambda _: replies.pop(0) if len(replies) > 1 else replies[0]) as server,
        talking("ada", "--model", WORKER.model, env=WORKER.env(server)) as talk,
    ):
        for case, row in ROWS.items():
            replies[:] = row.script
            _check(row, await talk.say(f"/new\n{case}"), case)


async def _one_run(lane: Lane, row: Row) -> None:
    make()
    async with ScriptedServer(row.script) as server:
        said = await harnessd("run", "ada", "hi", "--model", lane.model, env=lane.env(server))
    assert said.code == row.code, said
    assert row.way_out in said.err, said.err
    assert "sk-e2e-key" not in said.err
    shown = await harnessd("show", "ada", "--json")
    _check(row, shown.records, "")


def _check(row: Row, events: list[dict[str, Any]], case: str) -> None:
    [finished] = of_type(events, "run.finished")
    retried = of_type(events, "turn.retried")
    assert tuple(one["action"] for one in retried) == row.actions, (case, retried, finished)
    if row.code == 0:
        assert finished["reason"] == "completed", (case, finished)
        # litellm tells an error inside a stream as a stream that was cut.
        kinds = {row.kind, "cut_off"} if row.kind == "server_error" else {row.kind}
        assert {one["failure"]["kind"] for one in retried} <= kinds, (case, retried)
    else:
        assert finished["reason"] == "failed", (case, finished)
        assert finished["failure"]["kind"] == row.kind, (case, finished)
        assert finished["failure"]["message"], case
        assert "litellm" not in finished["failure"]["message"].lower(), "the provider's own words"
        assert row.way_out in finished["failure"]["hint"], (case, finished)
    assert "sk-e2e-key" not in json.dumps(events)
