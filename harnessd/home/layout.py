"""Where everything in a home lies."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from harnessd.errors import HomeNotFound, InvalidName, NotAHome, StorageError
from harnessd.ids import check_id

_NAMED = 8
AGENTS, MEMORY, KNOWLEDGE, TOOLS = "AGENTS.md", "MEMORY.md", "KNOWLEDGE.md", "tools.json"
DEFINITION_FOLDERS = ("skills", "subagents", "graphs", "evals", "users")
RUNTIME_FOLDERS = ("agents", "work")
IGNORED = "# What the runtime writes; it travels with the directory, not with git's history.\n/agents/\n/work/\n"


@dataclass(frozen=True, slots=True)
class Home:
    """One agent's directory. `path` is absolute; `name` is the directory's name and the agent's."""

    path: Path

    @property
    def name(self) -> str:
        """The name of its resident: "agent ada" and "home ada" are one directory."""
        return self.path.name

    def journal(self, agent_id: str, session_id: str) -> Path:
        """The journal of a session: `agents/<agent>/sessions/<session>.jsonl`."""
        return self.sessions(agent_id) / f"{check_id(session_id, 'ses')}.jsonl"

    def sessions(self, agent_id: str) -> Path:
        """The folder of an agent's journals."""
        return self.path / "agents" / _component(agent_id) / "sessions"

    def checkpoint(self, agent_id: str, session_id: str) -> Path:
        """The saved state of a session: `agents/<agent>/context/<session>/state.json`."""
        folder = self.path / "agents" / _component(agent_id) / "context"
        return folder / check_id(session_id, "ses") / "state.json"

    def evicted(self, agent_id: str, session_id: str) -> Path:
        """The folder of a session's oversized tool results."""
        return self.path / "agents" / _component(agent_id) / "evicted" / check_id(session_id, "ses")

    def artifacts(self, agent_id: str, session_id: str) -> Path:
        """The folder of what a session produced."""
        return self.path / "agents" / _component(agent_id) / "artifacts" / check_id(session_id, "ses")

    def agent_of(self, session_id: str) -> str | None:
        """Which agent's session that is; None if no journal bears this id. Blocks; raises `StorageError`."""
        try:
            if self.journal("main", session_id).exists():
                return "main"
            found = self.path.glob(f"agents/*/sessions/{session_id}.jsonl")
            return next((path.parents[1].name for path in found), None)
        except OSError as error:
            said = f"this home cannot be looked through: {error.strerror}"
            raise StorageError(said, where=str(self.path), hint="look at its permissions") from error

    def links(self, agent_id: str, session_id: str) -> tuple[Path, ...]:
        """Where a link stands in place of a folder or file that the runtime writes for a session."""
        agent = self.path / "agents" / _component(agent_id)
        folders = (agent.parent, agent, *(agent / name for name in ("sessions", "context", "evicted", "artifacts")))
        checkpoint = self.checkpoint(agent_id, session_id)
        own = (checkpoint.parent, self.evicted(agent_id, session_id), self.artifacts(agent_id, session_id))
        return tuple(place for place in (*folders, self.journal(agent_id, session_id), *own) if place.is_symlink())

    @property
    def work(self) -> Path:
        """Where the agent works."""
        return self.path / "work"


def find_home(agent: str, workspaces: Path) -> Home:
    """The home that `agent` names: a name under `workspaces`, or a path (it holds a `/` or is `.` or `..`).

    Raises `HomeNotFound` or `NotAHome`; both say how to make one.
    """
    is_path = "/" in agent or agent in {".", ".."} or agent.startswith("~")
    path = Path(agent).expanduser() if is_path else workspaces / _component(agent)
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the home's own symlinks
    if not path.is_dir():
        raise HomeNotFound(
            "there is no such home" if not path.exists() else "this is a file, not a home",
            where=str(path),
            hint=f"make one with: harnessd init {shlex.quote(str(path) if is_path else agent)}"
            + _present(workspaces, is_path),
        )
    for needed in (".git", AGENTS):
        if not os.path.lexists(path / needed):
            raise NotAHome(
                "this folder is no git repository" if needed == ".git" else "this folder has no AGENTS.md",
                where=str(path),
                hint=f"add what is missing, overwriting nothing, with: harnessd init {shlex.quote(str(path))}",
            )
    return Home(path)


def list_homes(workspaces: Path) -> list[Home]:
    """Every home directly under `workspaces`, by name; nothing if the folder does not exist."""
    if not workspaces.is_dir():
        return []
    return [
        Home(entry)
        for entry in sorted(workspaces.iterdir())
        if entry.is_dir() and (entry / AGENTS).exists() and (entry / ".git").exists()
    ]


def _present(workspaces: Path, is_path: bool) -> str:
    """The homes that a name could have meant, a few of them."""
    names = [] if is_path else [home.name for home in list_homes(workspaces)]
    more = " …" if len(names) > _NAMED else ""
    return f"; there are: {', '.join(names[:_NAMED])}{more}" if names else ""


def _component(name: str) -> str:
    """`name` if it is one step of a path and stays in its folder; names are read more tolerantly than written."""
    if not name or name in {".", ".."} or "/" in name or "\0" in name or len(name.encode()) > 255:
        raise InvalidName(f"{name!r} cannot name a home or an agent", hint="use a-z, 0-9 and '-'")
    return name
