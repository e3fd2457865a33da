"""How an allow rule is put into the text of tools.json, leaving everything else as its writer wrote it."""

import json
import re


def with_allow_rule(raw: bytes, rule: str) -> bytes:
    """`raw` with `rule` in its `allow` list; the same bytes if it stands there. Comments and layout stay.

    Raises `ValueError` if no place for it can be found.
    """
    text = raw.decode("utf-8-sig")
    quoted = json.dumps(rule, ensure_ascii=False)
    found = re.search(r'"allow"\s*:\s*\[', text)
    if found is not None:
        end = text.index("]", found.end())
        inside = text[found.end() : end]
        if quoted in inside:
            return raw
        if not inside.strip():
            changed = text[: found.end()] + quoted + text[end:]
        else:
            separator = re.match(r"\s*", inside)
            space = separator.group() if separator else ""
            changed = text[: found.end()] + space + quoted + "," + (inside if space else " " + inside) + text[end:]
    else:
        start = text.find("{")
        if start < 0:
            raise ValueError("tools.json holds no object")
        empty = not text[start + 1 :].strip().rstrip("}").strip()
        changed = f'{text[: start + 1]}\n  "allow": [{quoted}]{"" if empty else ","}{text[start + 1 :]}'
    return changed.encode()
