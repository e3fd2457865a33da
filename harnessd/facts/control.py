"""What may the outside ask of a session?"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, TypeAdapter
from pydantic.alias_generators import to_camel

from harnessd.facts.message import JsonObject, Part


class _Control(BaseModel):
    """Controls come from outside and are read strictly: an unknown field is an error that names it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        defer_build=True,
    )


class Invoke(_Control):
    """Say something to the agent; when it is busy the message queues, steers or is rejected."""

    control: Literal["invoke"] = "invoke"
    input: str | tuple[Part, ...]
    workspace_context: JsonObject | None = None
    expected_seq: int | None = None
    when_busy: Literal["queue", "steer", "reject"] = "queue"


class Resume(_Control):
    """Decide an approval, or withdraw it: then the call is not made, and nobody has denied it."""

    control: Literal["resume"] = "resume"
    approval_id: str
    decision: Literal["allow", "deny", "cancel"]
    scope: Literal["once", "session", "always"] = "once"
    arguments: JsonObject | None = None
    note: str = ""


class Continue(_Control):
    """Let a run go on that is parked, or was interrupted and not taken up since."""

    control: Literal["resume"] = "resume"
    run_id: str
    decision: Literal["continue"]


class Stop(_Control):
    """End a run with its subagents, or everything in the session with its queue."""

    control: Literal["stop"] = "stop"
    run_id: str | None = None
    scope: Literal["run", "session"] = "run"


class UpdateState(_Control):
    """Change todos, title, workspaceContext or mode by a JSON merge patch of the state at `expected_seq`, if given."""

    control: Literal["updateState"] = "updateState"
    patch: JsonObject
    expected_seq: int | None = None


class Reload(_Control):
    """Read the home anew now and reconnect its servers."""

    control: Literal["reload"] = "reload"


def _kind(value: Any) -> str:
    control = value.get("control") if isinstance(value, dict) else getattr(value, "control", None)
    decision = value.get("decision") if isinstance(value, dict) else getattr(value, "decision", None)
    return "continue" if control == "resume" and decision == "continue" else str(control)


Control = Annotated[
    Annotated[Invoke, Tag("invoke")]
    | Annotated[Resume, Tag("resume")]
    | Annotated[Continue, Tag("continue")]
    | Annotated[Stop, Tag("stop")]
    | Annotated[UpdateState, Tag("updateState")]
    | Annotated[Reload, Tag("reload")],
    Discriminator(
        _kind,
        custom_error_type="control",
        custom_error_message="`control` must be one of invoke, resume, stop, updateState, reload",
    ),
]


def read_control(data: Any) -> Invoke | Resume | Continue | Stop | UpdateState | Reload:
    """The control in `data`; raises pydantic's `ValidationError`, which names the field and the rule."""
    adapter: TypeAdapter[Invoke | Resume | Continue | Stop | UpdateState | Reload] = TypeAdapter(Control)
    return adapter.validate_python(data)
