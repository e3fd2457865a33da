"""What may a patch of the state change, and to what? Everything else is refused before it is recorded."""

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harnessd.daemon.answer import Refused
from harnessd.facts.message import JsonObject
from harnessd.facts.misfit import misfit
from harnessd.facts.run import Mode, Todo
from harnessd.permissions.modes import narrower


def check_patch(patch: JsonObject, ceiling: Mode) -> Refused | None:
    """Why the merge patch cannot be recorded: 400 for a wrong field or value, 403 for a mode above the ceiling."""
    unknown = set(patch) - {"todos", "title", "workspaceContext", "mode"}
    if unknown:
        return Refused(400, f"the patch may change todos, title, workspaceContext and mode, not {sorted(unknown)}")
    try:
        asked = _Patch.model_validate(patch)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return Refused(400, f"{place}: {misfit(first['msg'])}")
    if asked.mode is not None and narrower(asked.mode, ceiling) != asked.mode:
        return Refused(403, f"the operator's ceiling is {ceiling}")
    return None


class _Patch(BaseModel):
    """What a patch may set, read strictly: what is recorded stays, and a state that cannot hold it would drop it."""

    model_config = ConfigDict(frozen=True, strict=True)

    todos: tuple[Todo, ...] | None = Field(default=None, strict=False)
    title: str | None = None
    workspaceContext: JsonObject | None = None  # noqa: N815 - as it is on the wire
    mode: Mode | None = None
