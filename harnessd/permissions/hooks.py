"""How does an operator's own program have a say before a tool runs?"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio
import orjson

from harnessd.facts.base import Record
from harnessd.facts.run import LayerAnswer
from harnessd.permissions.call import GateCall
from harnessd.permissions.pattern import BadRule, match, parse_rule
from harnessd.sandbox.outcome import Unavailable
from harnessd.sandbox.program import Ended, run_program

Hook = Callable[[GateCall], Awaitable[LayerAnswer]]
"""Answers for the layer `hooks`. Whatever it raises means a safety ask."""

_MOST_OUTPUT = 65_536


class HookReply(Record):
    """What a program prints on stdout, as JSON: `{"decision": "deny", "reason": "not on a Friday"}`."""

    decision: Literal["allow", "deny", "ask", "none"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProgramHook:
    """A `before_tool` program of the operator's.

    It gets the call as one JSON object on stdin (`tool`, `ownName`, `kind`, `arguments`, `effect`, `targets`,
    `originOfContext`, `remote`) and runs with `environment` and nothing else of the daemon's. It answers with a
    `HookReply` on stdout and exit code 0 (no output: no objection), or with exit code 2, which denies with stderr as
    the reason. Anything else, also no answer within `timeout` seconds, is a safety ask. `matching` is a rule; the
    program is started only for calls that it means.
    """

    command: tuple[str, ...]
    matching: str | None = None
    timeout: float = 10.0
    folder: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, call: GateCall) -> LayerAnswer:
        """The program's answer to `call`."""
        name = self.name
        if not self.concerns(call):
            return _answer("none", f"{name} is not asked about this tool")
        try:
            with anyio.fail_after(self.timeout):
                told = orjson.dumps(call.model_dump(mode="json", by_alias=True))
                ended = await run_program(self.command, told, environment=self.environment, folder=self.folder)
        except TimeoutError:
            return _answer("ask", f"{name} gave no answer within {self.timeout:g} s")
        except (OSError, ValueError) as error:
            return _answer("ask", f"{name} could not be run: {error}")
        if isinstance(ended, Unavailable):
            return _answer("ask", f"{name} could not be run: {ended.message}")
        return _read_reply(name, ended)

    @property
    def name(self) -> str:
        """What it is called in answers."""
        return self.command[0] if self.command else "(no command)"

    def concerns(self, call: GateCall) -> bool:
        """Whether it is asked about `call`."""
        if self.matching is None:
            return True
        rule = parse_rule(self.matching)
        return isinstance(rule, BadRule) or match(rule, call, {}, "deny") != "no"


def _read_reply(name: str, ended: Ended) -> LayerAnswer:
    out = ended.output
    if ended.status == 2:
        return _answer("deny", ended.errors.decode(errors="replace").strip()[:2000] or f"{name} denies it")
    if ended.status != 0:
        return _answer("ask", f"{name} failed with exit code {ended.status}")
    if not out.strip():
        return _answer("none", f"{name} has no objection")
    try:
        if len(out) > _MOST_OUTPUT:
            raise ValueError("more than 64 KiB")
        reply = HookReply.model_validate(orjson.loads(out))
    except ValueError:
        return _answer("ask", f'{name} answered with something else than {{"decision": …, "reason": …}}')
    return _answer(reply.decision, reply.reason or f"{name} says {reply.decision}")


def _answer(verdict: Literal["allow", "deny", "ask", "none"], reason: str) -> LayerAnswer:
    return LayerAnswer(layer="hooks", verdict=verdict, reason=reason, safety=verdict == "ask")
