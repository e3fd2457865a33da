"""How do definition files look that lie in no directory: in a test, or as they would be after a change?"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harnessd.home.problem import Problem


@dataclass(frozen=True)
class FilesInMemory:
    """Definition files by path; fits `home.definition.Files`. Blob ids are git's."""

    contents: Mapping[str, bytes]
    problems: tuple[Problem, ...] = field(default=())

    @cached_property
    def blobs(self) -> Mapping[str, str]:
        """The blob id of each path."""
        return {path: _blob_id(raw) for path, raw in self.contents.items()}

    @cached_property
    def tree(self) -> str:
        """An id of all paths and blobs; not git's, which would need the folders."""
        listing = "\0".join(f"{path}\0{blob}" for path, blob in sorted(self.blobs.items()))
        return hashlib.sha1(listing.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()

    def load(self, path: str) -> bytes:
        """The bytes at `path`. Raises KeyError."""
        return self.contents[path]


def _blob_id(raw: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest()
