"""What of a server's answer does the model see as text, and what is kept as a file?"""

import json
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from harnessd.facts.message import JsonObject, Part, TextPart
from harnessd.tools.arguments import BadSchema, compile_schema
from harnessd.tools.artifact_produced import BYTES_AT_MOST
from harnessd.tools.tool import Produced
from harnessd.tools.trim import SHOWN_AT_MOST

if TYPE_CHECKING:
    import mcp_types as types

TEXT_AT_MOST = SHOWN_AT_MOST
"""Characters of a resource that are shown as text; a longer one is kept as a file."""


def content_of(result: "types.CallToolResult") -> tuple[tuple[Part, ...], tuple[Produced, ...]]:
    """The result's texts and its files; the structured form only where there is nothing else to show."""
    parts: list[Part] = []
    files: list[Produced] = []
    for number, block in enumerate(result.content, 1):
        taken = _taken(block, number)
        if isinstance(taken, Produced):
            files.append(replace(taken, at=len(parts)))
        else:
            parts.append(TextPart(text=taken))
    if result.structured_content is not None and not any(isinstance(p, TextPart) and p.text.strip() for p in parts):
        parts.append(TextPart(text=json.dumps(result.structured_content, ensure_ascii=False)))
    return tuple(parts), tuple(files)


def misfit(schema: JsonObject, structured: Any) -> str | None:
    """Why the structured form of a result is not what the tool's `outputSchema` promises; None if it is."""
    if structured is None:
        return "the tool promises structured content and gave none"
    check = compile_schema(schema)
    if isinstance(check, BadSchema) or not isinstance(structured, dict):
        return None  # a promise that can't be checked
    findings = check(structured)
    if not findings:
        return None
    return f"the structured content breaks the tool's outputSchema: {findings[0].rule}"


def _taken(block: Any, number: int) -> str | Produced:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            ending = block.mime_type.partition(";")[0].rpartition("/")[2].partition("+")[0]
            return _file(block.data, f"{block.type}-{number}.{ending}", block.mime_type)
        case "resource_link":
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.name} at {block.uri}{about}]"
        case "resource":
            inner = block.resource
            name = unquote(str(inner.uri).partition("?")[0].rpartition("/")[2]) or f"resource-{number}"
            text = getattr(inner, "text", None)
            if text is None:
                return _file(inner.blob, name, inner.mime_type or "", title=str(inner.uri))
            if len(text) <= TEXT_AT_MOST:
                return f"[resource {inner.uri}]\n{text}"
            return Produced(name, text.encode(errors="replace"), inner.mime_type or "text/plain", title=str(inner.uri))
        case kind:
            return f"[{kind}; not shown]"


def _file(data: str, name: str, media_type: str, *, title: str = "") -> Produced | str:
    """The file in a block; a note if it is too large to be one (a third is what base64 adds), or is garbled."""
    if len(data) > BYTES_AT_MOST * 3 // 2:
        return f"[{name}, {len(data):,} characters; not kept: it is too large]"
    try:
        return Produced(name, b64decode("".join(data.split()), validate=True), media_type, title=title)
    except ValueError:
        return f"[{name}; not kept: it is no valid base64]"
