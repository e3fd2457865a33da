"""Whether a local Ollama runs, and which model it has: one short look, no client library."""

import asyncio
from urllib.parse import urlsplit

import orjson

_PATIENCE_S = 0.5
_MOST_BYTES = 1 << 20


async def find_ollama_model(base: str) -> str | None:
    """The model that the Ollama at `base` lists first, or None if there is none in half a second."""
    url = urlsplit(base)
    if url.scheme != "http" or not url.hostname:
        return None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
            try:
                writer.write(f"GET /api/tags HTTP/1.0\r\nHost: {url.netloc}\r\n\r\n".encode())
                answer = await _read_all(reader)
            finally:
                writer.close()
        _, _, body = answer.partition(b"\r\n\r\n")
        models = orjson.loads(body)["models"]
        return str(models[0]["name"]) if models else None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size < _MOST_BYTES and (piece := await reader.read(65_536)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
