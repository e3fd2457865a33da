"""Both lanes over real HTTP: every way in which a provider fails has one outcome, the same in each lane."""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from asking import make_request, read_reply, user

from harnessd.facts.message import AssistantMessage, TextPart, ToolCall, ToolMessage
from harnessd.models.assembler import Reply
from harnessd.models.chunk import ModelFailure, TextDelta, ToolCallDelta
from harnessd.models.direct import Timeouts
from harnessd.models.models import Models
from harnessd.models.request import ModelRequest
from harnessd.models.script import Answer, Call, Page, Refusal, Script, Silence
from harnessd.models.scripted import ScriptedServer

TIMEOUTS = Timeouts(connect_s=5.0, first_byte_s=4.0, idle_s=1.0)


@dataclass(frozen=True)
class Lane:
    """A lane under test: its models, and the name and address under which a server is reached."""

    models: Models
    model: str
    path: str

    def request(self, server: ScriptedServer, text: str = "Hi", **given) -> ModelRequest:
        return make_request(self.model, text, api_base=server.url + self.path, **given)


@pytest.fixture(scope="module")
async def models() -> AsyncIterator[Models]:
    """One for the module: the worker takes seconds to start."""
    shared = Models({**os.environ, "ANTHROPIC_API_KEY": "sk-test", "OPENAI_API_KEY": "sk-test"}, timeouts=TIMEOUTS)
    async with ScriptedServer([Answer("warm")]) as server:
        await read_reply(shared, make_request("anthropic/claude-sonnet-4-5", api_base=server.url))
    yield shared
    await shared.close()
    assert "litellm" not in sys.modules


@pytest.fixture(params=["direct", "worker"])
def lane(request: pytest.FixtureRequest, models: Models) -> Lane:
    if request.param == "direct":
        return Lane(models, "openai/gpt-5-mini", "/v1")
    return Lane(models, "anthropic/claude-sonnet-4-5", "")


async def outcome(lane: Lane, script: Script, **given) -> Reply | ModelFailure:
    async with ScriptedServer(script) as server:
        return await read_reply(lane.models, lane.request(server, **given))


READS = (Call("read", {"path": "a"}), Call("read", {"path": "b"}))


@pytest.mark.parametrize("piece", [0, 1, 5])
async def test_l3_a_reply_arrives_whole(lane: Lane, piece: int) -> None:
    reply = await outcome(lane, [Answer("Grüße, 世界 🎉", READS, reasoning="Let me see", piece=piece)])
    assert isinstance(reply, Reply)
    assert (reply.text, reply.reasoning, reply.finish) == ("Grüße, 世界 🎉", "Let me see", "tool_calls")
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [{"path": "a"}, {"path": "b"}]
    assert all(call.id.startswith("call_") for call in reply.tool_calls)
    assert len({call.id for call in reply.tool_calls}) == 2


async def test_l5_usage_and_cost_are_the_providers(lane: Lane) -> None:
    reply = await outcome(lane, [Answer("Hello", usage=(1_000, 200, 400))])
    assert isinstance(reply, Reply)
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (1_000, 200, 400)
    limits = await lane.models.limits(lane.model)
    assert limits is not None
    assert usage.cost == pytest.approx(
        600 * (limits.input_price or 0) + 400 * (limits.cached_price or 0) + 200 * (limits.output_price or 0)
    )


FAILURES = {
    "rate limit": (
        Refusal(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, (("retry-after", "7"),)),
        "rate_limit",
    ),
    "no money": (Refusal(400, {"error": {"message": "Your credit balance is too low"}}), "payment"),
    "bad key": (
        Refusal(401, {"error": {"message": "invalid x-api-key", "type": "authentication_error"}}),
        "auth",
    ),
    "no such model": (
        Refusal(404, {"error": {"message": "model: x", "type": "not_found_error"}}),
        "unknown_model",
    ),
    "overflow, OpenAI": (
        Refusal(400, {"error": {"message": "maximum context length is 5", "code": "context_length_exceeded"}}),
        "context_overflow",
    ),
    "overflow, Anthropic": (
        Refusal(400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}),
        "context_overflow",
    ),
    "overflow, Bedrock": (
        Refusal(400, {"error": {"message": "Input is too long for requested model."}}),
        "context_overflow",
    ),
    "overflow, llama.cpp": (
        Refusal(400, {"error": {"message": "the request exceeds the available context size"}}),
        "context_overflow",
    ),
    "bad request": (
        Refusal(400, {"error": {"message": "tools.0: field required", "type": "invalid_request_error"}}),
        "bad_request",
    ),
    "server error": (Refusal(500, {"error": {"message": "oops", "type": "api_error"}}), "server_error"),
    "overloaded": (
        Refusal(529, {"error": {"message": "Overloaded", "type": "overloaded_error"}}),
        "overloaded",
    ),
    "bad gateway": (Refusal(502, "<html>Bad Gateway</html>"), "server_error"),
    "gateway timeout": (Refusal(504, "<html>Gateway Time-out</html>"), "timeout"),
    "hangs before the headers": (Silence(), "timeout"),
    "hangs in the middle": (Answer("a b c d e f", piece=2, ends="hang", after=4), "timeout"),
    "cut in the middle": (Answer("a b c d e f", piece=2, ends="cut", after=4), "cut_off"),
    "ends without a finish": (Answer("a b c d e f", piece=2, ends="short", after=4), "cut_off"),
    "an error in the middle": (
        Answer("a b c d e f", piece=2, ends="error", after=4, error="Overloaded"),
        "overloaded",
    ),
    "empty": (Answer(""), "empty"),
    "filtered": (Answer("I", finish="content_filter"), "content_filter"),
}


@pytest.mark.parametrize(("reply", "kind"), FAILURES.values(), ids=FAILURES.keys())
async def test_l3_every_failure_has_one_outcome(lane: Lane, reply, kind: str) -> None:
    failure = await outcome(lane, [reply])
    assert isinstance(failure, ModelFailure), failure
    assert failure.kind == kind, str(failure)
    assert failure.message
    assert "sk-test" not in failure.message
    if kind == "rate_limit":
        assert failure.retry_after_s == 7.0
    if isinstance(reply, Answer) and reply.ends != "whole":
        assert failure.partial_text
        assert "a b c d e f".startswith(failure.partial_text)


async def test_l3_garbage_in_the_middle_is_a_failure_that_passes(lane: Lane) -> None:
    failure = await outcome(lane, [Answer("a b c d", piece=2, ends="garbage", after=3)])
    assert isinstance(failure, ModelFailure), failure
    assert failure.retryable, failure


async def test_l3_nobody_listens(lane: Lane) -> None:
    async with ScriptedServer([Answer("x")]) as server:
        request = lane.request(server)
    failure = await read_reply(lane.models, request)
    assert isinstance(failure, ModelFailure), failure
    assert failure.kind == "unreachable", failure


async def test_l3_truncated_arguments_are_handed_on_as_they_came(lane: Lane) -> None:
    reply = await outcome(lane, [Answer("x", (Call("read", '{"path": "a'),), finish="length", piece=3)])
    assert isinstance(reply, Reply), reply
    assert (reply.finish, reply.tool_calls[0].arguments) == ("length", '{"path": "a')


async def test_l3_a_wrong_tool_name_is_handed_on(lane: Lane) -> None:
    reply = await outcome(lane, [Answer(calls=(Call("no_such_tool", {}),))])
    assert isinstance(reply, Reply), reply
    assert [call.name for call in reply.tool_calls] == ["no_such_tool"]


async def test_l3_missing_usage_is_estimated(lane: Lane) -> None:
    reply = await outcome(lane, [Answer("x" * 40, usage=None)])
    assert isinstance(reply, Reply), reply
    assert reply.usage.output_tokens > 0
    if lane.path:
        assert reply.usage.estimated


NUMBERED_BADLY = {
    "index 0 reused": (Call("read", {"path": "a"}, "i", 0), Call("read", {"path": "b"}, "j", 0)),
    "duplicate ids": (Call("read", {"path": "a"}, "i"), Call("read", {"path": "b"}, "i")),
    "missing ids": (Call("read", {"path": "a"}, ""), Call("read", {"path": "b"}, "")),
    "missing ids, index 0": (Call("read", {"path": "a"}, "", 0), Call("read", {"path": "b"}, "", 0)),
}


@pytest.mark.parametrize("calls", NUMBERED_BADLY.values(), ids=NUMBERED_BADLY.keys())
@pytest.mark.parametrize("piece", [0, 3])
async def test_f4_badly_numbered_calls_stay_two(models: Models, calls, piece: int) -> None:
    reply = await outcome(Lane(models, "openai/gpt-5-mini", "/v1"), [Answer(calls=calls, piece=piece)])
    assert isinstance(reply, Reply)
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [{"path": "a"}, {"path": "b"}]
    assert len({call.id for call in reply.tool_calls}) == 2


PAGES = {
    "unstreamed answer": (
        Page(
            {
                "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 1},
            }
        ),
        "hello",
    ),
    "error with 200": (Page({"error": {"message": "Rate limit reached", "code": 429}}), "rate_limit"),
    "no JSON": (Page("<html>", "application/json"), "malformed"),
    "a page": (Page("<html></html>", "text/html"), "cut_off"),
    "nothing": (Page("", "text/event-stream"), "cut_off"),
    "only done": (Answer(raw=(b"[DONE]",)), "empty"),
    "done without finish": (Answer(raw=(b'{"choices":[{"delta":{"content":"hello"}}]}', b"[DONE]")), "hello"),
    "arguments as an object": (
        Answer(
            raw=(
                b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"read","arguments":{"a":1}}}]}}]}',
                b"[DONE]",
            )
        ),
        "",
    ),
    "null choices": (Answer(raw=(b'{"choices":null}', b'{"choices":[{"delta":null}]}', b"[DONE]")), "empty"),
    "a list": (Answer(raw=(b"[1]",)), "malformed"),
}


@pytest.mark.parametrize(("reply", "said"), PAGES.values(), ids=PAGES.keys())
async def test_l3_odd_servers_have_one_outcome(models: Models, reply, said: str) -> None:
    got = await outcome(Lane(models, "openai/gpt-5-mini", "/v1"), [reply])
    assert (got.text if isinstance(got, Reply) else got.kind) == said


async def test_the_whole_history_reaches_the_provider(lane: Lane) -> None:
    history = (
        user("Read a."),
        AssistantMessage(
            parts=(TextPart(text="Yes."),),
            tool_calls=(ToolCall(id="call_1", name="read", arguments='{"broken'),),
        ),
        ToolMessage(tool_call_id="call_1", tool_name="read", status="invalid", parts=(TextPart(text="bad JSON"),)),
        AssistantMessage(tool_calls=(ToolCall(id="call_2", name="read", arguments='{"path":"a"}'),)),
        ToolMessage(tool_call_id="call_2", tool_name="read"),
    )
    async with ScriptedServer([Answer("Done.")]) as server:
        request = lane.request(server, messages=history, context_note="It is noon.", max_output_tokens=77)
        assert isinstance(await read_reply(lane.models, request), Reply)
    (got,) = server.requests
    text = got.raw.decode()
    for part in ("Be brief.", "Read a.", "Yes.", "broken", "bad JSON", "It is noon.", "Read a file."):
        assert part in text
    assert got.body["stream"] is True
    assert 77 in (got.body.get("max_tokens"), got.body.get("max_completion_tokens"))
    assert "sk-test" in got.headers.get("Authorization", "") + got.headers.get("x-api-key", "")


async def test_h2_the_body_grows_only_at_its_end(lane: Lane) -> None:
    async with ScriptedServer([Answer("Done.")]) as server:
        history = [user("one")]
        await read_reply(lane.models, lane.request(server, messages=tuple(history), session_id="ses_grow"))
        history += [AssistantMessage(parts=(TextPart(text="Done."),)), user("two")]
        await read_reply(lane.models, lane.request(server, messages=tuple(history), session_id="ses_grow"))
    first, second = (without_marks(request.body["messages"]) for request in server.requests)
    assert second[: len(first)] == first


def without_marks(value: Any) -> Any:
    """Where a prompt may be cached up to is no part of what is cached."""
    if isinstance(value, dict):
        return {key: without_marks(inner) for key, inner in value.items() if key != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "last",
    [user("two"), ToolMessage(tool_call_id="call_1", parts=(TextPart(text="two"),))],
    ids=["user", "tool"],
)
async def test_l5_anthropic_is_told_up_to_where_to_cache(models: Models, last) -> None:
    called = AssistantMessage(tool_calls=(ToolCall(id="call_1", name="read", arguments="{}"),))
    history = (user("one"), called, last) if isinstance(last, ToolMessage) else (user("one"), last)
    async with ScriptedServer([Answer("Done.")]) as server:
        lane = Lane(models, "anthropic/claude-sonnet-4-5", "")
        assert isinstance(await read_reply(models, lane.request(server, messages=history)), Reply)
    body = server.requests[0].body
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert json.dumps(body).count("cache_control") == 2


async def test_f4_mistral_gets_ids_of_nine_letters(models: Models) -> None:
    history = (
        user("one"),
        AssistantMessage(tool_calls=(ToolCall(id="call_01kbc3fqz-7h2m9xw", name="read", arguments="{}"),)),
        ToolMessage(tool_call_id="call_01kbc3fqz-7h2m9xw", parts=(TextPart(text="two"),)),
    )
    async with ScriptedServer([Answer("Done.")]) as server:
        lane = Lane(models, "mistral/mistral-large-latest", "/v1")
        reply = await read_reply(models, lane.request(server, messages=history))
        assert isinstance(reply, Reply), reply
    _, _, called, told = server.requests[0].body["messages"]
    assert called["tool_calls"][0]["id"] == told["tool_call_id"] == "qz7h2m9xw"


async def test_f5_leaving_drops_the_request_at_once(lane: Lane) -> None:
    async with ScriptedServer([Answer("a b c d", piece=2, ends="hang", after=4)]) as server:
        async with aclosing(lane.models.stream(lane.request(server))) as stream:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    break
        with anyio.fail_after(3):
            await server.left.wait()


async def test_f5_a_cancelled_request_is_dropped_at_once(lane: Lane) -> None:
    async with ScriptedServer([Silence()]) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_reply, lane.models, lane.request(server))
            await server.arrived.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(3):
            await server.left.wait()


async def test_many_at_once_do_not_mix(lane: Lane) -> None:
    def echo(request) -> Answer:
        last = request.body["messages"][-1]["content"]
        text = last if isinstance(last, str) else last[0]["text"]
        return Answer(text, (Call("read", {"path": text}),), piece=3)

    async with ScriptedServer(echo) as server:

        async def one(number: int) -> None:
            reply = await read_reply(lane.models, lane.request(server, f"number {number}"))
            assert isinstance(reply, Reply)
            assert reply.text == f"number {number}"
            assert json.loads(reply.tool_calls[0].arguments) == {"path": f"number {number}"}

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)


async def test_deltas_come_while_the_model_speaks(lane: Lane) -> None:
    release = asyncio.Event()
    answer = Answer("one two three", (Call("read", {}),), piece=4, ends="hang", after=5, release=release)
    async with (
        ScriptedServer([answer]) as server,
        aclosing(lane.models.stream(lane.request(server))) as stream,
    ):
        seen = []
        async for chunk in stream:
            if isinstance(chunk, TextDelta | ToolCallDelta):
                seen.append(chunk)
                release.set()
        assert len(seen) >= 2


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_f2_a_worker_that_dies_is_a_failure_and_the_next_one_serves(models: Models) -> None:
    lane = Lane(models, "anthropic/claude-sonnet-4-5", "")
    async with ScriptedServer([Silence(), Answer("back")]) as server:
        found: list[Reply | ModelFailure] = []

        async def ask() -> None:
            found.append(await read_reply(models, lane.request(server)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await server.arrived.wait()
            pid = models.worker_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        (failure,) = found
        assert isinstance(failure, ModelFailure)
        assert failure.retryable
        reply = await read_reply(models, lane.request(server))
        assert isinstance(reply, Reply), reply
        assert reply.text == "back"
        assert models.worker_pid not in {None, pid}
        assert not alive(pid)


def test_the_main_process_never_imports_litellm(models: Models) -> None:
    assert models.worker_pid is not None
    assert "litellm" not in sys.modules


def open_now() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), len(asyncio.all_tasks())


async def test_o1_nothing_stays_open(models: Models) -> None:
    """Descriptors and tasks are flat over many requests, failed and cancelled ones included."""
    lane = Lane(models, "openai/gpt-5-mini", "/v1")
    async with ScriptedServer([Answer("a b c", piece=1), Answer("a b", piece=1, ends="cut")] * 200) as server:
        await read_reply(models, lane.request(server))

        async def spend() -> None:
            for _ in range(25):
                await read_reply(models, lane.request(server))
                async with aclosing(models.stream(lane.request(server))) as stream:
                    await anext(stream)

        await spend()
        gc.collect()
        before = open_now()
        await spend()
        gc.collect()
        after = open_now()
        assert after[0] <= before[0] + 3
        assert after[1] <= before[1] + 3
