"""Which plain sentences the offline model understands, and what each asks for."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import orjson

from harnessd.facts.message import JsonObject
from harnessd.ids import slug


@dataclass(frozen=True)
class Ask:
    """Call this tool. An object of arguments is fitted to the tool's schema; a text is sent as written."""

    tool: str
    arguments: JsonObject | str


@dataclass(frozen=True)
class Question:
    """Answer from the prompt."""

    kind: Literal["who", "what", "how", "help"]
    about: str = ""


@dataclass(frozen=True)
class Say:
    """Answer with exactly this text."""

    text: str


@dataclass(frozen=True)
class Remark:
    """A sentence that is none of the list."""

    text: str


Instruction = Ask | Question | Say | Remark

EXAMPLES = (
    ("", "who are you"),
    ("", "what do you know about …"),
    ("remember", "remember that …"),
    ("forget", "forget …"),
    ("write", "learn a skill NAME: step; step"),
    ("skill", "how do I …"),
    ("skill", "use skill NAME"),
    ("read", "read FILE"),
    ("write", "write FILE: text"),
    ("edit", "in FILE replace OLD with NEW"),
    ("execute", "run COMMAND"),
    ("execute", "run in the background COMMAND"),
    ("execute", "look at JOB"),
    ("connect", "list the servers"),
    ("connect", "try the server URL or COMMAND"),
    ("connect", "attach the server NAME: URL or COMMAND"),
    ("delegate", "delegate to NAME: task"),
    ("todo", "todo: first; second"),
    ("conclude", "conclude that …"),
    ("", "call TOOL {json}"),
    ("", "say …"),
)
"""(the tool that it needs, if any; a sentence that is understood)."""


def read_sentences(text: str) -> tuple[tuple[Instruction, ...], ...]:
    """The instructions of a message, one a line; a line that begins with "then" starts a new batch.

    A sentence that ends in a colon takes the lines up to the next empty one as its text; list items and
    indented lines belong to the sentence before them.
    """
    batches: list[list[Instruction]] = [[]]
    for then, block in _blocks(text):
        if then and batches[-1]:
            batches.append([])
        batches[-1].append(_instruction(block))
    return tuple(tuple(batch) for batch in batches)


@dataclass(frozen=True)
class _Sentence:
    pattern: re.Pattern[str]
    make: Callable[[re.Match[str]], Instruction]
    takes_body: bool = False


@dataclass
class _Block:
    lines: list[str] = field(default_factory=list)
    open: bool = False


def _blocks(text: str) -> list[tuple[bool, str]]:
    found: list[tuple[bool, _Block]] = []
    for line in text.splitlines():
        if not line.strip():
            if found:
                found[-1][1].open = False
            continue
        last = found[-1][1] if found else None
        if last is not None and (last.open or re.match(r"\s+\S|[-*•]\s|\d+[.)]\s", line)):
            last.lines.append(line)
            continue
        bare = re.sub(r"^\s*(?:please,?\s+|and\s+)", "", line.strip(), flags=re.IGNORECASE)
        then = re.match(r"(?:and\s+)?then,?\s+(.*)", bare, re.IGNORECASE)
        body = then[1] if then else bare
        opens = body.rstrip().endswith(":") and any(s.takes_body and s.pattern.match(body) for s in _SENTENCES)
        found.append((then is not None, _Block([body], opens)))
    return [(then, "\n".join(block.lines)) for then, block in found]


def _instruction(block: str) -> Instruction:
    for sentence in _SENTENCES:
        if match := sentence.pattern.fullmatch(block.strip()):
            return sentence.make(match)
    return Remark(block.strip())


def _skill(name: str, steps: str) -> Ask:
    title = " ".join(name.split())
    wanted = slug(title) or "skill"
    listed = [step.strip() for step in re.split(r"\n|;", steps) if step.strip()]
    bare = [re.sub(r"^(?:[-*•]|\d+[.)])\s*", "", step) for step in listed]
    body = "\n".join(f"{number}. {step}" for number, step in enumerate(bare, 1))
    description = orjson.dumps(f"How to {title.replace('-', ' ')}. Use it when asked how to do that.").decode()
    content = f"---\nname: {wanted}\ndescription: {description}\n---\n\n# {title}\n\n{body}\n"
    return Ask("write", {"path": f"skills/{wanted}/SKILL.md", "content": content})


def _server(said: str) -> JsonObject:
    """A server that is reached at a URL, or started by a command."""
    text = _unquoted(said)
    if re.match(r"https?://\S+$", text):
        return {"url": text}
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that nobody closed
        words = text.split()
    command, rest = (words[0], words[1:]) if words else (text, [])
    return {"command": command, "args": rest} if rest else {"command": command}


def _row(pattern: str, make: Callable[[re.Match[str]], Instruction], *, takes_body: bool = False) -> _Sentence:
    return _Sentence(re.compile(pattern, re.IGNORECASE | re.DOTALL), make, takes_body)


def _unquoted(text: str) -> str:
    bare = text.strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "`\"'" else bare


_SENTENCES: tuple[_Sentence, ...] = (
    _row(r"call ([\w.-]+)\s*(.*)", lambda m: Ask(m[1], m[2].strip() or "{}")),
    _row(r"say:?\s+(.+)", lambda m: Say(_unquoted(m[1]))),
    _row(r"remember(?: that)?:?\s+(.+)", lambda m: Ask("remember", {"text": m[1].strip()}), takes_body=True),
    _row(r"forget(?: that| about)?:?\s+(.+)", lambda m: Ask("forget", {"text": m[1].strip()})),
    _row(
        r"learn (?:a |the )?(?:new )?skill ([^:\n]+):\s*(.*)",
        lambda m: _skill(_unquoted(m[1]), m[2]),
        takes_body=True,
    ),
    _row(r"use (?:the )?skill ([^\n]+?)\.?", lambda m: Ask("skill", {"name": _unquoted(m[1])})),
    _row(r"how (?:do|can|should) (?:I|you|we|one) (.+?)\??", lambda m: Question("how", m[1].strip())),
    _row(
        r"write (?:to )?(\S+?):\s*(.*)",
        lambda m: Ask("write", {"path": _unquoted(m[1]), "content": m[2].strip() + "\n"}),
        takes_body=True,
    ),
    _row(
        r"in (\S+?),? replace (.+?) (?:with|by) (.+)",
        lambda m: Ask("edit", {"path": _unquoted(m[1]), "edits": [{"old": _unquoted(m[2]), "new": _unquoted(m[3])}]}),
    ),
    _row(r"read (?:the file )?(\S+?)\.?", lambda m: Ask("read", {"path": _unquoted(m[1])})),
    _row(
        r"(?:run|start) in (?:the )?background:?\s+(.+)",
        lambda m: Ask("execute", {"command": _unquoted(m[1]), "background": True}),
        takes_body=True,
    ),
    _row(
        r"(look at|stop) (?:the )?(?:job )?(job_\S+?)\.?",
        lambda m: Ask("execute", {"job": m[2], "action": "stop" if m[1].lower() == "stop" else "look"}),
    ),
    _row(r"(?:list|show|which) (?:the |my |your )?servers\b.*", lambda _: Ask("connect", {"action": "list"})),
    _row(
        r"(try|attach) (?:the |a )?server(?: ([A-Za-z0-9_-]+):)?\s+(.+)",
        lambda m: Ask("connect", {"action": m[1].lower(), **({"name": m[2]} if m[2] else {}), **_server(m[3])}),
    ),
    _row(r"detach (?:the )?server (\S+?)\.?", lambda m: Ask("connect", {"action": "detach", "name": m[1]})),
    _row(r"run:?\s+(.+)", lambda m: Ask("execute", {"command": _unquoted(m[1])}), takes_body=True),
    _row(
        r"delegate (?:this )?to ([\w-]+):\s*(.+)",
        lambda m: Ask("delegate", {"agent": m[1], "task": m[2].strip()}),
        takes_body=True,
    ),
    _row(
        r"to-?do:?\s+(.+)",
        lambda m: Ask("todo", {"items": [part.strip(" -*\t") for part in re.split(r";|\n", m[1]) if part.strip()]}),
        takes_body=True,
    ),
    _row(r"conclude(?: that)?:?\s+(.+)", lambda m: Ask("conclude", {"text": m[1].strip()})),
    _row(r"who are you\b.*", lambda _: Question("who")),
    _row(r"what do you know(?: about (.+?))?\??", lambda m: Question("what", m[1] or "")),
    _row(r"what (?:is|are) (?:my|our|the) (.+?)\??", lambda m: Question("what", m[1])),
    _row(r"do you remember (.+?)\??", lambda m: Question("what", m[1])),
    _row(r"(?:help|what can you do)\b.*", lambda _: Question("help")),
)
