"""Agents and sessions over HTTP: made, listed in pages, shown as they are on disk; a broken one hides no other."""

import asyncio
from pathlib import Path

from harnessd.facts.fold import fold
from harnessd.facts.state import State
from harnessd.facts.view import view
from harnessd.models.script import Answer, Silence
from tests.api.served import a_write, served


async def test_an_agent_is_made_listed_and_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        made = await door.ask("POST", "/api/agents", {"name": "bob"})
        assert made.status == 201
        assert made.headers["location"] == "/api/agents/bob"
        assert made.json["agent"] == "bob"
        assert made.json["problems"] == []
        listed = await door.ask("GET", "/api/agents")
        assert listed.json["agents"] == [{"name": "ada", "waiting": 0}, {"name": "bob", "waiting": 0}]
        shown = await door.ask("GET", "/api/agents/bob")
        assert shown.json["sessions"] == shown.json["waiting"] == 0
        assert shown.json["pin"] == made.json["pin"]
        again = await door.ask("POST", "/api/agents", {"name": "bob"})
        assert (again.status, again.kind) == (409, "conflict")
        assert door.living.runtime.trust.is_trusted(door.living.runtime.home("bob"), "")


async def test_of_many_that_make_one_agent_at_once_one_does(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        replies = await asyncio.gather(*(door.ask("POST", "/api/agents", {"name": "bob"}) for _ in range(8)))
        assert sorted(reply.status for reply in replies) == [201] + [409] * 7
        assert (await door.ask("GET", "/api/agents/bob")).json["problems"] == []


async def test_a_file_in_the_way_of_a_new_agent_is_left_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        workspaces = door.living.runtime.settings.workspaces
        (workspaces / "carl").write_text("mine")
        (workspaces / "dora").symlink_to(tmp_path / "nowhere")
        for name in ("carl", "dora"):
            assert (await door.ask("POST", "/api/agents", {"name": name})).status == 409
        assert (workspaces / "carl").read_text() == "mine"
        assert not (tmp_path / "nowhere").exists()


async def test_a_session_is_made_with_title_user_and_model(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        session_id = await door.session(title="Tea", userId="bob", model="openai/other")
        state = (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}")).json["state"]
        assert (state["title"], state["userId"], state["model"]) == ("Tea", "bob", "openai/other")
        assert (await door.ask("POST", "/api/agents/ada/sessions", {"userId": "../x"})).status == 400
        bare = await door.ask("POST", "/api/agents/ada/sessions")
        assert bare.status == 201
        assert bare.headers["location"] == f"/api/agents/ada/sessions/{bare.json['sessionId']}"
        assert (await door.ask("GET", bare.headers["location"])).status == 200


async def test_f6_a_snapshot_is_the_fold_of_what_is_on_disk(tmp_path: Path) -> None:
    async with served(tmp_path, [a_write(), Answer("Done.")]) as door:
        session_id = await door.session()
        await door.say(session_id, "Go.")
        shown = (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}")).json
        async with door.living.runtime.visit(door.living.home, session_id) as session:
            folded = State()
            for event in session.journal():
                folded = fold(folded, event)
        assert State.model_validate(shown["state"]) == folded
        assert shown["seq"] == folded.seq == shown["view"]["seq"]
        assert shown["view"] == view(folded).model_dump(mode="json", exclude_none=True)


async def test_sessions_are_listed_the_newest_first_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        made = [await door.session(title=f"session {n}") for n in range(7)]
        found: list[str] = []
        query = "?limit=3"
        for _ in range(3):
            page = (await door.ask("GET", f"/api/agents/ada/sessions{query}")).json
            found += [entry["sessionId"] for entry in page["sessions"]]
            query = f"?limit=3&before={page.get('next')}"
        assert "next" not in page
        assert found == made[::-1]
        assert (await door.ask("GET", "/api/agents/ada")).json["sessions"] == 7
        first = (await door.ask("GET", "/api/agents/ada/sessions?limit=1")).json["sessions"][0]
        assert (first["title"], first["status"], first["lastSeq"]) == ("session 6", "quiet", 1)


async def test_the_list_says_how_each_session_stands(tmp_path: Path) -> None:
    async with served(tmp_path, [a_write(), Answer("Done."), Answer("Hello.")]) as door:
        waits = await door.session()
        await door.say(waits, "Write.")
        done = await door.session()
        await door.say(done, "Hello?")
        runtime, home = door.living.runtime, door.living.home
        for _ in range(2):  # the second time both are closed, and only their journals tell
            entries = (await door.ask("GET", "/api/agents/ada/sessions")).json["sessions"]
            assert {entry["sessionId"]: (entry["status"], entry["waiting"]) for entry in entries} == {
                waits: ("waiting", 1),
                done: ("completed", 0),
            }
            assert (await door.ask("GET", "/api/agents/ada")).json["waiting"] == 1
            assert (await door.ask("GET", "/api/agents")).json["agents"] == [{"name": "ada", "waiting": 1}]
            for session_id in (waits, done):
                await runtime.sessions.let_go((home.path, session_id))
        assert runtime.sessions.open() == ()


async def test_f9_an_unreadable_session_hides_no_other(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        good = await door.session(title="good")
        folder = door.living.home.sessions("main")
        broken = "ses_01kbc3fqz-7h2m9xw"
        (folder / f"{broken}.jsonl").write_bytes(b"\xff" * 100)
        (folder / "notes.jsonl").write_text("{}")
        entries = (await door.ask("GET", "/api/agents/ada/sessions")).json["sessions"]
        assert [entry["sessionId"] for entry in entries] == [good, broken]
        assert entries[1]["status"] == "unreadable"
        assert entries[1]["reason"]


async def test_f3_a_session_that_another_process_holds_is_locked_and_says_by_whom(tmp_path: Path) -> None:
    from harnessd.daemon.assemble import Runtime

    async with served(tmp_path) as door:
        async with Runtime.open(door.living.runtime.settings, {}) as other:
            held = (await other.session(door.living.home)).session_id
            reply = await door.ask("GET", f"/api/agents/ada/sessions/{held}")
            assert (reply.status, reply.kind) == (423, "locked")
            assert "pid" in reply.json["detail"] or "process" in reply.json["detail"]
        assert (await door.ask("GET", f"/api/agents/ada/sessions/{held}")).status == 200


async def test_an_agent_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    async with served(tmp_path) as door:
        (door.living.runtime.settings.workspaces / "plain").mkdir()
        for name, kind in (("eve", "home-not-found"), ("plain", "not-a-home")):
            for path in (f"/api/agents/{name}", f"/api/agents/{name}/sessions"):
                reply = await door.ask("GET", path)
                assert (reply.status, reply.kind) == (404, kind)
                assert "harnessd init" in reply.json["hint"]


async def test_a_deleted_session_is_gone_from_everywhere(tmp_path: Path) -> None:
    async with served(tmp_path, [a_write(content="a secret of tea"), Answer("Done.")]) as door:
        kept, session_id = await door.session(), await door.session()
        await door.say(session_id, "Write.")
        path = f"/api/agents/ada/sessions/{session_id}"
        gone = await door.ask("DELETE", path)
        assert (gone.status, gone.body) == (204, b"")
        for method, rest, body in (
            ("GET", "", None),
            ("GET", "/transcript", None),
            ("GET", "/events", None),
            ("POST", "/control", {"control": "invoke", "input": "Still there?"}),
            ("GET", "/artifacts/art_01kbc3fqz-7h2m9xw", None),
        ):
            reply = await door.ask(method, path + rest, body)
            assert (reply.status, reply.kind) == (404, "session-not-found"), (method, rest)
        assert (await door.ask("GET", "/api/approvals")).json == {"approvals": []}
        entries = (await door.ask("GET", "/api/agents/ada/sessions")).json["sessions"]
        assert [entry["sessionId"] for entry in entries] == [kept]
        assert not any(
            b"secret of tea" in file.read_bytes()
            for file in (door.living.home.path / "agents").rglob("*")
            if file.is_file()
        )


async def test_a_session_at_work_is_not_deleted_under_its_run(tmp_path: Path) -> None:
    async with served(tmp_path, [Silence()]) as door:
        session_id = await door.session()
        assert (await door.control(session_id, control="invoke", input="Go.")).status == 202
        refused = await door.ask("DELETE", f"/api/agents/ada/sessions/{session_id}")
        assert (refused.status, refused.kind) == (409, "conflict")
        assert (await door.ask("GET", f"/api/agents/ada/sessions/{session_id}")).status == 200
        assert (await door.control(session_id, control="stop")).status == 202
