"""What of a server's tools has the operator accepted, and what has changed since?

What a server says of its tools when a home uses it for the first time is accepted with it. A tool that says something
else later is held back, until `harnessd trust` shows the difference and accepts it. A tool that is new is offered, so
that servers may add tools while they run; but one of a remote server counts as a writer until it is accepted,
whatever it says of itself. Kept beside the record of trust, outside every home.
"""

import difflib
import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from harnessd.errors import StorageError
from harnessd.facts.base import Record
from harnessd.home.intent import write_whole
from harnessd.home.layout import Home
from harnessd.home.lock import home_lock
from harnessd.home.tools_file import StdioServer
from harnessd.tools.mcp import Server


class KnownServer(Record):
    """One server: what was accepted of it, tool → what it said of it, and what it says now where that differs."""

    identity: str = ""
    accepted: dict[str, str] = Field(default_factory=dict)
    waiting: dict[str, str] = Field(default_factory=dict)


class KnownServers(Record):
    """All servers of one home, by name."""

    servers: dict[str, KnownServer] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """Of a server's tools: those that `changed` and are held back, and those that are `new` and not believed."""

    changed: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Difference:
    """What waits for the operator: a tool of a server that says something else now, or is new."""

    server: str
    tool: str
    kind: Literal["changed", "new"]
    diff: str


def server_identity(server: Server) -> str:
    """A hash of what a server is: its command or URL. Another environment, header or limit makes no other server."""
    what = [server.command, *server.args, server.cwd] if isinstance(server, StdioServer) else [server.type, server.url]
    return hashlib.sha256(json.dumps(what).encode("utf-8", "surrogatepass")).hexdigest()


def accepted_tools(state_dir: Path, home: Home) -> "AcceptedTools":
    """The record of a home, known by its real path, in the operator's state directory."""
    digest = hashlib.sha256(str(home.path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return AcceptedTools(state_dir / "mcp" / f"{home.name[:80]}-{digest}.json")


class AcceptedTools:
    """The record of one home, at `path`. Its methods block and raise `StorageError` if it can't be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stamp(self) -> tuple[int, ...]:
        """Changes whenever the record does. One `stat`; never raises."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def judge(self, name: str, server: Server, said: Mapping[str, str]) -> Judged:
        """How the tools that a server lists now stand to what was accepted; a server's first list is accepted."""
        known = self._read().servers.get(name)
        judged, after = _judge(known, server, said)
        if after != known:
            with self._locked():
                whole = self._read()
                judged, after = _judge(whole.servers.get(name), server, said)
                self._write(whole.model_copy(update={"servers": whole.servers | {name: after}}))
        return judged

    def differences(self) -> tuple[Difference, ...]:
        """Everything that waits to be accepted, by server and tool."""
        return tuple(
            Difference(name, tool, "changed" if tool in known.accepted else "new", _diff(known.accepted.get(tool), now))
            for name, known in sorted(self._read().servers.items())
            for tool, now in sorted(known.waiting.items())
        )

    def accept(self, shown: tuple[Difference, ...]) -> None:
        """The operator has looked at these; what changed again since then goes on waiting."""
        with self._locked():
            whole, servers = self._read(), {}
            for name, known in whole.servers.items():
                seen = {(one.tool, one.diff) for one in shown if one.server == name}
                taken = {
                    tool: now
                    for tool, now in known.waiting.items()
                    if (tool, _diff(known.accepted.get(tool), now)) in seen
                }
                rest = {tool: now for tool, now in known.waiting.items() if tool not in taken}
                servers[name] = known.model_copy(update={"accepted": known.accepted | taken, "waiting": rest})
            self._write(whole.model_copy(update={"servers": servers}))

    def _locked(self) -> AbstractContextManager[None]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"it cannot be made: {error.strerror}", where=str(self._path.parent)) from error
        return home_lock(self._path.parent, 10, name="lock")

    def _read(self) -> KnownServers:
        try:
            return KnownServers.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return KnownServers()
        except (OSError, ValidationError) as error:
            raise StorageError(
                "the record of accepted MCP tools cannot be read",
                where=str(self._path),
                hint="mend it, or delete it: what the servers say then is accepted anew",
            ) from error

    def _write(self, known: KnownServers) -> None:
        try:
            write_whole(self._path, known.model_dump_json(indent=1).encode("utf-8", "surrogatepass"), 0o600)
        except OSError as error:
            raise StorageError(
                f"what was accepted cannot be recorded: {error.strerror}", where=str(self._path)
            ) from error


def _judge(known: KnownServer | None, server: Server, said: Mapping[str, str]) -> tuple[Judged, KnownServer]:
    identity = server_identity(server)
    if known is None or known.identity != identity:
        return Judged(), KnownServer(identity=identity, accepted=dict(said))
    changed = frozenset(tool for tool, now in said.items() if known.accepted.get(tool, now) != now)
    new = frozenset(said) - frozenset(known.accepted)
    accepted = known.accepted
    if server.trust == "local" and new:
        accepted, new = accepted | {tool: said[tool] for tool in new}, frozenset()
    waiting = {tool: said[tool] for tool in sorted(changed | new)}
    return Judged(changed, new), known.model_copy(update={"accepted": accepted, "waiting": waiting})


def _diff(before: str | None, now: str) -> str:
    lines = difflib.unified_diff((before or "").splitlines(), now.splitlines(), "accepted", "now", lineterm="", n=2)
    return "\n".join(lines)
