"""How does a person who looks at no screen learn that an agent waits, failed or ended?

The operator's `notify` names commands and webhooks. What happened is told to each that wants it, once, when its
fact is recorded, and never again: what was on record when the daemon came up was told then, or is shown by
`GET /api/approvals`. Telling is a courtesy: it never delays a run, and what can't be told is only logged.
"""

import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from harnessd.daemon.config import Happening, Notify, NotifyCommand
from harnessd.facts.base import Record
from harnessd.facts.event import Event, RunFinished, RunParked, ToolApprovalRequired
from harnessd.facts.run import Approval, Failure
from harnessd.sandbox.outcome import Unavailable
from harnessd.sandbox.program import run_program

AT_ONCE = 4
"""Notifiers that run side by side; the rest wait."""
WAITING = 256
"""Notifications that wait at most; more are dropped, and the log says so."""
LAST_WORDS_S = 2.0
"""How long, at the daemon's end, what waits may still be told."""

TELLING = frozenset({"tool.approval_required", "run.parked", "run.finished"})
"""The facts that may be worth telling."""

ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR",
    "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""What a command sees of the daemon's environment: what a desktop notification needs, and no key."""

log = logging.getLogger(__name__)


class Notification(Record):
    """What a command reads on standard input, and a webhook is sent: one JSON object.

    `agent` is the home, `agent_id` who in it (`main` or a subagent); `reason` says why a run ended or is parked.
    """

    event: Happening = "ended"
    at: str = ""
    agent: str = ""
    agent_id: str = ""
    session_id: str = ""
    run_id: str | None = None
    title: str = ""
    reason: str | None = None
    approval: Approval | None = None
    failure: Failure | None = None


def happening(home: str, title: str, event: Event) -> Notification | None:
    """What of `event` is worth telling; None for all that is not, such as the end of a subagent's run."""
    about = {
        "at": event.at,
        "agent": home,
        "agent_id": event.agent_id,
        "session_id": event.session_id,
        "run_id": event.run_id,
        "title": title,
    }
    match event:
        case ToolApprovalRequired():
            return Notification.model_validate({**about, "event": "approval", "approval": event.approval})
        case RunParked():
            return Notification.model_validate({**about, "event": "parked", "reason": event.reason})
        case RunFinished() if event.agent_id == "main":
            kind: Happening = "failed" if event.reason == "failed" else "ended"
            told = {**about, "event": kind, "reason": event.reason, "failure": event.failure}
            return Notification.model_validate(told)
    return None


class Notifier:
    """Takes what happened, at once, and tells it in its own time. Made by `Notifier.open`."""

    def __init__(
        self,
        wanted: Sequence[Notify],
        env: Mapping[str, str],
        redact: Callable[[bytes], bytes],
        line: MemoryObjectSendStream[tuple[int, bytes]],
    ) -> None:
        self._wanted = wanted
        self._env = {name: env[name] for name in ENVIRONMENT if name in env}
        self._redact = redact
        self._line = line
        self._silent: set[int] = set()
        self._dropping = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, wanted: Sequence[Notify], env: Mapping[str, str], redact: Callable[[bytes], bytes]
    ) -> AsyncIterator["Notifier"]:
        """The notifier while the block runs; then what waits is told for two seconds more, and no process is left."""
        send, receive = anyio.create_memory_object_stream[tuple[int, bytes]](WAITING)
        notifier = cls(wanted, env, redact, send)
        raised: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE if wanted else 0):
                tasks.start_soon(notifier._work, receive.clone())
            try:
                yield notifier
            except BaseException as error:  # noqa: BLE001 - carried past the task group, which would wrap it
                raised = error
            send.close()
            receive.close()
            tasks.cancel_scope.shield = True
            tasks.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_S
        if raised is not None:
            raise raised

    def tell(self, home: str, title: Callable[[], str], event: Event) -> None:
        """Tells `event` of a session with that title to all who want it. Returns at once; never fails."""
        told = happening(home, title(), event) if self._wanted and event.type in TELLING else None
        if told is None:
            return
        body: bytes | None = None
        for at, one in enumerate(self._wanted):
            if told.event in one.on or (told.event == "failed" and "ended" in one.on):
                body = body or self._redact(told.model_dump_json(by_alias=True, exclude_none=True).encode())
                self._queue(at, body)

    def _queue(self, at: int, body: bytes) -> None:
        taken = False
        with contextlib.suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._line.send_nowait((at, body))
            taken = True
        if not taken and not self._dropping:
            log.error("notifications are dropped", extra={"waiting": WAITING})
        self._dropping = not taken

    async def _work(self, line: MemoryObjectReceiveStream[tuple[int, bytes]]) -> None:
        async with line:
            async for at, body in line:
                one = self._wanted[at]
                try:
                    with anyio.fail_after(one.timeout):
                        failure = await self._send(one, body)
                except TimeoutError:
                    failure = f"no end within {one.timeout:g} s"
                except Exception as error:  # noqa: BLE001 - somebody else's program or server; a run must not feel it
                    failure = f"{type(error).__name__}: {error}"
                self._remember(at, one, failure)

    async def _send(self, one: Notify, body: bytes) -> str | None:
        if isinstance(one, NotifyCommand):
            return await _run(one.command, body, self._env)
        return await _post(one.webhook, body)

    def _remember(self, at: int, one: Notify, failure: str | None) -> None:
        """A notifier that fails is logged once, and anew only after it has worked again."""
        if failure is None:
            self._silent.discard(at)
        elif at not in self._silent:
            self._silent.add(at)
            log.error("a notifier failed", extra={"notifier": _shown(one), "failure": failure})


async def _run(command: Sequence[str], body: bytes, env: Mapping[str, str]) -> str | None:
    """Runs the command; nothing of it is left when this returns or is cancelled, or we die."""
    if shutil.which(command[0], path=env.get("PATH")) is None:
        return "there is no such program"
    ended = await run_program(command, body, environment=env, folder="/")
    if isinstance(ended, Unavailable):
        return ended.message
    return None if ended.status == 0 else f"it ended with code {ended.status}"


async def _post(url: str, body: bytes) -> str | None:
    import aiohttp  # only an operator who has webhooks pays for it

    headers = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as client,
        client.post(url, data=body, headers=headers, allow_redirects=False) as answer,
    ):
        return None if 200 <= answer.status < 300 else f"it answered {answer.status}"


def _shown(one: Notify) -> str:
    """Names a notifier without what may be secret: a webhook's path is often its password, arguments may hold one."""
    if isinstance(one, NotifyCommand):
        return one.command[0]
    parts = urlsplit(one.webhook)
    return f"{parts.scheme}://{parts.hostname}"
