"""RFC 6902 as written there, for what a stream sends: add, remove, replace."""

import copy
from typing import Any


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The document after the operations; raises where RFC 6902 says that a patch fails."""
    document = copy.deepcopy(document)
    for operation in operations:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        parent = document
        for step in steps[:-1]:
            parent = parent[int(step)] if isinstance(parent, list) else parent[step]
        last = steps[-1]
        match operation["op"], parent:
            case "add", list():
                at = len(parent) if last == "-" else int(last)
                assert 0 <= at <= len(parent)
                parent.insert(at, operation["value"])
            case "add", dict():
                parent[last] = operation["value"]
            case "remove", list():
                del parent[int(last)]
            case "remove", dict():
                del parent[last]
            case "replace", list():
                parent[int(last)] = operation["value"]
            case "replace", dict():
                assert last in parent
                parent[last] = operation["value"]
            case other:
                raise AssertionError(other)
    return document
