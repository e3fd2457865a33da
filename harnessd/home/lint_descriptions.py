"""Does a description say when to use the thing and when not, and does each parameter say what it looks like?

A model chooses by descriptions alone. These are rules of thumb for English and Chinese, and a few words of other
languages; they rather miss a vague text than blame a clear one.
"""

import re
from collections.abc import Iterator

from harnessd.facts.message import JsonObject
from harnessd.home.problem import Problem

_WHEN = re.compile(
    r"\b(?:when|whenever|if|before|after|during|while|for|on|once|use (?:it|this|to|in)|give it|need(?:s|ed)?)\b|"
    r"时|時|的时候|用于|适用|用来|如果|在…|之前|之后|とき|場合|"
    r"\b(?:wenn|falls|bei|quand|lorsque|cuando|quando)\b|когда",
    re.IGNORECASE,
)
_WHEN_NOT = re.compile(
    r"\b(?:not|never|don't|doesn't|isn't|instead|rather|except|unless|only|avoid|skip|no longer|nothing but|"
    r"nicht|nie|sauf|jamais|nunca|salvo)\b|不|勿|别|別|非|除了|除非|仅|僅|只|避免|而是|ない|のみ|только|не ",
    re.IGNORECASE,
)
_SHAPE = re.compile(
    r"e\.g\.|for example|for instance|such as|\blike\b|example|format|\bISO\b|YYYY|[\"`“「『]|"
    r"\b(?:paths?|urls?|uri|ids?|names?|json|yaml|markdown|regex|regular expression|glob|cron|date|time|seconds?|"
    r"milliseconds?|minutes?|hours?|days?|bytes?|characters?|lines?|percent|number of|text|words?|one of|whether)\b|"
    r"[:：]\s*\S|例如|比如|譬如|示例|举例|格式|如[:：“「]|路径|网址|名称|编号|文本|日期|时间|秒|字节|例えば|例:|形式",
    re.IGNORECASE,
)
_FORMATS = {
    "enum", "const", "format", "pattern", "examples", "example", "default", "$ref", "contentMediaType", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
}  # fmt: skip


def about_description(description: str, what: str, path: str, line: int) -> tuple[Problem, ...]:
    """What is missing in the description of a `what` ("skill"); nothing where there is no description at all,
    which others report.
    """
    if not description.strip():
        return ()
    if not _WHEN.search(description):
        message = f"the description does not say when to use this {what}; the model chooses by it"
        return (_problem(path, line, "description-when", "warning", message, "add a sentence: Use when …, not for …"),)
    if not _WHEN_NOT.search(description):
        message = f"the description does not say when not to use this {what}, so it may be used for too much"
        return (_problem(path, line, "description-when-not", "notice", message, "add what it is not for: Not for …"),)
    return ()


def unclear_parameters(schema: JsonObject, above: str = "", depth: int = 0) -> Iterator[str]:
    """The names (`filter.since`) of the parameters in a JSON schema that have neither a format nor an example."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or depth > 3:
        return
    for name, one in properties.items():
        if not isinstance(one, dict):
            continue
        inner = one.get("items") if isinstance(one.get("items"), dict) else one
        if isinstance(inner, dict) and isinstance(inner.get("properties"), dict):
            yield from unclear_parameters(inner, f"{above}{name}.", depth + 1)
        elif not _is_clear(one) and not (inner is not one and isinstance(inner, dict) and _is_clear(inner)):
            yield f"{above}{name}"


def _is_clear(parameter: JsonObject) -> bool:
    if parameter.get("type") in {"boolean", "null"} or _FORMATS & set(parameter):
        return True
    choices = parameter.get("anyOf") or parameter.get("oneOf")
    if isinstance(choices, list) and all(isinstance(one, dict) and _is_clear(one) for one in choices):
        return True
    return bool(_SHAPE.search(str(parameter.get("description", ""))))


def _problem(path: str, line: int, code: str, severity: str, message: str, fix: str) -> Problem:
    return Problem.model_validate(
        {"path": path, "line": line, "code": code, "severity": severity, "message": message, "fix": fix}
    )
