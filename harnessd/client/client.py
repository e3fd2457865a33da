"""Everything the daemon's API can do, as methods with typed answers."""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread
from pydantic import ValidationError

from harnessd.client.answers import (
    Accepted,
    Agent,
    AgentPortrait,
    Refused,
    SessionPage,
    Snapshot,
    TranscriptPage,
    WaitingApproval,
)
from harnessd.client.connection import SILENCE, Connection, Unreachable, parsed
from harnessd.client.find import Address, Places, read_address
from harnessd.client.follow import Following
from harnessd.client.problem import Problem
from harnessd.client.session import RemoteSession
from harnessd.errors import HarnessdError, SessionNotFound, StorageError
from harnessd.facts.base import Record
from harnessd.facts.control import Continue, Invoke, Reload, Resume, Stop, UpdateState
from harnessd.facts.message import JsonObject

PATIENCE = 20.0
PIECE = 256 * 1024

Shape = TypeVar("Shape", bound=Record)

__all__ = ["Client", "Unreachable"]


class Client:
    """One client of one daemon. Every method raises `Unreachable`, or the `HarnessdError` that a problem stands for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        where: Places | Address,
        *,
        env: Mapping[str, str] | None = None,
        patience: float | None = PATIENCE,
        silence: float = SILENCE,
    ) -> AsyncIterator["Client"]:
        """A client while the block runs: of the daemon of these settings, wherever it moves, or of that address.

        `patience` is how many seconds it waits for a daemon that it has reached once and that went away, None for
        ever; `silence` after how many one that says nothing at all counts as gone.
        """
        environment = os.environ if env is None else env

        async def locate() -> Address | None:
            if isinstance(where, Address):
                return where
            return await anyio.to_thread.run_sync(read_address, where.state_dir, environment)

        async with Connection.open(locate, patience, silence) as connection:
            yield cls(connection)

    @property
    def address(self) -> Address:
        """Where the daemon is, as far as is known."""
        return self._connection.address

    async def health(self) -> bool:
        """Whether the daemon lives and is ready."""
        return not isinstance(await self._connection.ask("GET", "/readyz"), Problem)

    async def agents(self) -> tuple[Agent, ...]:
        """Every agent."""
        return _read(_Agents, await self._connection.body("GET", "/api/agents")).agents

    async def portrait(self, agent: str) -> AgentPortrait:
        """What one would say of the agent at a glance."""
        return _read(AgentPortrait, await self._connection.body("GET", _path(agent)))

    async def create_agent(self, name: str, *, template: str | None = None) -> AgentPortrait:
        """A new agent, from a template."""
        body: JsonObject = {"name": name} | ({"template": template} if template else {})
        return _read(AgentPortrait, await self._connection.body("POST", "/api/agents", json=body))

    async def sessions(self, agent: str, *, before: str | None = None, limit: int | None = None) -> SessionPage:
        """Sessions of the agent, newest first: all of them, or those that began before the session `before`."""
        query = _query(before=before, limit=limit)
        return _read(SessionPage, await self._connection.body("GET", _path(agent, "sessions"), query=query))

    async def create_session(
        self, agent: str, *, user_id: str | None = None, title: str | None = None, model: str | None = None
    ) -> str:
        """The id of a new session."""
        asked = {"userId": user_id, "title": title, "model": model}
        body: JsonObject = {name: value for name, value in asked.items() if value is not None}
        return str(parsed(await self._connection.body("POST", _path(agent, "sessions"), json=body))["sessionId"])

    async def delete_session(self, agent: str, session_id: str) -> None:
        """Deletes the session with those of its subagents."""
        await self._connection.body("DELETE", _path(agent, "sessions", session_id))

    async def session(self, agent: str, session_id: str) -> Snapshot:
        """What is true in the session now, and what a screen shows of it."""
        return _read(Snapshot, await self._connection.body("GET", _path(agent, "sessions", session_id)))

    async def transcript(
        self, agent: str, session_id: str, *, before: int | None = None, limit: int | None = None
    ) -> TranscriptPage:
        """Part of the history as messages: the last ones, or those below seq `before`."""
        query = _query(before=before, limit=limit)
        path = _path(agent, "sessions", session_id, "transcript")
        return _read(TranscriptPage, await self._connection.body("GET", path, query=query))

    async def control(
        self, agent: str, session_id: str, control: Invoke | Resume | Continue | Stop | UpdateState | Reload
    ) -> Accepted | Refused:
        """Carries out one control; what it changed is on the daemon's disk before this returns.

        It is never sent a second time if it may have arrived: then `Unreachable` says that nobody knows.
        """
        body = control.model_dump(mode="json", exclude_unset=True) | {"control": control.control}
        answer = await self._connection.ask("POST", _path(agent, "sessions", session_id, "control"), json=body)
        if isinstance(answer, Problem):
            if not answer.refusal:
                raise answer.error()
            return Refused(answer.status, answer.detail, answer.current, answer.hint)
        said = _read(_Carried, answer)
        return Accepted(said.run_id, said.seq, said.waiting_for, said.portrait)

    async def quiet(self, agent: str, session_id: str) -> int:
        """Waits until nothing runs in the session, and gives the seq of its last fact. Raises what broke it."""
        path = _path(agent, "sessions", session_id, "quiet")
        async with self._connection.answer("GET", path, silent=True) as answer:
            if not isinstance(answer, Problem):
                return _read(_Quiet, await answer.read()).seq
            raise Unreachable(answer.detail, hint=answer.hint) if answer.passing else answer.error()

    async def approvals(self) -> tuple[WaitingApproval, ...]:
        """Everything that waits for a person, of all agents and subagents, oldest first."""
        return _read(_Approvals, await self._connection.body("GET", "/api/approvals")).approvals

    async def artifact(self, agent: str, session_id: str, artifact_id: str, to: Path) -> str:
        """Writes the artifact to the file `to` and returns its SHA-256, which is that of the record.

        The file appears whole or not at all. Raises `HarnessdError` if the content is not what was recorded.
        """
        known = (await self.session(agent, session_id)).state.artifact_refs
        expected = next((ref.sha256 for ref in known if ref.id == artifact_id), None)
        path = _path(agent, "sessions", session_id, "artifacts", artifact_id)
        part = to.with_name(f".{to.name}.{os.getpid()}.part")
        digest = hashlib.sha256()
        try:
            async with self._connection.answer("GET", path, endless=True) as answer:
                if isinstance(answer, Problem):
                    raise answer.error()
                async for piece in answer.content.iter_chunked(PIECE):
                    digest.update(piece)
                    await anyio.to_thread.run_sync(_append, part, piece)
                await anyio.to_thread.run_sync(_append, part, b"")
            if expected and digest.hexdigest() != expected:
                raise HarnessdError(
                    f"what arrived is not the artifact {artifact_id}: its hash is another", where=str(to)
                )
            await anyio.to_thread.run_sync(_move, part, to)
        finally:
            part.unlink(missing_ok=True)
        return digest.hexdigest()

    def follow(
        self, agent: str, session_id: str, after: int = 0, *, away: Callable[[bool], None] | None = None
    ) -> Following:
        """Every event of the session above seq `after`, then what comes, with deltas; close it when done.

        `away` is told when the daemon cannot be reached (True) and when it is there again (False).
        """
        path = _path(agent, "sessions", session_id, "events")
        return Following(self._connection, path, after, away=away)

    @asynccontextmanager
    async def open_session(
        self,
        agent: str,
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        model: str | None = None,
        away: Callable[[bool], None] | None = None,
    ) -> AsyncIterator[RemoteSession]:
        """A session to work with while the block runs: that one (`last`: the newest), or a new one.

        `away` is told when the daemon cannot be reached (True) and when it is there again (False).
        """
        if session_id == "last":
            found = (await self.sessions(agent)).sessions
            if not found:
                raise SessionNotFound("this agent has no session yet", where=agent, hint="leave --session out")
            session_id = max(found, key=lambda one: one.last_at).session_id
        if session_id is None:
            session_id = await self.create_session(agent, user_id=user_id, model=model)
        snapshot = await self.session(agent, session_id)
        async with RemoteSession.open(self, agent, session_id, snapshot.state, away) as session:
            yield session


class _Agents(Record):
    agents: tuple[Agent, ...] = ()


class _Approvals(Record):
    approvals: tuple[WaitingApproval, ...] = ()


class _Quiet(Record):
    seq: int = 0


class _Carried(Record):
    run_id: str | None = None
    seq: int = 0
    waiting_for: tuple[str, ...] = ()
    portrait: AgentPortrait | None = None


def _path(agent: str, *parts: str) -> str:
    return "/".join(("/api/agents", *(quote(part, safe="") for part in (agent, *parts))))


def _append(path: Path, piece: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(piece)
    except OSError as error:
        raise StorageError(f"cannot be written: {error.strerror}", where=str(path.parent)) from None


def _move(path: Path, to: Path) -> None:
    try:
        path.replace(to)
    except OSError as error:
        raise StorageError(f"cannot be written: {error.strerror}", where=str(to)) from None


def _query(**asked: object) -> dict[str, str]:
    return {name: str(value) for name, value in asked.items() if value is not None}


def _read(kind: type[Shape], body: bytes) -> Shape:
    """The answer as that record; raises `HarnessdError` if it is something else."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise HarnessdError(
            f"the daemon's answer cannot be read: {place}: {first['msg']}", hint="are client and daemon one version?"
        ) from None
