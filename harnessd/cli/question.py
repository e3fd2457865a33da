"""How is the question of an MCP server shown at the terminal, and answered field by field?"""

import orjson

from harnessd.cli.harmless import harmless, one_line
from harnessd.cli.lines import Lines
from harnessd.cli.output import Output, Style
from harnessd.facts.message import JsonObject
from harnessd.facts.run import Question

WAYS = "[y] answer  [n] decline  [c] cancel  [l] later"
VISITED = "[y] done  [n] decline  [c] cancel  [l] later"
HELD = "its server waits only as long as the process that called it lives: answer from `harnessd chat` or with a daemon"


def question_text(question: Question, style: Style) -> str:
    """Who asks, what, and what is to be filled in; a page to visit is shown in full, never opened."""
    lines = [f"  {style.bold(one_line(question.server))} asks: {harmless(question.message).strip()}"]
    if question.url is not None:
        lines.append(f"  open this page yourself if you trust it: {style.place(harmless(question.url))}")
    lines += [f"  {_blank(*blank)}" for blank in question.blanks]
    return "\n".join(lines).replace("\n", "\n  ")


def options(question: Question) -> str:
    """What a command that answers has to be given beside the approval's id."""
    return "".join(f" --argument {one_line(name)}=…" for name, about, must in question.blanks if must)


async def fill_in(question: Question, lines: Lines, out: Output) -> JsonObject | None:
    """Asks for each field in turn, an empty line leaving it out; None if there is no more input."""
    answer: JsonObject = {}
    for name, about, must in question.blanks:
        said = await lines.next(f"  {_blank(name, about, must)} > ")
        if said is None:
            return None
        if said.strip():
            answer[name] = _value(said.strip(), about)
    return answer


def _blank(name: str, about: JsonObject, must: bool) -> str:
    """A field, what fits it, and what it is about."""
    choices = about.get("enum") or [one.get("const") for one in about.get("oneOf") or () if isinstance(one, dict)]
    kind = " | ".join(map(_shown, choices)) if choices else str(about.get("format") or about.get("type") or "any value")
    low, high = about.get("minimum", about.get("minLength")), about.get("maximum", about.get("maxLength"))
    limits = f", {'' if low is None else low}…{'' if high is None else high}" if (low, high) != (None, None) else ""
    need = f", {_shown(about['default'])} if empty" if "default" in about else "" if must else ", may be empty"
    title = about.get("description") or about.get("title") or ""
    told = f": {one_line(str(title), 120)}" if title and str(title).lower() != name.lower() else ""
    return f"{one_line(name)} ({one_line(kind, 200)}{limits}{need}){told}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _value(said: str, about: JsonObject) -> object:
    """What was typed, as the field's type has it; what does not fit is told by whoever checks it."""
    kind = about.get("type")
    if kind == "boolean" and said.lower() in {"y", "yes", "true", "n", "no", "false"}:
        return said.lower() in {"y", "yes", "true"}
    if kind == "array" and not said.startswith("["):
        return [one.strip() for one in said.split(",")]
    if kind == "string":
        return said
    try:
        return orjson.loads(said)
    except orjson.JSONDecodeError:
        return said
