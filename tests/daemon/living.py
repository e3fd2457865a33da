"""What the tests of whole runs share: an agent in a home, a scripted model, and one call after another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.daemon.session import Accepted, Session
from harnessd.facts.control import Invoke
from harnessd.facts.event import Event
from harnessd.facts.message import JsonObject, text_of
from harnessd.facts.state import State
from harnessd.home.create import create
from harnessd.home.layout import Home
from harnessd.journal.file import Disk
from harnessd.models.script import Answer, Call, Request, Script
from harnessd.models.scripted import ScriptedServer


@dataclass
class Living:
    """A home with a runtime around it and a scripted model behind it."""

    runtime: Runtime
    home: Home
    server: ScriptedServer

    async def say(self, text: str, session: Session | None = None) -> tuple[Session, State]:
        """One message and everything that follows from it."""
        session = session or await self.runtime.session(self.home)
        answer = await session.control(Invoke(input=text))
        assert isinstance(answer, Accepted), answer
        return session, await session.idle()

    @property
    def requests(self) -> list[Request]:
        """What the model was sent."""
        return self.server.requests

    def prompt(self, at: int = -1) -> str:
        """The system message of a request."""
        return str(self.requests[at].body["messages"][0]["content"])

    def tools(self, at: int = -1) -> list[str]:
        """The names of the tools offered in a request."""
        return [tool["function"]["name"] for tool in self.requests[at].body.get("tools", [])]

    def said_to(self, at: int = -1) -> str:
        """Everything but the system message of a request, as text."""
        return "\n".join(str(message.get("content")) for message in self.requests[at].body["messages"][1:])


def make_settings(base: Path, server_url: str, **more: object) -> Settings:
    return load_settings(
        {
            "workspaces": base / "workspaces",
            "state_dir": base / "state",
            "model": "openai/scripted",
            "api_base": f"{server_url}/v1",
            **more,
        },
        env={"HOME": str(base)},
    )


def make_home(settings: Settings, name: str = "ada", **files: str) -> Home:
    """A home made here; `files` by path with `/` written as `__` and `.` as in the name."""
    from harnessd.home.trust import TrustStore

    path = settings.workspaces / name
    create(path, trust=TrustStore(settings.state_dir))
    for key, text in files.items():
        write(path / key.replace("__", "/"), text)
    return Home(path)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@asynccontextmanager
async def living(
    base: Path, script: Script, *, disk: Disk | None = None, settings: dict[str, object] | None = None, **files: str
) -> AsyncIterator[Living]:
    async with ScriptedServer(script) as server:
        chosen = make_settings(base, server.url, **(settings or {}))
        home = make_home(chosen, **files)
        async with Runtime.open(chosen, {"OPENAI_API_KEY": "test-key"}, disk=disk) as runtime:
            yield Living(runtime, home, server)


def call(name: str, **arguments: object) -> Answer:
    """An answer that asks for one tool."""
    return Answer(calls=(Call(name, dict(arguments)),))


def results(state: State) -> list[tuple[str, str]]:
    """The status and text of each tool result in the context."""
    return [(m.status, text_of(m)) for m in state.messages if m.role == "tool"]


def events(session: Session) -> list[Event]:
    """The session's journal as it stands on disk."""
    return list(session.journal())


def last_text(state: State) -> str:
    return text_of(state.messages[-1])


Arguments = JsonObject
