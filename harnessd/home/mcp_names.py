"""Under which name is an MCP server's tool offered to a model?"""

import hashlib
import re
from collections.abc import Collection

NAME_LIMIT = 64


def mcp_tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """`mcp__<server>__<tool>` in at most 64 of `[A-Za-z0-9_-]`; the same whatever the order of servers.

    A name that had to be changed or shortened, or that could also be read as another server and tool, ends in
    a hash of both, so two pairs never share a name by accident. `taken` (names already given to other pairs)
    guards against a server that forges such a name.
    """
    plain = f"mcp__{server}__{tool}"
    clear = "__" not in server and not server.startswith("_") and not server.endswith("_")
    fits = len(plain) <= NAME_LIMIT and re.fullmatch(r"[A-Za-z0-9_-]+", plain) is not None
    if clear and fits and server and tool and plain not in taken:
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()
    for length in (8, 16, 32):
        name = _shortened(server, tool, digest[:length])
        if name not in taken:
            return name
    return name


def _shortened(server: str, tool: str, suffix: str) -> str:
    room = NAME_LIMIT - len("mcp____-") - len(suffix)
    server, tool = _safe(server), _safe(tool)
    server = server[: max(8, room - len(tool))] if len(server) + len(tool) > room else server
    return f"mcp__{server}__{tool[: room - len(server)]}-{suffix}"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_") or "x"
