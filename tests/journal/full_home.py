"""A home in which the runtime has written everything that it can write, by the journal's own means."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from harnessd.facts.event import (
    ArtifactCreated,
    Event,
    MessageCreated,
    MessageQueued,
    RunFinished,
    RunStarted,
    SessionCreated,
    SubagentFinished,
    SubagentStarted,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallRunning,
    ToolResultEvicted,
    TurnFinished,
    TurnStarted,
)
from harnessd.facts.message import AssistantMessage, ToolCall, UserMessage
from harnessd.facts.run import Approval, ArtifactRef, Parent, SubagentRef, Trigger
from harnessd.journal.committer import Committer
from harnessd.journal.fsck import AgentFolders
from harnessd.journal.ledger import Ledger
from harnessd.journal.line import encode
from harnessd.journal.session_files import SessionFiles

MAIN, BELOW, OTHER = "ses_main", "ses_below", "ses_other"
RESULT, PRODUCT = b"a long result\n" * 50, b"\x89PNG a picture"
OF_RUN = {"run_id": "run_1"}
OF_TURN = {"run_id": "run_1", "turn_id": "turn_1"}


@dataclass(frozen=True)
class FullHome:
    """Its path, and where things lie in it."""

    path: Path

    def files(self, session_id: str = MAIN, agent_id: str = "main") -> SessionFiles:
        agent = self.path / "agents" / agent_id
        return SessionFiles(
            agent_id,
            session_id,
            agent / "sessions" / f"{session_id}.jsonl",
            agent / "context" / session_id / "state.json",
            agent / "evicted" / session_id,
            agent / "artifacts" / session_id,
        )

    def folders(self) -> list[AgentFolders]:
        agents = self.path / "agents"
        return [
            AgentFolders(
                name,
                agents / name / "sessions",
                tuple(agents / name / each for each in ("context", "evicted", "artifacts")),
                lambda session_id, name=name: self.files(session_id, name),
            )
            for name in ("explore", "main")
        ]

    @property
    def result(self) -> Path:
        return self.files().evicted / "call_1.txt"

    @property
    def product(self) -> Path:
        return self.files().artifacts / "art_1" / "picture.png"


async def full_home(path: Path, committer: Committer) -> FullHome:
    """Three sessions: a main one with a subagent, a stored result and an artifact, that subagent's, and another."""
    home = FullHome(path)
    for place, data in ((home.result, RESULT), (home.product, PRODUCT)):
        place.parent.mkdir(parents=True)
        place.write_bytes(data)
    parent = Parent(session_id=MAIN, **OF_TURN, tool_call_id="call_2")
    await _write(home.files(), main_events(home), committer)
    await _write(home.files(BELOW, "explore"), plain_events(SessionCreated(parent=parent)), committer)
    await _write(home.files(OTHER), plain_events(SessionCreated()), committer)
    return home


async def _write(files: SessionFiles, events: list[Event], committer: Committer) -> None:
    ledger = await Ledger.open(
        files.journal, files.checkpoint, session_id=files.session_id, agent_id=files.agent_id, committer=committer
    )
    for event in events:
        ledger.record(event)
    await ledger.checkpoint()
    await ledger.close()


def plain_events(created: SessionCreated) -> list[Event]:
    asked = UserMessage(id="msg_1")
    return [
        created,
        MessageQueued(run_id="run_1", message=asked, trigger=Trigger(message_id="msg_1")),
        RunStarted(**OF_RUN, trigger=Trigger(message_id="msg_1")),
        MessageCreated(**OF_RUN, message=asked),
        RunFinished(**OF_RUN, queued=0),
    ]


def main_events(home: FullHome) -> list[Event]:
    calls = tuple(ToolCall(id=f"call_{number}", name="do") for number in (1, 2))
    approval = Approval(id="apr_1", tool_call_id="call_1", **OF_TURN)
    stored = ToolResultEvicted(
        **OF_TURN, tool_call_id="call_1", content_ref=_ref(home, home.result), size=len(RESULT), sha256=_hash(RESULT)
    )
    product = ArtifactRef(id="art_1", content_ref=_ref(home, home.product), size=len(PRODUCT), sha256=_hash(PRODUCT))
    below = SubagentRef(id="sub_1", agent_id="explore", session_id=BELOW, parent_tool_call_id="call_2")
    begun = plain_events(SessionCreated())
    return [
        *begun[:-1],
        TurnStarted(**OF_TURN, number=1),
        MessageCreated(**OF_TURN, message=AssistantMessage(id="msg_2", tool_calls=calls)),
        *(ToolCallCreated(**OF_TURN, tool_call_id=call.id) for call in calls),
        ToolApprovalRequired(**OF_TURN, approval=approval),
        ToolApprovalResolved(**OF_TURN, approval_id="apr_1", tool_call_id="call_1", outcome="allowed"),
        ToolCallRunning(**OF_TURN, tool_call_id="call_1"),
        stored,
        ArtifactCreated(**OF_TURN, artifact=product),
        ToolCallCompleted(**OF_TURN, tool_call_id="call_1"),
        ToolCallRunning(**OF_TURN, tool_call_id="call_2"),
        SubagentStarted(**OF_TURN, subagent=below),
        SubagentFinished(**OF_TURN, subagent=below.model_copy(update={"status": "completed"})),
        ToolCallCompleted(**OF_TURN, tool_call_id="call_2"),
        TurnFinished(**OF_TURN),
        begun[-1],
    ]


def rewrite(files: SessionFiles, events: list[Event]) -> None:
    """A journal with these events, numbered from 1, and without its checkpoint."""
    envelope = {"at": "2026-11-30T12:00:00.000Z", "session_id": files.session_id, "agent_id": files.agent_id}
    stamped = [event.model_copy(update={"seq": seq, **envelope}) for seq, event in enumerate(events, 1)]
    files.journal.write_bytes(b"".join(map(encode, stamped)))
    files.checkpoint.unlink(missing_ok=True)


def _ref(home: FullHome, path: Path) -> str:
    return str(path.relative_to(home.path))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
