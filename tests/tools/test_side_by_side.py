"""Readers overlap up to the limit, writers keep their order, and one call's end is not another's."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from harnessd.facts.event import ToolCallCompleted
from harnessd.facts.message import JsonObject, ToolCall
from harnessd.tools.pipeline import Done
from harnessd.tools.tool import Outcome, ToolContext, failed, succeeded
from tests.tools.a_session import a_call, a_tool, a_turn, run, text

Body = Callable[[ToolContext, JsonObject], Awaitable[Outcome]]


def looks(count: int) -> list[ToolCall]:
    return [a_call("look", f'{{"x": {number}}}', f"call_{number:02}") for number in range(count)]


@pytest.mark.parametrize(("count", "together"), [(50, 50), (50, 8), (9, 8), (8, 8), (5, 2)])
async def test_readers_are_under_way_at_the_same_time_up_to_the_limit(count: int, together: int) -> None:
    """No reader goes on before as many are under way as may be; more never are."""
    inside, most = 0, 0
    everybody = anyio.Event()

    async def look(context: ToolContext, arguments: JsonObject) -> Outcome:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == min(count, together):
            everybody.set()
        with anyio.fail_after(10):
            await everybody.wait()
        inside -= 1
        return succeeded("seen")

    memory = a_turn(*looks(count))
    assert await run(memory, a_tool("look", look, effect="read"), together=together) == Done()
    assert memory.statuses() == ["ok"] * count
    assert most == min(count, together)


async def test_the_next_reader_does_not_wait_for_the_slowest() -> None:
    last = anyio.Event()

    async def look(context: ToolContext, arguments: JsonObject) -> Outcome:
        if arguments["x"] == 0:  # the first goes on only when the last, far beyond the limit, was there
            with anyio.fail_after(10):
                await last.wait()
        if arguments["x"] == 19:
            last.set()
        return succeeded("seen")

    memory = a_turn(*looks(20))
    await run(memory, a_tool("look", look, effect="read"), together=2)
    assert memory.statuses() == ["ok"] * 20


@pytest.mark.parametrize("marks", [{"effect": "read"}, {"concurrency_safe": True}])
async def test_a_writer_waits_for_those_before_it_and_those_behind_see_what_it_did(marks: dict[str, object]) -> None:
    value, seen = [0], dict[int, int]()

    async def look(context: ToolContext, arguments: JsonObject) -> Outcome:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        seen[arguments["x"]] = value[0]
        return succeeded("seen")

    async def change(context: ToolContext, arguments: JsonObject) -> Outcome:
        before = value[0]
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        value[0] = before + 1
        return succeeded("changed", changed=True)

    calls, reader = [], looks(12)
    for number in range(4):
        calls += [
            *reader[number * 3 : number * 3 + 3],
            a_call("change", id=f"w{number}"),
            a_call("change", id=f"v{number}"),
        ]
    memory = a_turn(*calls)
    await run(memory, a_tool("look", look, **marks), a_tool("change", change))
    assert seen == {number: number // 3 * 2 for number in range(12)}
    assert value == [8]


async def test_one_that_fails_raises_or_takes_too_long_ends_no_other() -> None:
    async def look(context: ToolContext, arguments: JsonObject) -> Outcome:
        await anyio.lowlevel.checkpoint()
        match arguments["x"] % 4:
            case 0:
                raise LookupError("broken")
            case 1:
                return failed("missing", "not there")
            case 2:
                await anyio.sleep_forever()
        return succeeded("seen")

    memory = a_turn(*looks(16))
    await run(memory, a_tool("look", look, effect="read", timeout=0.05), together=16)
    ends = {
        event.tool_call_id: event.status
        for event in memory.of("tool.call.completed")
        if isinstance(event, ToolCallCompleted)
    }
    assert [ends[f"call_{number:02}"] for number in range(16)] == ["error", "error", "timeout", "ok"] * 4


@pytest.mark.parametrize("stopped", [True, False])
async def test_f5_a_batch_that_is_cancelled_is_wholly_on_record(stopped: bool) -> None:
    inside = 0
    begun = anyio.Event()

    async def look(context: ToolContext, arguments: JsonObject) -> Outcome:
        nonlocal inside
        inside += 1
        if inside == 4:
            begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    memory, stopping = a_turn(*looks(10)), False
    async with anyio.create_task_group() as group:

        async def go() -> None:
            await run(memory, a_tool("look", look, effect="read"), together=4, stopping=lambda: stopping)

        group.start_soon(go)
        with anyio.fail_after(10):
            await begun.wait()
        stopping = stopped
        group.cancel_scope.cancel()
    assert inside == 4  # no other began
    assert memory.statuses() == (["cancelled"] * 10 if stopped else [])
    if not stopped:  # a shutdown: whoever takes the run up does them again
        assert {call.status for call in memory.calls} == {"running", "pending"}


async def test_f2_the_idempotency_key_is_the_calls_own_and_stays_over_reruns() -> None:
    keys: list[tuple[str, str]] = []

    def body(how: str) -> Body:
        async def act(context: ToolContext, arguments: JsonObject) -> Outcome:
            keys.append((context.call_id, context.idempotency_key))
            if how == "dies":
                raise anyio.get_cancelled_exc_class()
            return succeeded("done")

        return act

    memory = a_turn(*(a_call("act", '{"x": 1}', f"call_{number}") for number in range(3)))
    with pytest.raises(anyio.get_cancelled_exc_class()):  # the process ends while the first is in flight
        await run(memory, a_tool("act", body("dies"), idempotent=True))
    await run(memory, a_tool("act", body("works"), idempotent=True))
    assert [call for call, _ in keys] == ["call_0", "call_0", "call_1", "call_2"]
    assert keys[0] == keys[1]
    assert len({key for _, key in keys}) == 3  # though all three are one action
    recorded = {event.tool_call_id: event.idempotency_key for event in memory.of("tool.call.created")}  # type: ignore[attr-defined]
    assert dict(keys) == recorded
    assert all(len(key) == 32 and set(key) <= set("0123456789abcdef") for _, key in keys)


# --- L1: what the model cut off never runs

WHOLE = [
    '{"path": "work/a.txt", "content": "one\\u00e9\\n", "n": [1, 2.5e3, true]}',
    "{'path': 'x', // why\n 'n': None,}",
]
WHOLE += ['```json\n{"path": "x"}\n```', '"{\\"path\\": \\"x\\"}"']


@pytest.mark.parametrize("whole", WHOLE)
async def test_l1_no_beginning_of_a_call_is_run(whole: str) -> None:
    ran: list[JsonObject] = []

    async def write(context: ToolContext, arguments: JsonObject) -> Outcome:
        ran.append(arguments)
        return succeeded("written")

    tool = a_tool("write", write, input_schema={"type": "object", "properties": {"path": {"type": "string"}}})
    memory = a_turn(*(a_call("write", whole[:end], f"call_{end}") for end in range(len(whole))))
    await run(memory, tool)
    assert ran == []
    assert memory.statuses() == ["invalid"] * len(whole)
    for call in memory.calls:
        assert call.result is not None
        assert "nothing was run. Line " in text(Outcome(parts=call.result.parts))
    memory = a_turn(a_call("write", whole))
    await run(memory, tool)
    assert len(ran) == 1
