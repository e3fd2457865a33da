"""What has changed from one record to the next, as a JSON Patch (RFC 6902) of what they look like on the wire.

On the wire a record leaves out what is None (`to_json(record, exclude_none=True)`), also in a patch.

Records are frozen and share what did not change, so most of a view is known to be equal without a look at it.
Lists of things with an id are compared by id: a window that slides costs the few messages that enter and leave.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any

from harnessd.facts.base import Record

Operation = dict[str, Any]
"""`{"op", "path", "value"?}`; the value may be a record, which is written as it is everywhere on the wire."""

_LISTS = {list, tuple}
_PLAIN = {str, int, float, bool, type(None)}


def patch(old: Record, new: Record) -> list[Operation]:
    """The operations that make the JSON of `new` from that of `old`; none if they are equal."""
    found: list[Operation] = []
    _records(found, "", old, new)
    return found


def _records(found: list[Operation], at: str, old: Record, new: Record) -> None:
    before, after = old.__dict__, new.__dict__
    for name, value in after.items():
        # Most are the same object, or the same text; of these it is settled here.
        was = before[name]
        if was is not value and not (type(value) is str and value == was):
            alias = type(new).model_fields[name].serialization_alias or name
            _field(found, f"{at}/{_escaped(alias)}", was, value)
    extra, extra_now = old.__pydantic_extra__ or {}, new.__pydantic_extra__ or {}
    for name in {**extra, **extra_now}:
        _field(found, f"{at}/{_escaped(name)}", extra.get(name), extra_now.get(name))


def _field(found: list[Operation], at: str, old: Any, new: Any) -> None:
    """A member of a record: None is an absent one on the wire."""
    if old is None and new is not None:
        found.append({"op": "add", "path": at, "value": new})
    elif old is not None and new is None:
        found.append({"op": "remove", "path": at})
    else:
        _values(found, at, old, new)


def _values(found: list[Operation], at: str, old: Any, new: Any) -> None:
    if old is new:
        return
    kind, was = type(new), type(old)
    # By type and not by isinstance, which takes pydantic some microseconds, and a view has some hundred values.
    if kind in _LISTS and was in _LISTS:
        _lists(found, at, old, new)
    elif kind is dict and was is dict:
        _objects(found, at, old, new)
    elif kind is was and kind not in _PLAIN:
        _records(found, at, old, new)
    elif kind is not was or old != new:
        found.append({"op": "replace", "path": at, "value": new})


def _objects(found: list[Operation], at: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    found.extend({"op": "remove", "path": f"{at}/{_escaped(key)}"} for key in old.keys() - new.keys())
    for key, value in new.items():
        if key in old:
            _values(found, f"{at}/{_escaped(key)}", old[key], value)
        else:
            found.append({"op": "add", "path": f"{at}/{_escaped(key)}", "value": value})


def _lists(found: list[Operation], at: str, old: Sequence[Any], new: Sequence[Any]) -> None:
    """What left at the front goes first; then what both begin and end with stays, and the middle is exchanged."""
    if len(old) == len(new) and all(map(is_, old, new)):
        return
    was, now = [_identity(one) for one in old], [_identity(one) for one in new]
    left = was.index(now[0]) if now and isinstance(now[0], str) and now[0] in was else 0
    found.extend({"op": "remove", "path": f"{at}/0"} for _ in range(left))
    old, was = old[left:], was[left:]
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if was[n] != now[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if was[-1 - n] != now[-1 - n]), rest)
    gone, come = len(old) - head - tail, len(new) - head - tail
    for n in range(head + min(gone, come)):
        _values(found, f"{at}/{n}", old[n], new[n])
    found.extend({"op": "remove", "path": f"{at}/{head + come}"} for _ in range(come, gone))
    found.extend({"op": "add", "path": f"{at}/{n}", "value": new[n]} for n in range(head + gone, head + come))
    for n in range(tail, 0, -1):
        _values(found, f"{at}/{len(new) - n}", old[-n], new[-n])


def _identity(value: Any) -> object:
    """What makes a thing the one it is, even if it changes: its id, else its place, for which its kind stands."""
    kind = type(value)
    if kind in _PLAIN or kind in _LISTS or kind is dict:
        return kind
    held = value.__dict__
    return held.get("id") or held.get("tool_call_id") or kind


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
