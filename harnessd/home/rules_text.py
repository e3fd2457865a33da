"""How an allow rule is put into the text of tools.json, leaving everything else as its writer wrote it."""

import codecs
import json
from dataclasses import dataclass

from harnessd.home.json_text import inserted, read_json
from harnessd.home.layout import TOOLS
from harnessd.home.problem import Problem
from harnessd.home.tools_file import read_tools


@dataclass(frozen=True, slots=True)
class NoPlace:
    """The rule cannot be put into this text: it is broken, or the rule would not count there."""

    message: str


def with_allow_rule(raw: bytes, rule: str) -> bytes | NoPlace:
    """`raw` with `rule` in its `allow` list; the same bytes if it stands there. Comments and layout stay."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return NoPlace("it is no text in UTF-8")
    parsed = read_json(text, TOOLS)
    if isinstance(parsed, Problem):
        return NoPlace(str(parsed))
    if not isinstance(parsed.value, dict):
        return NoPlace("it holds no object")
    allow = parsed.value.get("allow", [])
    if not isinstance(allow, list):
        return NoPlace("its allow is no list")
    if rule in allow:
        return raw
    quoted = json.dumps(rule, ensure_ascii=False)
    if "allow" in parsed.value:
        changed = inserted(text, parsed.offset(("allow",)) + 1, quoted, first_of=allow)
    else:
        changed = inserted(text, parsed.offset(()) + 1, f'"allow": [{quoted}]', first_of=parsed.value)
    mark = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    new = mark + changed.encode()
    tools, _ = read_tools(new)
    if tools is None or rule not in tools.allow:
        return NoPlace("the rule would not count in it")
    return new
