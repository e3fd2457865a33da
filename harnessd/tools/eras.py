"""Which servers speak the older protocol, so that the newer is not tried on them again?

A server that keeps silent when it is asked what it does not know costs ten seconds each time.
A cache: it may be deleted.
"""

import json
from pathlib import Path

from harnessd.home.intent import write_whole

KNOWN_AT_MOST = 500


class Eras:
    """The cache at `path`, None for none. Its methods block and never raise: a cache that can't be used is none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def is_legacy(self, identity: str) -> bool:
        """Whether the server of that identity was found to speak the older protocol only."""
        return identity in self._read()

    def learn(self, identity: str, *, legacy: bool) -> None:
        """What it was found to speak."""
        known = self._read()
        if self._path is None or legacy == (identity in known):
            return
        known = [one for one in known if one != identity]
        known = [*known, identity][-KNOWN_AT_MOST:] if legacy else known
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._path, json.dumps(known).encode(), 0o600)
        except OSError:
            return

    def _read(self) -> list[str]:
        try:
            known = json.loads(self._path.read_bytes()) if self._path is not None else []
        except (OSError, ValueError):
            return []
        return [one for one in known if isinstance(one, str)] if isinstance(known, list) else []
