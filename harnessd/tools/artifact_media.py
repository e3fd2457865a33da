"""What kind of file is this? Its bytes decide; its name, or what its maker says, only where they can't."""

UNKNOWN = "application/octet-stream"
HEAD = 4096
"""Bytes of a file's beginning that are looked at."""


def media_type(name: str, head: bytes, claimed: str = "") -> str:
    """The media type of the file that is named so and begins with `head`; `claimed` is what its maker says.

    A browser runs what it takes for a page or a drawing. Those are called so only if name (or claim) and content
    agree; whatever only one of them says is plain text.
    """
    wanted = _plain(claimed) or _BY_ENDING.get(_ending(name), "")
    shown = _by_bytes(head, wanted)
    if shown is not None:
        return shown
    if wanted in _ACTIVE:
        return wanted if _begins_as(head, _ACTIVE[wanted]) else _text_or_unknown(head)
    if _is_text(head):
        return wanted if wanted in _HARMLESS_TEXTS else "text/plain"
    passive = wanted.split("/")[0] in {"audio", "video", "image", "font"}
    return wanted if passive and wanted not in _TOLD_BY_BYTES else UNKNOWN


_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"%PDF-", "application/pdf"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_TOLD_BY_BYTES = frozenset({kind for _, kind in _SIGNATURES} | set(_RIFF.values()))
_ACTIVE = {
    "text/html": (b"<!doctype html", b"<html"),
    "application/xhtml+xml": (b"<html",),
    "image/svg+xml": (b"<svg",),
}
_HARMLESS_TEXTS = frozenset(
    {
        "text/plain",
        "text/markdown",
        "text/csv",
        "text/tab-separated-values",
        "text/calendar",
        "application/json",
        "application/x-ndjson",
    }
)
_OFFICE = "application/vnd.openxmlformats-officedocument."
_BY_ENDING = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".ics": "text/calendar",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".svg": "image/svg+xml",
    ".avif": "image/avif",
    ".heic": "image/heic",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".ico": "image/x-icon",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".woff2": "font/woff2",
    ".ttf": "font/ttf",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".epub": "application/epub+zip",
}


def _plain(claimed: str) -> str:
    """`type/subtype` without parameters; what is none is no claim."""
    kind = claimed.partition(";")[0].strip().lower()
    letters = kind.replace("/", "", 1).translate({ord(one): None for one in "+-."})
    named = kind.count("/") == 1 and not kind.startswith("/") and letters.isalnum() and kind.isascii()
    return kind if named and kind != UNKNOWN and len(kind) <= 100 else ""


def _ending(name: str) -> str:
    return name[name.rfind(".") :].lower() if "." in name else ""


def _by_bytes(head: bytes, wanted: str) -> str | None:
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head.startswith(b"PK\x03\x04"):
        # Office documents and the like are zip archives that only their names tell apart.
        return wanted if wanted.startswith(("application/vnd.o", "application/epub")) else "application/zip"
    for signature, kind in _SIGNATURES:
        # A text may begin with the letters of a short signature, but it holds no NUL.
        if head.startswith(signature) and (b"\0" in head or not signature.isalnum()):
            return kind
    return None


def _begins_as(head: bytes, marks: tuple[bytes, ...]) -> bool:
    begins = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    prologue = begins.startswith((b"<?xml", b"<!")) and any(mark in begins for mark in marks)
    return _is_text(head) and (begins.startswith(marks) or prologue)


def _text_or_unknown(head: bytes) -> str:
    return "text/plain" if _is_text(head) else UNKNOWN


def _is_text(head: bytes) -> bool:
    """UTF-8 without NUL, apart from a character that the end of `head` cuts."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) == HEAD and HEAD - error.start < 4
    return True
