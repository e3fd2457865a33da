"""What the scripted model says: the scenario's next step, told by how far the conversation in the request has come.

It holds no count of its own, so that a request which is made again after a kill gets the same answer again.
"""

import re
from collections.abc import Callable, Mapping

from harnessd.cli.conformance.evidence import Asked
from harnessd.cli.conformance.scenarios import BELOW, Scenario, Step, Use
from harnessd.facts.message import JsonObject
from harnessd.models.script import Answer, Call, Refusal, Request, ScriptedReply

_STEP = re.compile(r"\bStep (\d+)\.")
_TASK = re.compile(rf"\b{BELOW} (\d+)\b")
TOO_LONG = Refusal(400, {"error": {"code": "context_length_exceeded", "message": "the context is too long"}})


class Model:
    """Answers requests and keeps them. `on_request` is told the number of each before it is answered.

    `endless` is a command that never ends.
    """

    def __init__(self, scenario: Scenario, on_request: Callable[[int], None], endless: str) -> None:
        self.life = 0
        self.asked: list[Asked] = []
        self.offered: tuple[str, ...] = ()
        self._scenario = scenario
        self._on_request = on_request
        self._endless = endless

    def __call__(self, request: Request) -> ScriptedReply:
        """The answer to one request of the chat wire."""
        messages = tuple(message for message in request.body["messages"] if message["role"] != "system")
        task = _TASK.search("\n".join(_text(message) for message in messages if message["role"] == "user"))
        step = max((int(number) for message in messages for number in _STEP.findall(_said(message))), default=0)
        who = "summary" if not request.body.get("tools") else f"subagent {task[1]}" if task else "main"
        self.asked.append(Asked(self.life, who, step, messages))
        if who == "main" and not self.offered:
            self.offered = tuple(str(tool["function"]["name"]) for tool in request.body["tools"])
        self._on_request(len(self.asked))
        if who == "summary":
            return Answer(f"They are at Step {_farthest(messages)}. Nothing else matters.")
        if who == "main" and self._scenario.window and _size(messages) > self._scenario.window:
            return TOO_LONG
        steps = self._scenario.below if task else self._scenario.steps
        return _answer(steps, step, {"{n}": task[1] if task else "", "{endless}": self._endless})


def _answer(steps: tuple[Step, ...], done: int, words: Mapping[str, str]) -> Answer:
    if done >= len(steps):
        return Answer(f"Step {done + 1}. Done.")
    step = steps[done]
    return Answer(f"Step {done + 1}. {step.text}", calls=tuple(_call(use, words) for use in step.uses))


def _call(use: Use, words: Mapping[str, str]) -> Call:
    return Call(use.tool, {key: _filled(value, words) for key, value in use.arguments.items()})


def _filled(value: object, words: Mapping[str, str]) -> object:
    for word, meant in words.items() if isinstance(value, str) else ():
        value = str(value).replace(word, meant)
    return value


def _said(message: JsonObject) -> str:
    """The text of a message that tells how far it went: the model's own, or a summary of it."""
    return _text(message) if message["role"] in {"assistant", "user"} else ""


def _farthest(messages: tuple[JsonObject, ...]) -> int:
    return max((int(number) for message in messages for number in _STEP.findall(_text(message))), default=0)


def _size(messages: tuple[JsonObject, ...]) -> int:
    return sum(len(_text(message)) for message in messages)


def _text(message: JsonObject) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)
