"""Under which name is an MCP server's tool offered to a model?"""

import hashlib
import re

NAME_LIMIT = 64
_DIGITS = 10


def mcp_tool_name(server: str, tool: str) -> str:
    """`mcp__<server>__<tool>` in at most 64 of `[A-Za-z0-9_-]`; it depends on nothing but these two.

    A name that had to be changed or shortened, that could also be read as another server and tool, or that looks
    as if it had been changed already, ends in a hash of both. So no two pairs share a name, whoever starts first.
    """
    plain = f"mcp__{server}__{tool}"
    clear = "__" not in server and not server.startswith("_") and not server.endswith("_")
    fits = len(plain) <= NAME_LIMIT and re.fullmatch(r"[A-Za-z0-9_-]+", plain) is not None
    forged = re.search(rf"-[0-9a-f]{{{_DIGITS}}}\Z", plain) is not None
    if clear and fits and server and tool and not forged:
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()
    return _shortened(server, tool, digest[:_DIGITS])


def _shortened(server: str, tool: str, suffix: str) -> str:
    room = NAME_LIMIT - len("mcp____-") - len(suffix)
    server, tool = _safe(server), _safe(tool)
    server = server[: max(8, room - len(tool))] if len(server) + len(tool) > room else server
    return f"mcp__{server}__{tool[: room - len(server)]}-{suffix}"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_") or "x"
