"""How are sessions opened in this process?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harnessd.cli.reach import Conversation
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings
from harnessd.home.layout import Home


@asynccontextmanager
async def here(settings: Settings) -> AsyncIterator["Here"]:
    """This process as the place; at its end nothing of it is left running."""
    async with Runtime.open(settings) as runtime:
        yield Here(runtime)


class Here:
    """Sessions that this process opens, holds and closes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @asynccontextmanager
    async def session(
        self, home: Home, session_id: str | None = None, *, user_id: str | None = None, model: str | None = None
    ) -> AsyncIterator[Conversation]:
        """The session for as long as the block runs."""
        async with self._runtime.visit(home, session_id, user_id=user_id, model=model) as session:
            yield session
