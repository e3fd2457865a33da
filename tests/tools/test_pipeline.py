"""From a call to its one result: order, facts, approvals, stops, restarts."""

import json
from dataclasses import replace
from typing import Literal

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.errors import StorageError
from harnessd.facts.event import (
    ToolApprovalResolved,
    ToolCallCreated,
    ToolCallRunning,
)
from harnessd.facts.message import AssistantMessage, JsonObject, TextPart, ToolMessage
from harnessd.facts.run import Decision
from harnessd.facts.state import OpenCall, State
from harnessd.permissions.call import GateCall
from harnessd.tools.pipeline import Done, Ready, Waiting
from harnessd.tools.todo import todo_tool
from harnessd.tools.tool import Outcome, Preview, ToolContext, succeeded
from tests.tools.a_session import Memory, a_call, a_tool, a_turn, allow, ask, deny, no_context, run, text


def result(memory: Memory, call_id: str) -> ToolMessage:
    return next(entry.result for entry in memory.calls if entry.call.id == call_id and entry.result)


async def test_a_writer_is_durable_before_its_effect_and_a_reader_waits_for_no_disk() -> None:
    memory = a_turn(a_call("look"), a_call("change"))

    async def change(context: ToolContext, arguments: JsonObject) -> Outcome:
        memory.order.append("effect")
        return succeeded("changed", changed=True)

    assert await run(memory, a_tool("look", effect="read"), a_tool("change", change)) == Done()
    assert memory.order[3:] == [
        "tool.call.created",
        "tool.call.created",
        "tool.call.running",
        "tool.call.completed",
        "tool.call.running",
        "barrier",
        "effect",
        "tool.call.completed",
    ]
    assert memory.statuses() == ["ok", "ok"]
    assert all(event.run_id == "run_1" and event.turn_id == "turn_1" for event in memory.events[3:])


async def test_the_record_of_a_call_carries_its_marks() -> None:
    memory = a_turn(a_call("look", '{"x": 1}', "call_a"), a_call("look", "{'x': 1}", "call_b"), a_call("change"))
    await run(memory, a_tool("look", effect="read", idempotent=True, origin="remote"), a_tool("change"))
    first, second, third = memory.of("tool.call.created")
    assert isinstance(first, ToolCallCreated)
    assert isinstance(second, ToolCallCreated)
    assert isinstance(third, ToolCallCreated)
    assert (first.effect, first.idempotent, first.origin, first.arguments) == ("read", True, "remote", {"x": 1})
    assert first.message_id == "msg_1"
    assert first.action_hash == second.action_hash != third.action_hash
    assert len({first.idempotency_key, second.idempotency_key, third.idempotency_key}) == 3
    assert (third.effect, third.idempotent, third.concurrency_safe) == ("write", False, False)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (a_call("lok"), "Did you mean look?"),
        (a_call("look", '{"x": 1'), "Line 1, column 8"),
        (a_call("look", '{"x": "one"}'), "at 'x'"),
        (a_call("look", ""), "empty"),
        (a_call("broken"), "cannot be called"),
    ],
)
async def test_l1_what_cannot_be_understood_is_never_run(call: object, told: str) -> None:
    ran: list[str] = []

    async def note(context: ToolContext, arguments: JsonObject) -> Outcome:
        ran.append("ran")
        return succeeded("")

    memory = a_turn(call)  # type: ignore[arg-type]
    broken = a_tool("broken", note, input_schema={"type": "array"})
    assert await run(memory, a_tool("look", note), broken) == Done()
    assert ran == []
    assert memory.statuses() == ["invalid"]
    assert told in text_of(memory.calls[0])
    (created,) = memory.of("tool.call.created")
    assert isinstance(created, ToolCallCreated)
    assert created.arguments is None
    assert memory.state.active_run is not None
    assert memory.state.active_run.invalid_in_a_row == 1


def text_of(call: OpenCall) -> str:
    assert call.result is not None
    return "".join(part.text for part in call.result.parts if isinstance(part, TextPart))


async def test_a_denied_call_tells_the_model_why() -> None:
    memory = a_turn(a_call("change"))
    assert await run(memory, a_tool("change"), decide=deny) == Done()
    assert memory.statuses() == ["denied"]
    assert "the home says no (rule change)" in text_of(memory.calls[0])
    assert not memory.of("tool.call.running")
    assert memory.of("tool.call.completed")[0].decision.layer == "rules"  # type: ignore[attr-defined]


async def asks_about_writers(call: GateCall) -> Decision:
    return await (ask if call.effect == "write" else allow)(call)


async def test_f1_a_call_that_asks_waits_while_the_others_run() -> None:
    memory = a_turn(a_call("look"), a_call("change"), a_call("change", id="call_2"))
    change = a_tool("change", preview=lambda context, arguments: Preview("+ new", "b1"))
    waiting = await run(memory, a_tool("look", effect="read"), change, decide=asks_about_writers)
    assert isinstance(waiting, Waiting)
    assert [approval.id for approval in memory.state.pending_approvals] == list(waiting.approvals)
    assert [(one.diff, one.base) for one in memory.state.pending_approvals] == [("+ new", "b1")] * 2
    assert memory.order[-1] == "barrier"
    assert memory.statuses() == ["ok"]
    # Taken up again before anybody decided, nothing happens twice.
    recorded = len(memory.events)
    assert await run(memory, a_tool("look", effect="read"), change, decide=asks_about_writers) == waiting
    assert len(memory.events) == recorded


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("allowed", "ok"), ("denied", "denied"), ("expired", "cancelled"), ("cancelled", "cancelled")],
)
async def test_f1_each_end_of_an_approval_has_its_own_result(outcome: str, status: str) -> None:
    memory = a_turn(a_call("change"))
    waiting = await run(memory, a_tool("change"), decide=ask)
    assert isinstance(waiting, Waiting)
    resolve(memory, waiting, outcome, note="because")
    assert await run(memory, a_tool("change"), decide=ask) == Done()
    assert memory.statuses() == [status]
    if outcome == "allowed":
        (running,) = memory.of("tool.call.running")
        assert isinstance(running, ToolCallRunning)
        assert (running.decision.verdict, running.decision.layer) == ("allow", "person")
        assert [one.layer for one in running.decision.answers] == ["mode", "person"]


def resolve(memory: Memory, waiting: Waiting, outcome: str, **more: object) -> None:
    (approval_id,) = waiting.approvals
    (approval,) = memory.state.pending_approvals
    memory.record(
        ToolApprovalResolved(
            approval_id=approval_id,
            tool_call_id=approval.tool_call_id,
            outcome=outcome,  # type: ignore[arg-type]
            by="uma",
            **more,  # type: ignore[arg-type]
        )
    )


async def test_f1_arguments_that_a_person_changed_are_the_ones_that_run() -> None:
    used: list[JsonObject] = []

    async def note(context: ToolContext, arguments: JsonObject) -> Outcome:
        used.append(arguments)
        assert context.approved
        return succeeded("")

    memory = a_turn(a_call("change", '{"x": 1}'))
    waiting = await run(memory, a_tool("change", note), decide=ask)
    assert isinstance(waiting, Waiting)
    resolve(memory, waiting, "allowed", arguments={"x": 2})
    await run(memory, a_tool("change", note), decide=ask)
    assert used == [{"x": 2}]


@pytest.mark.parametrize(
    ("asked", "given", "status"), [(1, 2, "outcome_unknown"), (2, 1, "ok"), (2, 2, "outcome_unknown")]
)
async def test_f2_arguments_that_a_person_changed_decide_whether_a_call_in_flight_is_rerun(
    asked: int, given: int, status: str
) -> None:
    """Odd numbers are read here, even ones written."""

    class Killed(BaseException):
        pass

    async def killed(context: ToolContext, arguments: JsonObject) -> Outcome:
        raise Killed

    def marks(arguments: JsonObject) -> Literal["read", "write"]:
        return "read" if arguments["x"] == 1 else "write"

    memory = a_turn(a_call("change", f'{{"x": {asked}}}'))
    waiting = await run(memory, a_tool("change", killed, effect_for=marks), decide=ask)
    assert isinstance(waiting, Waiting)
    resolve(memory, waiting, "allowed", arguments={"x": given})
    with pytest.raises(Killed):
        await run(memory, a_tool("change", killed, effect_for=marks), decide=ask)
    assert ("barrier" in memory.order[memory.order.index("tool.call.running") :]) == (given == 2)
    assert await run(memory, a_tool("change", effect_for=marks), decide=ask) == Done()
    assert memory.statuses() == [status]


async def test_l1_arguments_that_a_person_broke_do_not_run() -> None:
    memory = a_turn(a_call("change", '{"x": 1}'))
    waiting = await run(memory, a_tool("change"), decide=ask)
    assert isinstance(waiting, Waiting)
    resolve(memory, waiting, "allowed", arguments={"x": "two"})
    await run(memory, a_tool("change"), decide=ask)
    assert memory.statuses() == ["invalid"]


async def test_f1_an_approval_whose_base_moved_is_cancelled_and_asked_anew() -> None:
    base = ["b1"]
    change = a_tool("change", preview=lambda context, arguments: Preview(f"from {base[0]}", base[0]))
    memory = a_turn(a_call("change"))
    first = await run(memory, change, decide=ask)
    assert isinstance(first, Waiting)
    resolve(memory, first, "allowed")
    base[0] = "b2"
    second = await run(memory, change, decide=ask)
    assert isinstance(second, Waiting)
    assert second != first
    assert memory.of("tool.approval_resolved")[-1].outcome == "cancelled"  # type: ignore[attr-defined]
    assert memory.of("tool.approval_resolved")[-1].approval_id == first.approvals[0]  # type: ignore[attr-defined]
    assert memory.state.pending_approvals[0].base == "b2"
    assert not memory.of("tool.call.running")
    resolve(memory, second, "allowed")
    assert await run(memory, change, decide=ask) == Done()
    assert memory.statuses() == ["ok"]


async def test_f1_a_deny_that_came_meanwhile_beats_the_approval() -> None:
    memory = a_turn(a_call("change"))
    waiting = await run(memory, a_tool("change"), decide=ask)
    assert isinstance(waiting, Waiting)
    resolve(memory, waiting, "allowed")
    await run(memory, a_tool("change"), decide=deny)
    assert memory.statuses() == ["denied"]


async def test_a_call_that_would_fail_asks_nobody() -> None:
    stale = a_tool("change", preview=lambda context, arguments: Outcome("error", (TextPart(text="stale"),)))
    memory = a_turn(a_call("change"))
    assert await run(memory, stale, decide=ask) == Done()
    assert memory.statuses() == ["error"]
    assert not memory.of("tool.approval_required")


@pytest.mark.parametrize(
    ("marks", "status", "reran"),
    [
        ({"effect": "read"}, "ok", True),
        ({"effect": "write", "idempotent": True}, "ok", True),
        ({"effect": "write"}, "outcome_unknown", False),
        ({"effect": "write", "concurrency_safe": True}, "outcome_unknown", False),
    ],
)
async def test_f2_a_call_in_flight_is_rerun_only_if_that_is_harmless(
    marks: dict[str, object], status: str, reran: bool
) -> None:
    memory = a_turn(a_call("work"))
    keys: list[str] = []

    async def note(context: ToolContext, arguments: JsonObject) -> Outcome:
        keys.append(context.idempotency_key)
        return succeeded("")

    class Killed(BaseException):
        pass

    async def killed(context: ToolContext, arguments: JsonObject) -> Outcome:
        keys.append(context.idempotency_key)
        raise Killed

    with pytest.raises(Killed):
        await run(memory, a_tool("work", killed, **marks))
    assert memory.calls[0].status == "running"
    memory.state = State.model_validate_json(memory.state.model_dump_json())
    assert await run(memory, a_tool("work", note, **marks)) == Done()
    assert memory.statuses() == [status]
    assert [event.rerun for event in memory.of("tool.call.running")] == [False, *([True] if reran else [])]  # type: ignore[attr-defined]
    assert len(set(keys)) == 1
    assert len(keys) == (2 if reran else 1)
    if not reran:
        assert "check before repeating" in text_of(memory.calls[0])


async def test_f2_a_writer_in_flight_whose_tool_is_gone_is_still_unknown() -> None:
    memory = a_turn(a_call("work"))
    memory.record(ToolCallCreated(tool_call_id="call_work", tool_name="work", arguments={}))
    memory.record(ToolCallRunning(tool_call_id="call_work"))
    assert await run(memory) == Done()
    assert memory.statuses() == ["outcome_unknown"]


async def test_f5_a_tool_that_takes_too_long_is_ended() -> None:
    memory = a_turn(a_call("slow"))

    async def for_ever(context: ToolContext, arguments: JsonObject) -> Outcome:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(5):
        await run(memory, a_tool("slow", for_ever, timeout=0.05))
    assert memory.statuses() == ["timeout"]


async def test_f5_the_deadline_of_the_run_bounds_every_tool() -> None:
    memory = a_turn(a_call("slow"))

    async def for_ever(context: ToolContext, arguments: JsonObject) -> Outcome:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(5):
        await run(memory, a_tool("slow", for_ever), context_for=lambda call: replace(no_context(call), deadline=0.0))
    assert memory.statuses() == ["timeout"]


async def test_f5_after_a_stop_no_further_call_starts_and_each_has_a_result() -> None:
    memory = a_turn(a_call("one"), a_call("two"), a_call("three"))
    stop: list[bool] = []

    async def stops(context: ToolContext, arguments: JsonObject) -> Outcome:
        stop.append(True)
        return succeeded("one is done")

    tools = (a_tool("one", stops), a_tool("two"), a_tool("three"))
    assert await run(memory, *tools, stopping=lambda: bool(stop)) == Done()
    assert memory.statuses() == ["ok", "cancelled", "cancelled"]
    assert len(memory.of("tool.call.running")) == 1


async def test_f5_a_running_call_is_cancelled_on_record_and_the_cancellation_goes_on() -> None:
    memory = a_turn(a_call("one"), a_call("two"), a_call("three"))
    started = anyio.Event()
    stop: list[bool] = []

    async def for_ever(context: ToolContext, arguments: JsonObject) -> Outcome:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    tools = (a_tool("one", for_ever, effect="read"), a_tool("two", for_ever, effect="read"), a_tool("three"))
    went_on = []

    async def turn() -> None:
        await run(memory, *tools, stopping=lambda: bool(stop))
        went_on.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await started.wait()
        stop.append(True)
        group.cancel_scope.cancel()
    assert memory.statuses() == ["cancelled"] * 3
    assert not went_on


async def test_f2_a_shutdown_leaves_calls_as_they_are_for_whoever_takes_them_up() -> None:
    memory = a_turn(a_call("one"))
    started = anyio.Event()

    async def for_ever(context: ToolContext, arguments: JsonObject) -> Outcome:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def turn() -> None:
        await run(memory, a_tool("one", for_ever))

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await started.wait()
        group.cancel_scope.cancel()
    assert memory.statuses() == []
    assert await run(memory, a_tool("one")) == Done()
    assert memory.statuses() == ["outcome_unknown"]


async def test_f1_a_stop_withdraws_what_waits_for_a_person() -> None:
    memory = a_turn(a_call("change"))
    await run(memory, a_tool("change"), decide=ask)
    assert await run(memory, a_tool("change"), decide=ask, stopping=lambda: True) == Done()
    assert memory.statuses() == ["cancelled"]
    assert memory.of("tool.approval_resolved")[0].outcome == "cancelled"  # type: ignore[attr-defined]
    assert memory.state.pending_approvals == ()


async def test_whatever_a_tool_raises_is_the_result_of_that_call_alone() -> None:
    memory = a_turn(a_call("bad"), a_call("good"))

    async def bad(context: ToolContext, arguments: JsonObject) -> Outcome:
        raise LookupError("no such thing")

    await run(memory, a_tool("bad", bad, effect="read"), a_tool("good", effect="read"))
    assert memory.statuses().count("ok") == 1
    assert text_of(memory.calls[0]) == "bad failed: LookupError: no such thing"


async def test_a_journal_that_cannot_be_written_is_no_result() -> None:
    memory = a_turn(a_call("one"), a_call("two"))

    async def full(context: ToolContext, arguments: JsonObject) -> Outcome:
        raise StorageError("the disk is full")

    with pytest.raises(StorageError):
        await run(memory, a_tool("one", full, effect="read"), a_tool("two", effect="read"))


async def test_readers_run_together() -> None:
    memory = a_turn(*(a_call("look", id=f"call_{n}") for n in range(4)))
    here = 0
    all_here = anyio.Event()

    async def meet(context: ToolContext, arguments: JsonObject) -> Outcome:
        nonlocal here
        here += 1
        if here == 4:
            all_here.set()
        await all_here.wait()
        return succeeded("")

    with anyio.fail_after(5):
        await run(memory, a_tool("look", meet, effect="read"))
    assert memory.statuses() == ["ok"] * 4


async def test_hooks_stand_before_and_after_the_effect() -> None:
    memory = a_turn(a_call("work"))

    async def work(context: ToolContext, arguments: JsonObject) -> Outcome:
        memory.order.append("effect")
        return succeeded("plain")

    async def before(ready: Ready, context: ToolContext) -> None:
        memory.order.append(f"before {ready.tool.name}")

    async def after(ready: Ready, context: ToolContext, outcome: Outcome) -> Outcome:
        return succeeded(f"{text(outcome)} and checked")

    await run(memory, a_tool("work", work), before=[before], after=[after])
    assert memory.order[4:] == ["before work", "tool.call.running", "barrier", "effect", "tool.call.completed"]
    assert text_of(memory.calls[0]) == "plain and checked"


async def test_events_of_a_tool_are_recorded_with_its_result() -> None:
    todos = {"todos": [{"text": "boil water", "status": "active"}]}
    memory = a_turn(a_call("todo", json.dumps(todos)))
    await run(memory, todo_tool())
    assert memory.order[-2:] == ["todo.updated", "tool.call.completed"]
    assert [(todo.text, todo.status) for todo in memory.state.todos] == [("boil water", "active")]
    assert memory.of("todo.updated")[0].run_id == "run_1"


async def test_output_streams_with_its_place() -> None:
    async def speak(context: ToolContext, arguments: JsonObject) -> Outcome:
        context.delta("one ")
        context.delta("two")
        return succeeded("")

    memory = a_turn(a_call("speak"))
    await run(memory, a_tool("speak", speak))
    assert [(delta.offset, delta.text) for delta in memory.deltas] == [(0, "one "), (4, "two")]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ok", "raises", "slow", "unknown", "invalid"]),
            st.sampled_from(["read", "write"]),
            st.sampled_from(["allow", "deny", "ask"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 8),
    st.sampled_from(["allowed", "denied", "expired", "cancelled"]),
)
@settings(max_examples=80, deadline=None)
def test_f4_every_call_has_one_adjacent_result(plan: list[tuple[str, str, str]], stop_after: int, answer: str) -> None:
    async def story() -> Memory:
        calls = [
            a_call(f"tool{n}" if how != "unknown" else "nowhere", "{" if how == "invalid" else "{}", f"call_{n}")
            for n, (how, _, _) in enumerate(plan)
        ]
        memory = a_turn(*calls)

        def body(how: str) -> object:
            async def act(context: ToolContext, arguments: JsonObject) -> Outcome:
                if how == "raises":
                    raise ValueError(how)
                if how == "slow":
                    await anyio.sleep_forever()
                return succeeded(how)

            return act

        tools = [
            a_tool(f"tool{n}", body(how), effect=effect, timeout=0.01)  # type: ignore[arg-type]
            for n, (how, effect, _) in enumerate(plan)
        ]
        verdicts = {f"tool{n}": verdict for n, (_, _, verdict) in enumerate(plan)}

        async def decide(call: GateCall) -> Decision:
            return Decision(verdict=verdicts[call.tool], reason="")  # type: ignore[arg-type]

        def stopping() -> bool:
            return len(memory.of("tool.call.running")) >= stop_after

        outcome = await run(memory, *tools, decide=decide, stopping=stopping)
        while isinstance(outcome, Waiting):
            for approval in memory.state.pending_approvals:
                memory.record(
                    ToolApprovalResolved(
                        approval_id=approval.id,
                        tool_call_id=approval.tool_call_id,
                        outcome=answer,  # type: ignore[arg-type]
                    )
                )
            outcome = await run(memory, *tools, decide=decide, stopping=stopping)
        return memory

    memory = anyio.run(story)
    messages = list(memory.state.messages)
    assert isinstance(messages[0], AssistantMessage)
    assert [m.tool_call_id for m in messages[1:] if isinstance(m, ToolMessage)] == [
        f"call_{n}" for n in range(len(plan))
    ]
    assert len(memory.of("tool.call.completed")) == len(plan)


async def test_tools_that_were_found_are_on_record_for_the_session() -> None:
    tools = [a_tool(f"tool{n:02}") for n in range(20)]
    memory = a_turn(a_call("find_tools", '{"query": "tool18"}'), a_call("find_tools", '{"query": "nothing"}', "call_2"))
    await run(memory, *tools)
    assert memory.state.toolkit.found == ("tool18",)
    assert memory.statuses() == ["ok", "ok"]


async def test_f5_what_was_finished_is_kept_even_if_a_hook_is_cancelled() -> None:
    memory = a_turn(a_call("work"))
    reached = anyio.Event()

    async def slow_hook(ready: Ready, context: ToolContext, outcome: Outcome) -> Outcome:
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def turn() -> None:
        await run(memory, a_tool("work"), after=[slow_hook])

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        await reached.wait()
        group.cancel_scope.cancel()
    assert memory.statuses() == ["ok"]
