"""The offline model: not an AI, a small program that reads the prompt and obeys a short list of sentences.

It stands behind the same interface as every model, so the whole machine can be tried and tested with no key
and no network. The same request always gets the same reply.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.lowlevel
import orjson

from harnessd.facts.message import (
    AssistantMessage,
    JsonObject,
    Message,
    ToolMessage,
    Usage,
    UserMessage,
    text_of,
)
from harnessd.models.chunk import Chunk, Finished, TextDelta, ToolCallDelta, UsageReport
from harnessd.models.estimate import estimate_request, estimate_text
from harnessd.models.portrait import Portrait, read_portrait
from harnessd.models.request import ModelRequest, ToolSpec
from harnessd.models.sentences import EXAMPLES, Ask, Instruction, Question, Remark, Say, read_sentences

SELF = "the offline model of harnessd: not an AI, a small program that obeys a short list of sentences"
_PIECE = 24
_WRITERS = frozenset({"remember", "forget", "write", "edit"})
_REPORT_CHARS = 2_000
_REPORT_CHARS_EACH = 400
"""How much of each result is told when there are several."""
_PAST = {
    "Add": "Added",
    "Correct": "Corrected",
    "Edit": "Edited",
    "Forget": "Forgot",
    "Remember": "Remembered",
    "Remove": "Removed",
}
"""The home's commits are in the imperative; whoever made one tells of it in the past tense."""


class OfflineModel:
    """Answers from the request alone; see `Models.stream`."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The chunks of one reply, in small pieces."""
        turn = answer(request)
        said = len(turn.text)
        for start in range(0, len(turn.text), _PIECE):
            yield TextDelta(turn.text[start : start + _PIECE])
            await anyio.lowlevel.checkpoint()
        for index, (name, arguments) in enumerate(turn.calls):
            said += len(name) + len(arguments)
            yield ToolCallDelta(index=index, id=f"offline-{index}", name=name)
            for start in range(0, len(arguments), _PIECE):
                yield ToolCallDelta(index=index, arguments=arguments[start : start + _PIECE])
                await anyio.lowlevel.checkpoint()
        yield UsageReport(
            Usage(
                input_tokens=estimate_request(request),
                output_tokens=estimate_text(said),
                cost=0.0,
                estimated=True,
            )
        )
        yield Finished("tool_calls" if turn.calls else "stop", request.model)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Turn:
    """One reply: a text, and calls as (tool, arguments as JSON text)."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()


def answer(request: ModelRequest) -> Turn:
    """What the offline model replies to a request."""
    if request.purpose == "summary":
        return Turn(_summary(request.messages))
    if request.purpose == "classifier":
        return Turn("ask")
    if request.purpose == "maintenance":
        return Turn("nothing")
    task, since = _task(request.messages)
    batches = read_sentences(task)
    done = sum(1 for message in since if isinstance(message, AssistantMessage) and message.tool_calls)
    portrait = read_portrait(request.system)
    offered = {tool.name: tool for tool in request.tools}
    # The batches that call something go one a turn; all questions are answered at the end.
    calling = [calls for batch in batches if (calls := _calls(batch, portrait, offered))]
    if done < len(calling):
        return Turn(calls=calling[done])
    results = [message for message in since if isinstance(message, ToolMessage)]
    limit = _REPORT_CHARS if len(results) == 1 else _REPORT_CHARS_EACH
    said = [_report(message, limit) for message in results]
    said += [text for batch in batches for one in batch if (text := _say(one, portrait, offered))]
    return Turn(portrait.dress("\n\n".join(said) or _introduction(task, offered)))


def _task(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The text of the last input of a person (else of any user message), and what came after it."""
    last = None
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, UserMessage):
            if message.kind == "input":
                return text_of(message), messages[position + 1 :]
            last = position if last is None else last
    return ("", ()) if last is None else (text_of(messages[last]), messages[last + 1 :])


def _calls(
    batch: tuple[Instruction, ...], portrait: Portrait, offered: dict[str, ToolSpec]
) -> tuple[tuple[str, str], ...]:
    asked: list[tuple[str, str]] = []
    for one in batch:
        ask = _as_ask(one, portrait)
        if ask is None:
            continue
        if isinstance(ask.arguments, str):
            asked.append((ask.tool, ask.arguments))
        elif tool := offered.get(ask.tool):
            asked.append((tool.name, orjson.dumps(_fit(ask.arguments, tool)).decode()))
    return tuple(asked)


def _as_ask(one: Instruction, portrait: Portrait) -> Ask | None:
    if isinstance(one, Ask):
        return one
    if isinstance(one, Question) and one.kind == "how" and (name := portrait.skill_for(one.about)):
        return Ask("skill", {"name": name})
    return None


def _fit(arguments: JsonObject, tool: ToolSpec) -> JsonObject:
    """The arguments under the names that the tool's schema has, where it is clear which is meant."""
    properties: JsonObject = tool.input_schema.get("properties") or {}
    if not properties:
        return arguments
    fitted: JsonObject = {}
    free = [name for name in tool.input_schema.get("required") or properties if name not in arguments]
    for name, value in arguments.items():
        target = name
        if name not in properties:
            wanted = "array" if isinstance(value, list) else "string"
            target = next((one for one in free if properties.get(one, {}).get("type", wanted) == wanted), name)
            free = [one for one in free if one != target]
        fitted[target] = _fit_items(value, properties.get(target, {})) if isinstance(value, list) else value
    return fitted


def _fit_items(values: list[Any], schema: JsonObject) -> list[Any]:
    item: JsonObject = schema.get("items") or {}
    fields: JsonObject = item.get("properties") or {}
    if not fields or not all(isinstance(value, str) for value in values):
        return values
    texts = [name for name, field in fields.items() if field.get("type") == "string" and "enum" not in field]
    named = next((name for name in ("text", "title", "content", "task") if name in texts), next(iter(texts), "text"))
    fixed = {name: field["enum"][0] for name, field in fields.items() if field.get("enum")}
    return [{named: value, **fixed} for value in values]


def _say(one: Instruction, portrait: Portrait, offered: dict[str, ToolSpec]) -> str:
    match one:
        case Say(text):
            return text
        case Remark(text):
            return _introduction(text, offered)
        case Ask(tool, arguments):
            if isinstance(arguments, str) or tool in offered:
                return ""
            return f"I would call {tool} for that, but it is not offered to me here."
        case Question("who"):
            who = portrait.who() or "Nothing in AGENTS.md says who I am."
            return f"{who}\n\n(Here answers {SELF}.)"
        case Question("help"):
            return _introduction("", offered)
        case Question("how", about):
            if portrait.skill_for(about):
                return "" if "skill" in offered else "I have a skill for that, but cannot open it here."
            known = portrait.known(about)
            return f"I know no skill for that: {about}." + (f" What I know:\n{known}" if known else "")
        case Question(_, about):
            return portrait.known(about) or (
                f"I know nothing about {about}." if about else "I know nothing yet: MEMORY.md is empty."
            )


def _introduction(text: str, offered: dict[str, ToolSpec]) -> str:
    heard = f'I heard: "{text}". ' if text else ""
    listed = "\n".join(f"- {example}" for tool, example in EXAMPLES if not tool or tool in offered)
    return f"{heard}I am {SELF}. One a line, I understand:\n{listed}"


def _report(message: ToolMessage, limit: int) -> str:
    """A result as its caller tells it: its text, what the tool is called only where the text leaves it open."""
    text = text_of(message).strip()
    name = message.tool_name or "the tool"
    if name == "skill":
        text = re.sub(r"\A<skill[^>\n]*>\s*|\s*</skill>", "", text)
    if len(text) > limit:
        text = f"{text[:limit].rstrip()} … ({len(text)} characters in all)"
    if message.status != "ok":
        return f"{name} did not succeed ({message.status}): {text or 'no reason was given.'}"
    if not text:
        return f"{name}: done."
    if name in _WRITERS:
        return re.sub(r"\A\w+", lambda found: _PAST.get(found[0], found[0]), text)
    return f"{name}: {text}" if name.startswith("mcp__") else text


def _summary(messages: Sequence[Message]) -> str:
    """A summary in form only: the first words of each message of a person, and the last answer."""
    asked = [text_of(one) for one in messages if isinstance(one, UserMessage)]
    told = [text_of(one) for one in messages if isinstance(one, AssistantMessage) and text_of(one)]
    lines = [f"- {' '.join(text.split())[:120]}" for text in asked[-20:] if text.strip()]
    last = f"\n\nLast answer: {' '.join(told[-1].split())[:300]}" if told else ""
    return "The person asked:\n" + "\n".join(lines) + last
