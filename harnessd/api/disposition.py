"""As what may a browser take a file that an agent produced? Pictures and plain text are shown, all else is saved."""

import re
from urllib.parse import quote

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "application/pdf"})
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}", re.ASCII)


def media_type(recorded: str) -> str:
    """The recorded media type if it is one; text is said to be UTF-8."""
    kind = recorded.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(kind):
        return "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def disposition(kind: str, name: str) -> str:
    """The `Content-Disposition` of a file called `name` (RFC 6266): in ASCII, and as it is."""
    how = "inline" if kind.partition(";")[0] in SHOWN else "attachment"
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name) or "file"
    exact = quote(name.encode("utf-8", "replace"), safe="")
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{exact}"
