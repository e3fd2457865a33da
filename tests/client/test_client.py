"""The client: each endpoint as a method, refusals as values, problems as the errors they stand for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from harnessd.api.app import make_app
from harnessd.api.door import Door
from harnessd.api.keys import LISTENERS
from harnessd.api.listen import Addresses, listening
from harnessd.api.listeners import Listeners
from harnessd.client.answers import Accepted, Refused
from harnessd.client.client import Client, Unreachable
from harnessd.client.find import Address
from harnessd.client.session import RemoteSession, is_quiet
from harnessd.errors import Conflict, HomeNotFound, InvalidName, SessionNotFound, StorageError, UsageError
from harnessd.facts.control import Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.event import AssistantTextDelta, Event, ToolApprovalResolved
from harnessd.facts.message import text_of
from harnessd.journal.bus import Cut
from harnessd.journal.file import Disk
from harnessd.models.script import Answer, Call, Request, Script
from tests.api.served import TOKEN, a_write
from tests.client.proxy import bad_line
from tests.client.quiet_cases import CASES
from tests.daemon.living import Living, living
from tests.journal.desk import FailingDisk


class Joined:
    """A client and the daemon behind it."""

    def __init__(self, living: Living, at: Addresses, client: Client, listeners: Listeners) -> None:
        self.living = living
        self.listeners = listeners
        self.at = at
        self.client = client

    @property
    def socket(self) -> Path:
        assert self.at.socket is not None
        return self.at.socket

    async def server_state(self, session_id: str) -> str:
        async with self.living.runtime.visit(self.living.home, session_id) as session:
            return session.state.model_dump_json()


@asynccontextmanager
async def connected(base: Path, script: Script | None = None, disk: Disk | None = None) -> AsyncIterator[Joined]:
    async with living(base, script or [Answer("Hello.")], disk=disk) as alive:
        app = make_app(alive.runtime, Door(TOKEN))
        socket = base / "state" / "d.sock"
        async with (
            listening(app, "127.0.0.1", 0, socket) as at,
            Client.connect(Address(f"http://127.0.0.1:{at.port}", TOKEN, socket)) as client,
        ):
            yield Joined(alive, at, client, app[LISTENERS])


async def test_every_endpoint_has_its_method(tmp_path: Path) -> None:
    async with connected(tmp_path) as on:
        client = on.client
        assert await client.health()
        assert [agent.name for agent in await client.agents()] == ["ada"]
        assert (await client.portrait("ada")).agent == "ada"
        assert (await client.create_agent("eve")).agent == "eve"
        assert [agent.name for agent in await client.agents()] == ["ada", "eve"]
        with pytest.raises(Conflict):
            await client.create_agent("eve")
        made = [await client.create_session("ada", title=f"session {number}") for number in range(3)]
        listed = (await client.sessions("ada")).sessions
        assert [(one.session_id, one.title) for one in listed] == [
            (session_id, f"session {number}") for number, session_id in reversed(list(enumerate(made)))
        ]
        page = await client.sessions("ada", limit=2)
        assert [one.session_id for one in page.sessions] == [made[2], made[1]]
        assert page.next is not None
        assert [one.session_id for one in (await client.sessions("ada", before=page.next)).sessions] == [made[0]]
        answer = await client.control("ada", made[0], Invoke(input="hello"))
        assert isinstance(answer, Accepted)
        assert answer.run_id is not None
        async with client.follow("ada", made[0]) as items:
            async for item in items:
                if isinstance(item, Event) and item.type == "run.finished":
                    break
        transcript = await client.transcript("ada", made[0])
        assert "Hello." in str(transcript.messages)
        assert await client.approvals() == ()
        reloaded = await client.control("ada", made[0], Reload())
        assert isinstance(reloaded, Accepted)
        assert reloaded.portrait is not None
        assert reloaded.portrait.agent == "ada"


@pytest.mark.parametrize(
    ("agent", "session_id", "error"),
    [
        ("nobody", "ses_01kbc3fqz-0000000", HomeNotFound),
        ("../ada", "ses_01kbc3fqz-0000000", UsageError),
        ("ada/sessions", "ses_01kbc3fqz-0000000", UsageError),
        ("", "ses_01kbc3fqz-0000000", UsageError),
        ("ada", "ses_01kbc3fqz-0000000", SessionNotFound),
        ("ada", "../../etc", InvalidName),
        ("ada", "?x#y%", InvalidName),
    ],
)
async def test_what_is_not_there_is_an_error_that_says_so(
    tmp_path: Path, agent: str, session_id: str, error: type[Exception]
) -> None:
    async with connected(tmp_path) as on:
        for asking in (
            on.client.session(agent, session_id),
            on.client.control(agent, session_id, Stop()),
            on.client.transcript(agent, session_id),
            on.client.artifact(agent, session_id, "art_1", tmp_path / "x"),
            anext(on.client.follow(agent, session_id)),
        ):
            with pytest.raises(error):
                await asking
        assert not (tmp_path / "x").exists()


async def test_a_refused_control_is_a_value_with_what_stands_now(tmp_path: Path) -> None:
    async with connected(tmp_path, [a_write(), Answer("done")]) as on, on.client.open_session("ada") as session:
        refused = await session.control(Stop())
        assert isinstance(refused, Refused)
        assert refused.status == 409
        outdated = await session.control(Invoke(input="x", expected_seq=99))
        assert isinstance(outdated, Refused)
        assert outdated.current == session.state.seq
        unknown = await session.control(Resume(approval_id="apr_01kbc3fqz-0000000", decision="allow"))
        assert isinstance(unknown, Refused)
        assert unknown.status == 404
        bad = await session.control(UpdateState(patch={"messages": []}))
        assert isinstance(bad, Refused)
        assert bad.status == 400
        assert isinstance(await session.control(Invoke(input="write it")), Accepted)
        state = await session.idle()
        (approval,) = state.pending_approvals
        assert [one.approval for one in await on.client.approvals()] == [approval]
        races = [
            on.client.control("ada", session.session_id, Resume(approval_id=approval.id, decision="deny", note=str(n)))
            for n in range(8)
        ]
        answers = await asyncio.gather(*races)
        lost = [one for one in answers if isinstance(one, Refused)]
        assert len(lost) == 7
        for one in lost:
            assert one.status == 409
            assert isinstance(one.current, ToolApprovalResolved)
            assert one.current.approval_id == approval.id
        assert text_of((await session.idle()).messages[-1]) == "done"


async def test_a_patch_that_removes_arrives_as_it_was_meant(tmp_path: Path) -> None:
    async with connected(tmp_path) as on, on.client.open_session("ada") as session:
        await session.control(UpdateState(patch={"workspaceContext": {"a": 1, "b": 2}}))
        await session.control(UpdateState(patch={"workspaceContext": {"a": None}}))
        assert session.state.workspace_context == {"b": 2}


async def test_f6_a_remote_session_is_worked_with_like_one_of_this_process(tmp_path: Path) -> None:
    async with connected(tmp_path, [Answer("Once upon a time", piece=3), a_write(), Answer("never mind")]) as on:
        async with on.client.open_session("ada", user_id="bob") as session:
            assert (session.agent_id, session.state.user_id) == ("main", "bob")
            async with session.subscribe() as items:
                accepted = await session.control(Invoke(input="tell"))
                assert isinstance(accepted, Accepted)
                assert session.state.seq >= accepted.seq
                text, seqs = "", []
                async for item in items:
                    assert not isinstance(item, Cut)
                    if isinstance(item, AssistantTextDelta):
                        text = text[: item.offset] + item.text
                    elif isinstance(item, Event):
                        seqs.append(item.seq)
                        if item.type == "run.finished":
                            break
            assert seqs == list(range(1, len(seqs) + 1))
            assert text == "Once upon a time"
            state = await session.idle()
            assert text_of(state.messages[-1]) == "Once upon a time"
            assert isinstance(await session.control(Invoke(input="write")), Accepted)
            state = await session.idle()
            assert [approval.tool_name for approval in state.pending_approvals] == ["write"]
            waits = await session.control(Invoke(input="and then?"))
            assert isinstance(waits, Accepted)
            assert waits.run_id is None
            assert waits.waiting_for == tuple(approval.id for approval in state.pending_approvals)
            assert isinstance(await session.control(Stop(scope="session")), Accepted)
            state = await session.idle()
            assert state.active_run is None
            await session.control(UpdateState(patch={"title": "T"}))
            assert session.state.model_dump_json() == await on.server_state(session.session_id)
        async with on.client.open_session("ada", "last") as again:
            assert again.session_id == session.session_id
            pages = await pages_of(again, 7)
            assert [event.seq for event in pages] == list(range(1, again.state.seq + 1))


async def pages_of(session: RemoteSession, count: int) -> list[Event]:
    found: list[Event] = []
    before: int | None = None
    while page := await session.page(before, count):
        assert len(page) <= count
        found = [*page, *found]
        before = page[0].seq
    return found


async def test_an_error_in_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    async with connected(tmp_path) as on:
        with pytest.raises(StorageError, match="mine"):
            async with on.client.open_session("ada"):
                raise StorageError("mine")


async def test_a_deleted_session_is_told_to_who_watches_it(tmp_path: Path) -> None:
    async with connected(tmp_path) as on, on.client.open_session("ada") as session:
        await session.control(Invoke(input="hello"))
        state = await session.idle()
        await on.client.delete_session("ada", session.session_id)
        with pytest.raises(SessionNotFound):
            await session.reached(state.seq + 100)
        with pytest.raises(SessionNotFound):
            await session.control(Invoke(input="hello?"))


@pytest.mark.parametrize("kind", ["events", "view"])
async def test_f6_a_reader_that_takes_nothing_slows_no_run(tmp_path: Path, kind: str) -> None:
    """Turns with 20 KB of text each while the sockets of two readers are full; all are made."""
    long = "word " * 4_000
    turns = 40

    def answers(request: Request) -> Answer:
        asked = sum(message["role"] == "assistant" for message in request.body["messages"])
        return a_read(asked) if asked < turns else Answer("done")

    def a_read(number: int) -> Answer:
        return Answer(long, calls=(Call("todo", {"todos": [{"text": f"step {number}", "status": "open"}]}),), piece=400)

    async with connected(tmp_path, answers) as on:
        session_id = await on.client.create_session("ada")
        stalled = []
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(str(on.at.socket), limit=1024)
            path = f"/api/agents/ada/sessions/{session_id}/events?as={kind}"
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            writer.write(head.encode())
            await reader.readuntil(b"\n\n")
            stalled.append(writer)
        async with on.client.open_session("ada", session_id) as session:
            assert isinstance(await session.control(Invoke(input="go")), Accepted)
            async with asyncio.timeout(30):
                state = await session.idle()
        assert state.last_run is not None
        assert (state.last_run.reason, state.usage.turns) == ("completed", turns + 1)
        for writer in stalled:
            writer.transport.abort()


def test_quiet_is_what_needs_a_person_or_nothing() -> None:
    for name, state, quiet in CASES:
        assert is_quiet(state) is quiet, name


async def test_idle_ends_only_when_all_is_done_and_says_what_broke_the_session(tmp_path: Path) -> None:
    """Also what follows behind the end of the run is there, as in a session of this process."""
    disk = FailingDisk()
    script = [Answer("one"), Answer("two")]
    async with connected(tmp_path, script, disk) as on, on.client.open_session("ada") as session:
        await session.control(Invoke(input="hello"))
        state = await session.idle()
        async with on.living.runtime.visit(on.living.home, session.session_id) as there:
            assert there.quiet
            assert there.state.seq == state.seq
        disk.fails = {"write"}
        with pytest.raises(StorageError):
            await session.control(Invoke(input="hello?"))
        disk.fails = set()
        assert isinstance(await session.control(Invoke(input="hello!")), Accepted)
        assert text_of((await session.idle()).messages[-1]) == "two"


async def test_who_waits_for_a_daemon_that_is_stopped_by_a_signal_is_told(tmp_path: Path) -> None:
    """That it holds its answer back is no sign that it lives; the stream is."""
    script = [Answer("late", ends="hang")]
    async with connected(tmp_path, script) as on, bad_line(tmp_path / "p", on.socket, lambda: 1 << 30) as line:
        address = Address(on.client.address.url, TOKEN, line.path)
        with anyio.fail_after(10):
            async with Client.connect(address, patience=0.1, silence=0.3) as client, client.open_session("ada") as one:
                assert isinstance(await one.control(Invoke(input="hello")), Accepted)
                line.passes.clear()
                with pytest.raises(Unreachable, match="does not answer"):
                    await one.idle()


async def test_a_client_that_leaves_while_it_waits_keeps_nothing_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()
    async with connected(tmp_path, [Answer("late", release=release)]) as on, on.client.open_session("ada") as session:
        assert isinstance(await session.control(Invoke(input="hello")), Accepted)
        for _ in range(3):
            with anyio.move_on_after(0.05):
                await on.client.quiet("ada", session.session_id)
                pytest.fail("it is not quiet")
        while len(on.listeners) > 1:  # beside the stream; the daemon looks once a second whether they are still there
            await asyncio.sleep(0.05)
        release.set()
        assert text_of((await session.idle()).messages[-1]) == "late"
    assert [record for record in caplog.records if record.name.startswith("harnessd")] == []  # it is nobody's fault
