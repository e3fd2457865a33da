"""What is wrong with a value that breaks its schema, in words for whoever wrote it?"""

import re

_SAID = {
    "Input should be a valid tuple": "must be a list",
    "Input should be a valid dictionary": "must be an object",
    "Input should be an object": "must be an object",
    "Extra inputs are not permitted": "is not known here",
    "Field required": "is missing",
}


def misfit(message: str) -> str:
    """The validator's own `message`, as it goes on after the name of the value: "must be a list", "is missing"."""
    if message in _SAID:
        return _SAID[message]
    told = re.sub(r"^Input should be ", "must be ", re.sub(r"^Value error, ", "", message))
    return told[:1].lower() + told[1:]
