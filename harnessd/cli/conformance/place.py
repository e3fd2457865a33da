"""Where a trial takes place: a folder with a workspace, a home, a state directory and the effects that are counted."""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from harnessd.cli.conformance import tally
from harnessd.cli.conformance.door import AGENT
from harnessd.cli.conformance.evidence import Effect, Journal, Stored
from harnessd.cli.conformance.points import Point
from harnessd.cli.conformance.scenarios import (
    ASK,
    EFFECTS,
    FACT,
    HANG,
    LOOK,
    NOTE,
    NOTE_AGAIN,
    PAY,
    PUT,
    SERVER,
    Scenario,
)
from harnessd.facts.event import Event
from harnessd.facts.message import JsonObject
from harnessd.home import history
from harnessd.home.create import create
from harnessd.home.layout import Home
from harnessd.home.trust import TrustStore
from harnessd.journal.line import decode
from harnessd.journal.records import Record, open_to_read, scan

TOKEN = "conformance-token-of-no-secret-at-all"  # noqa: S105
"""The daemons of the kit listen on loopback for seconds and guard nothing."""

FREE = "bypassPermissions"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of its own for one trial."""

    path: Path

    @property
    def workspaces(self) -> Path:
        """The folder of homes."""
        return self.path / "workspaces"

    @property
    def state(self) -> Path:
        """The daemon's own state."""
        return self.path / "state"

    @property
    def home(self) -> Home:
        """The home of the one agent."""
        return Home(self.workspaces / AGENT)

    @property
    def notes(self) -> Path:
        """Where a daemon that kills itself says at which step it did."""
        return self.path / "death.json"

    @property
    def endless(self) -> str:
        """What the command lines of the run's endless processes hold."""
        return f"{self.path}/endless"

    def prepare(self, scenario: Scenario, point: Point, model_url: str) -> None:
        """Makes the home as the scenario needs it, and the operator's settings. Blocks."""
        self.state.mkdir(parents=True)
        settings: JsonObject = {"model": "openai/scripted", "apiBase": f"{model_url}/v1"}
        if scenario.free:
            settings["ceiling"] = {"mode": FREE}
        (self.state / "harnessd.yaml").write_text(json.dumps(settings), encoding="utf-8")
        create(self.home.path, trust=TrustStore(self.state))
        if scenario.free:
            agents = self.home.path / "AGENTS.md"
            agents.write_text(f"---\nmode: {FREE}\n---\n{agents.read_text(encoding='utf-8')}", encoding="utf-8")
        (self.home.path / "tools.json").write_text(json.dumps(self._tools(scenario, point), indent=2), encoding="utf-8")

    def spare_the_next(self) -> None:
        """From here on no daemon is to be killed at an effect. Blocks."""
        self._effects.with_suffix(tally.REACHED).touch()

    def reached(self) -> bool:
        """Whether the effect at which the daemon is to be killed is under way. Blocks."""
        return self._effects.with_suffix(tally.REACHED).exists()

    def daemon(self) -> tuple[int, str] | None:
        """The pid and address of the daemon that is up, as its own file says."""
        try:
            said = json.loads((self.state / "daemon.json").read_text(encoding="utf-8"))
            return int(said["pid"]), f"http://{said.get('host', '127.0.0.1')}:{said['port']}"
        except (OSError, ValueError, KeyError):
            return None

    def journals(self) -> tuple[Journal, ...]:
        """Every session's record as it lies on disk. Blocks."""
        paths = sorted((self.home.path / "agents").glob("*/sessions/*.jsonl"))
        return tuple(_journal(path) for path in paths)

    def effects(self) -> tuple[Effect, ...]:
        """What the server's tools and the commands did, as they wrote it down. Blocks."""
        return (*self.served(), *_effects(self.home.path / "work" / EFFECTS))

    def served(self) -> tuple[Effect, ...]:
        """What the server's tools did: at each of these the daemon can be killed. Blocks."""
        return _effects(self._effects)

    def stored(self) -> tuple[Stored, ...]:
        """Every file among the artifacts. Blocks."""
        found = []
        for path in sorted((self.home.path / "agents").glob("*/artifacts/**/*")):
            if path.is_file():
                data = path.read_bytes()
                relative = str(path.relative_to(self.home.path))
                found.append(Stored(relative, hashlib.sha256(data).hexdigest(), len(data)))
        return tuple(found)

    def entries(self) -> int:
        """How often the fact stands in MEMORY.md. Blocks."""
        return (self.home.path / "MEMORY.md").read_text(encoding="utf-8").count(FACT)

    def commits(self) -> tuple[str, ...]:
        """The tool call of each commit that an agent made. Blocks."""
        return tuple(one.trailers["call"] for one in history.log(self.home) if "call" in one.trailers)

    def died_at(self) -> str:
        """Where a daemon that killed itself was; empty if none did. Blocks."""
        return str(self._note().get("place", ""))

    def steps(self) -> int:
        """How many steps of the journal were counted. Blocks."""
        return int(self._note().get("steps", 0))

    @property
    def _effects(self) -> Path:
        return self.path / "effects.jsonl"

    def _note(self) -> JsonObject:
        try:
            note: JsonObject = json.loads(self.notes.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note

    def _tools(self, scenario: Scenario, point: Point) -> JsonObject:
        arguments = ["-I", "-S", str(tally.__file__), str(self._effects)]
        if point.kind in {"before_effect", "after_effect"}:
            arguments += [point.kind, str(int(point.at))]
        checks = [
            {**check, "command": check["command"].replace("{endless}", self.endless_command)}
            for check in scenario.checks
        ]
        allowed = {LOOK, PUT, PAY, HANG, ASK} - set(scenario.ask)
        server = {"command": sys.executable, "args": arguments, "trust": "local"}
        return {
            "mcpServers": {SERVER: server} if scenario.counts else {},
            "scripts": [_script(name, idempotent=name == NOTE_AGAIN) for name in (NOTE, NOTE_AGAIN)],
            "allow": [*sorted(allowed), NOTE, NOTE_AGAIN, "write(work/**)"],
            "ask": list(scenario.ask),
            "checks": checks,
        }

    @property
    def endless_command(self) -> str:
        """A command that begins processes which won't end when asked, in a session of their own too."""
        inner = f"trap '' TERM; sleep 600; : {self.endless}"
        return f'setsid sh -c "{inner}" & sh -c "{inner}"; : {self.endless}'


def _script(name: str, *, idempotent: bool) -> JsonObject:
    """A script that writes down its effect; its only argument is a word."""
    effect = f'{{"tool": "{name}", "key": "%s", "call": "%s", "pid": 0}}\\n'
    key = """$(sed 's/.*: *"\\(.*\\)".*/\\1/')"""
    return {
        "name": name,
        "description": "Notes a key.",
        "command": f"""printf '{effect}' "{key}" "$HARNESSD_IDEMPOTENCY_KEY" >> {EFFECTS}""",
        "inputSchema": tally.KEY,
        "idempotent": idempotent,
    }


def _effects(path: Path) -> tuple[Effect, ...]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return tuple(Effect(**json.loads(line)) for line in lines)


def _journal(path: Path) -> Journal:
    events, damaged = [], 0
    with open_to_read(path) as file:
        for piece in scan(file):
            event = decode(piece.data) if isinstance(piece, Record) else None
            if isinstance(event, Event):
                events.append(event)
            else:
                damaged += 1
    return Journal(path.parent.parent.name, path.stem, tuple(events), damaged)
