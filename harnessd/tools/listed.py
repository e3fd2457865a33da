"""Which of the tools that a server lists can be used, and what exactly does it say of them?"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from harnessd.facts.message import JsonObject
from harnessd.home.hidden import strip_hidden

TOOL_AT_MOST = 64 * 1024
"""Characters of one tool's schemas; a larger one is left out."""

DESCRIPTION_KEPT = 8_000
"""Characters of a description that are kept to compare; of a longer one its hash stands for the rest."""

SAID = ("title", "description", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server describes it; the schemas as they came.

    `said` is all that could steer a model or a gate, as one text: what is accepted, compared and shown as a diff.
    """

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    read_only: bool
    idempotent: bool
    said: str

    @property
    def for_library(self) -> JsonObject:
        """The tool as the MCP library gets it: without the schema of its results, against which it is checked here."""
        return {"name": self.name, "description": self.description, "inputSchema": self.input_schema}


@dataclass(frozen=True, slots=True)
class Unusable:
    """An entry of the list that is no usable tool, and why, in words that follow the server's name."""

    reason: str


def listed_tool(raw: object, at: int) -> ListedTool | Unusable:
    """The tool in an entry of the list, the `at`th of its page. Never raises."""
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        return Unusable(f"entry {at} of its list is left out: it is no tool with a name")
    name, schema = raw["name"], raw.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return _left_out(name, 'its inputSchema is no object with "type": "object"')
    description, output = raw.get("description"), raw.get("outputSchema")
    if description is not None and not isinstance(description, str):
        return _left_out(name, "its description is no text")
    hints = _object(raw.get("annotations"))
    title = next((one for one in (raw.get("title"), hints.get("title")) if isinstance(one, str)), "")
    try:
        said = _said(raw)
    except (ValueError, RecursionError):
        return _left_out(name, "it cannot be written down")
    if len(said) > TOOL_AT_MOST:
        return _left_out(name, f"its schemas have {len(said):,} characters")
    shown = json.dumps(schema, ensure_ascii=False)
    if strip_hidden(shown) != shown:
        return _left_out(name, "its inputSchema holds characters that a person cannot see")
    read_only = hints.get("readOnlyHint") is True
    return ListedTool(
        name=name,
        description=description or title,
        input_schema=schema,
        output_schema=output if isinstance(output, dict) else None,
        read_only=read_only,
        idempotent=read_only or hints.get("idempotentHint") is True,
        said=said,
    )


def _said(raw: JsonObject) -> str:
    kept = {key: raw[key] for key in SAID if key in raw}
    description = str(raw.get("description") or "")
    if len(description) > DESCRIPTION_KEPT:
        digest = hashlib.sha256(description.encode("utf-8", "surrogatepass")).hexdigest()
        kept["description"] = f"{description[:DESCRIPTION_KEPT]} [… {len(description):,} characters, sha256 {digest}]"
    return json.dumps(kept, ensure_ascii=False, sort_keys=True, indent=1)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _left_out(name: str, why: str) -> Unusable:
    return Unusable(f"the tool {name[:100]!r} is left out: {why}")
