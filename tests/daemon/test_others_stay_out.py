"""P4: what belongs to one agent, one user or one session never stands in the request of another."""

import random
import re
from pathlib import Path

import anyio
import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.session import Accepted, Session
from harnessd.errors import HarnessdError
from harnessd.facts.control import Invoke
from harnessd.models.script import Answer, Call, Request
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import make_home, make_settings, write

AGENTS = ("ada", "bob")
USERS = (None, "alice", "zoe")
ROUNDS = 4


def words(request: Request) -> str:
    return str(request.body["messages"]) + str(request.body.get("tools"))


def owner_of(request: Request) -> str:
    found = re.search(r"I-am-([a-z]+\.[A-Za-z]+\.\d)", words(request))
    assert found
    return found[1]


async def test_p4_no_canary_crosses_over_interleaved_calls(tmp_path: Path) -> None:
    """Two agents, three users each, two sessions for each: all at work at once, all remembering and being edited."""

    def answer(request: Request) -> Answer:
        owner = owner_of(request)
        agent, user, _ = owner.split(".")
        last = request.body["messages"][-1]
        if last["role"] == "tool" or chance.random() < 0.3:
            return Answer(f"done by CANARY-session-{owner}")
        step = f"number {chance.randrange(10**9)}"
        path = f"skills/s-{agent}-{chance.randrange(3)}/SKILL.md"
        body = f"---\nname: s\ndescription: CANARY-agent-{agent} {step}\n---\nCANARY-agent-{agent}\n"
        remembered = f"CANARY-agent-{agent} {step}" if user == "None" else f"CANARY-user-{agent}.{user} {step}"
        asked = [
            Call("remember", {"text": remembered}),
            Call("todo", {"todos": [{"text": f"CANARY-session-{owner} {step}", "status": "open"}]}),
            Call("read", {"path": chance.choice(["users", ".", "users/zoe/MEMORY.md", "agents", "skills"])}),
            Call("write", {"path": path, "content": body}),
        ]
        return Answer(calls=tuple(chance.sample(asked, 2)))

    chance = random.Random(4711)
    async with ScriptedServer(answer) as server:
        settings = make_settings(tmp_path, server.url)
        homes = {name: make_home(settings, name) for name in AGENTS}
        for name, home in homes.items():
            write(home.path / "KNOWLEDGE.md", f"CANARY-agent-{name}\n")
            for user in ("alice", "zoe"):
                write(home.path / f"users/{user}/MEMORY.md", f"- CANARY-user-{name}.{user}\n")
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            sessions: dict[str, Session] = {}
            for name in AGENTS:
                for user in USERS:
                    for number in range(2):
                        opened = await runtime.session(homes[name], user_id=user)
                        sessions[f"{name}.{user}.{number}"] = opened

            async def talk(owner: str, session: Session) -> None:
                name, user, _ = owner.split(".")
                for turn in range(ROUNDS):
                    said = await session.control(Invoke(input=f"I-am-{owner} CANARY-session-{owner} turn {turn}"))
                    assert isinstance(said, Accepted)
                    if user != "None" and turn % 4 == 1:
                        memory = homes[name].path / f"users/{user}/MEMORY.md"
                        memory.write_text(f"{memory.read_text()}- CANARY-user-{name}.{user} by hand {turn}\n")
                    await session.idle()

            async with anyio.create_task_group() as group:
                for owner, session in sessions.items():
                    group.start_soon(talk, owner, session)
        requests = server.requests
    assert len(requests) >= len(sessions) * ROUNDS
    for request in requests:
        text = words(request)
        owner = owner_of(request)
        agent, user, _ = owner.split(".")
        own = {f"session-{owner}", f"agent-{agent}", f"user-{agent}.{user}"}
        seen = set(re.findall(r"CANARY-((?:session|agent|user)-[a-zA-Z0-9.]+)", text))
        assert seen <= own, (owner, seen - own)
        for other in {"alice", "zoe"} - {user}:
            named = text.replace("users/zoe/MEMORY.md", "")  # the model itself asks for that file
            assert other not in named, (owner, re.findall(f".{{0,80}}{other}.{{0,40}}", named))


@pytest.mark.parametrize("user", ["", "..", "../bob", "a/b", "a\\b", "Zoe", "zoe\n", "zoe\0", "z" * 65, ".git", '"><x'])
async def test_p4_a_user_id_is_a_name(tmp_path: Path, user: str) -> None:
    async with ScriptedServer([Answer("x")]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            with pytest.raises(HarnessdError, match="user id"):
                await runtime.session(home, user_id=user)
    assert not list(home.path.glob("agents/*/sessions/*.jsonl"))


async def test_p4_a_change_of_one_users_memory_is_told_to_that_user_alone(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.body["messages"][-1]["role"] == "tool":
            return Answer("done")
        write(home.path / "users/zoe/MEMORY.md", "- CANARY likes tea\n")
        return Answer(calls=(Call("read", {"path": "AGENTS.md"}),))

    for_whom: dict[str, str] = {}
    for user in ("zoe", "alice", "nobody"):
        async with ScriptedServer(answer) as server:
            settings = make_settings(tmp_path / user, server.url)
            home = make_home(settings)
            async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
                session = await runtime.session(home, user_id=None if user == "nobody" else user)
                await session.control(Invoke(input="go"))
                await session.idle()
            for_whom[user] = words(server.requests[-1])
    assert "CANARY likes tea" in for_whom["zoe"]
    for other in ("alice", "nobody"):
        assert "CANARY" not in for_whom[other]
        assert "zoe" not in for_whom[other]
