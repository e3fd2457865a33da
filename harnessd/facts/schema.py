"""The JSON Schemas of everything on the wire and on disk, made from the models themselves."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from harnessd.facts.control import Control
from harnessd.facts.event import EVENT_TYPES, AssistantReasoningDelta, AssistantTextDelta, ToolCallDelta
from harnessd.facts.state import State
from harnessd.facts.view import View

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schema (2020-12) by name: `events`, `deltas`, `state`, `view`, `control`."""
    deltas = (AssistantTextDelta, AssistantReasoningDelta, ToolCallDelta)
    return {
        "events": _union("events", tuple(EVENT_TYPES.values())),
        "deltas": _union("deltas", deltas),
        "state": {"$schema": DIALECT} | State.model_json_schema(mode="serialization"),
        "view": {"$schema": DIALECT} | View.model_json_schema(mode="serialization"),
        "control": {"$schema": DIALECT, "title": "control"} | TypeAdapter(Control).json_schema(),
    }


def _union(title: str, models: tuple[type[Any], ...]) -> dict[str, Any]:
    refs, definitions = models_json_schema([(model, "serialization") for model in models])
    return {
        "$schema": DIALECT,
        "title": title,
        "oneOf": [refs[model, "serialization"] for model in models],
        **definitions,
    }
