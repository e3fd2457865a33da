"""How are sessions opened in the daemon?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harnessd.cli.output import Output
from harnessd.cli.reach import Conversation
from harnessd.client.client import Client
from harnessd.daemon.config import Settings
from harnessd.errors import UsageError
from harnessd.home.layout import Home

PATIENCE = 10.0
"""Seconds for which a command waits for a daemon that went away in the middle."""


@asynccontextmanager
async def there(settings: Settings, out: Output, *, patience: float = PATIENCE) -> AsyncIterator["There"]:
    """The daemon as the place; `patience` is seconds. Raises `Unreachable` if it is gone by now."""
    async with Client.connect(settings, patience=patience) as client:
        yield There(client, out)


class There:
    """Sessions that the daemon opens, holds and closes; here they are only mirrored."""

    def __init__(self, client: Client, out: Output) -> None:
        self._client = client
        self._out = out

    @asynccontextmanager
    async def session(
        self, home: Home, session_id: str | None = None, *, user_id: str | None = None, model: str | None = None
    ) -> AsyncIterator[Conversation]:
        """The session for as long as the block runs. Raises `UsageError` for a model that comes too late."""
        opened = self._client.open_session(home.name, session_id, user_id=user_id, model=model, away=self._tell_away)
        async with opened as session:
            if session_id is not None and model is not None and session.state.model != model:
                raise UsageError(
                    "a session that the daemon runs keeps the model that it began with",
                    where="--model",
                    hint="leave it out, or begin a new session with it",
                )
            yield session

    def _tell_away(self, is_away: bool) -> None:
        """A person is told why nothing comes; a program sees it from the exit code if it stays so."""
        if not self._out.as_json:
            said = "the daemon is gone; waiting a little for it to come back" if is_away else "it is back"
            self._out.note("\n" + self._out.side.odd(said))
