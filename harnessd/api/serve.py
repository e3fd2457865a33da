"""How does the daemon live: start, be there, and leave with nothing lost and nothing left behind?"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from aiohttp import web

from harnessd import __version__
from harnessd.api.app import make_app
from harnessd.api.door import Door, Readiness
from harnessd.api.guard import OPEN, Handler
from harnessd.api.listen import Addresses, listening
from harnessd.api.problem import Problem
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, read_secrets
from harnessd.daemon.descriptors import make_room
from harnessd.daemon.hold import Hold
from harnessd.daemon.leave import Leaving
from harnessd.daemon.notify import Notifier
from harnessd.daemon.operator_log import operator_log
from harnessd.daemon.recovery import Recovered
from harnessd.daemon.redaction import redactor, secret_values
from harnessd.daemon.starts import Starts, begin, write_starts
from harnessd.daemon.systemd import tell_systemd
from harnessd.daemon.token import make_token
from harnessd.daemon.whereabouts import SOCKET, Whereabouts, remove_whereabouts, write_whereabouts
from harnessd.errors import HarnessdError
from harnessd.facts.event import Event
from harnessd.home.layout import Home
from harnessd.journal.file import Disk
from harnessd.journal.stamp import from_now

log = logging.getLogger(__name__)

NOT_YET = Readiness(ready=False, note="the daemon is still starting")


@dataclass(frozen=True, slots=True)
class Serving:
    """The daemon is ready: where it listens, what it found, and why it resumed nothing by itself, if so."""

    addresses: Addresses
    recovered: Recovered
    safe_mode: str | None


@dataclass(frozen=True, slots=True)
class Stopping:
    """The daemon was asked to stop: by which signal, how many sessions still run, how long they may."""

    signal: str
    running: int
    seconds: float


async def serve(
    settings: Settings,
    *,
    told: Callable[[Serving], None],
    stopping: Callable[[Stopping], None] | None = None,
    env: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> int:
    """Runs every home under the workspaces folder until SIGTERM or SIGINT; the exit code, 0 for an end in order.

    `told` is called once, when it is ready; `stopping` once, when it is asked to stop. Needs the main thread.
    Raises `Locked` if another daemon is there, `UsageError` (the port, the token), `StorageError`.
    """
    environment = os.environ if env is None else env
    make_room()
    with await anyio.to_thread.run_sync(Hold, settings.state_dir, settings.workspaces):
        token = await anyio.to_thread.run_sync(make_token, settings.state_dir, environment)
        secrets = await anyio.to_thread.run_sync(read_secrets, settings.secrets_file)
        redact = redactor((*secret_values(secrets, environment), token))
        with operator_log(settings.log, sys.stderr, redact):
            life = _Life(settings, environment, token, redact, told, stopping or (lambda _: None), disk)
            return await life.live()


@dataclass(slots=True)
class _Life:
    """One life of the daemon, from the first count to the last file."""

    settings: Settings
    env: Mapping[str, str]
    token: str = field(repr=False)
    redact: Callable[[bytes], bytes]
    told: Callable[[Serving], None]
    stopping: Callable[[Stopping], None]
    disk: Disk | None
    standing: Readiness = NOT_YET

    async def live(self) -> int:
        """Counts the start and serves; a start that is refused with a clear error is not counted."""
        state_dir = self.settings.state_dir
        leaving = Leaving(self.settings.grace_seconds, lambda: remove_whereabouts(state_dir))
        before = await anyio.to_thread.run_sync(begin, state_dir, from_now())
        try:
            with leaving.heeding():
                await self._serve(leaving, before)
        except HarnessdError as error:
            log.error("ended", extra={"reason": str(error)})  # noqa: TRY400 - it says all; no trace is needed
            if not self.standing.ready and not leaving.asked.is_set():
                await anyio.to_thread.run_sync(write_starts, state_dir, before)
            raise
        except Exception:
            log.exception("ended by a fault")
            raise
        finally:
            remove_whereabouts(state_dir)
        return 0

    async def _serve(self, leaving: Leaving, before: Starts) -> None:
        settings = self.settings

        def watch(home: Home, event: Event) -> None:
            notifier.tell(home.name, lambda: runtime.sessions.title((home.path, event.session_id)), event)

        async with (
            Notifier.open(settings.notify, self.env, self.redact) as notifier,
            Runtime.open(settings, self.env, disk=self.disk, watch=watch) as runtime,
            listening(self._app(runtime), settings.host, settings.port, settings.state_dir / SOCKET) as addresses,
        ):
            # It listens before it looks for what was left, so that a port that is taken wakes no run; till then
            # whoever asks is told to wait.
            with leaving.starting:
                await self._begin(runtime, addresses, before)
            await leaving.asked.wait()
            await self._drain(runtime, leaving)
        log.info("stopped")

    def _app(self, runtime: Runtime) -> web.Application:
        door = Door(self.token, hosts=(self.settings.host, *self.settings.allowed_hosts), ready=lambda: self.standing)
        app = make_app(runtime, door)
        app.middlewares.append(self._not_before_ready)
        return app

    @web.middleware
    async def _not_before_ready(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.standing is NOT_YET and request.path not in OPEN:
            raise Problem(503, "not-ready", NOT_YET.note, headers={"Retry-After": "1"})
        return await handler(request)

    async def _begin(self, runtime: Runtime, addresses: Addresses, before: Starts) -> None:
        """Takes up what a former process left, and says to everybody that the daemon is there."""
        safe_mode = before.safe_mode
        if safe_mode is not None:
            log.warning("safe mode: no run goes on by itself", extra={"reason": safe_mode})
        recovered = await runtime.recover(safe=safe_mode is not None)
        for one in recovered.unreadable:
            log.warning("cannot be read", extra={"where": one.where, "reason": one.reason})
        state_dir = self.settings.state_dir
        whereabouts = Whereabouts(
            pid=os.getpid(),
            host=addresses.host,
            port=addresses.port,
            socket=None if addresses.socket is None else str(addresses.socket),
            started_at=from_now(),
            version=__version__,
            workspaces=str(self.settings.workspaces),
            safe_mode=safe_mode,
        )
        await anyio.to_thread.run_sync(write_whereabouts, state_dir, whereabouts)
        self.standing = Readiness(note=f"safe mode: {safe_mode}" if safe_mode else "")
        await anyio.to_thread.run_sync(write_starts, state_dir, Starts())
        log.info(
            "ready",
            extra={
                "host": addresses.host,
                "port": addresses.port,
                "homes": recovered.homes,
                "resumed": len(recovered.resumed),
                "parked": len(recovered.parked),
                "waiting": len(recovered.waiting),
            },
        )
        tell_systemd(self.env, "READY=1", f"STATUS={recovered.homes} homes, port {addresses.port}")
        self.told(Serving(addresses, recovered, safe_mode))

    async def _drain(self, runtime: Runtime, leaving: Leaving) -> None:
        """Takes no more controls and lets turns end; event streams tell of it to the last."""
        seconds = self.settings.grace_seconds
        self.standing = Readiness(ready=False, note="the daemon is stopping")
        tell_systemd(self.env, "STOPPING=1")
        log.info("stopping", extra={"signal": leaving.by, "running": runtime.running, "seconds": seconds})
        self.stopping(Stopping(leaving.by, runtime.running, seconds))
        await runtime.drain(seconds)
