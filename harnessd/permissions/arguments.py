"""Do the arguments of a call reach for something that no mode and no rule may open?"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harnessd.facts.message import JsonObject
from harnessd.facts.run import LayerAnswer, Mode
from harnessd.home.secrets import SHORTEST
from harnessd.permissions.call import EDITORS, GateCall, Target, changed_targets, effective_tier

if TYPE_CHECKING:
    from harnessd.permissions.shell import Judged


@dataclass(frozen=True, slots=True)
class ArgumentsContext:
    """What the checks know beside the call: the mode, the secret store's values, and who knows a token by its shape.

    `secret_kinds` takes a text and names the kinds of secrets in it ("GitHub token"), never the secrets. `programs`
    are the files and folders that the home has run.
    """

    mode: Mode = "default"
    secret_values: tuple[str, ...] = ()
    secret_kinds: Callable[[str], Iterable[str]] | None = None
    programs: tuple[str, ...] = ()


def arguments_answer(call: GateCall, context: ArgumentsContext) -> LayerAnswer:
    """The strictest answer of all checks: deny, else a safety ask, else none."""
    answers = [answer for check in CHECKS if (answer := check(call, context)) is not None]
    for verdict in ("deny", "ask"):
        for answer in answers:
            if answer.verdict == verdict:
                return answer
    return _nothing_against_it()


@functools.cache
def _nothing_against_it() -> LayerAnswer:
    return LayerAnswer(layer="arguments", verdict="none", reason="the arguments stay inside what is granted")


def check_paths(call: GateCall, _context: ArgumentsContext) -> LayerAnswer | None:
    """Outside, hidden and locked is denied; tier `ask`, remote content and other names of a file are asked about."""
    if call.kind == "builtin" and call.own_name in EDITORS and not changed_targets(call):
        return _deny("it names no path to change")
    asks = []
    for target in call.targets:
        answer = _check_target(target, call)
        if answer is not None and answer.verdict == "deny":
            return answer
        if answer is not None:
            asks.append(answer)
    return asks[0] if asks else None


def check_programs(call: GateCall, context: ArgumentsContext) -> LayerAnswer | None:
    """What a server, script or check of the home runs is changed only with a person's word: it would run as changed."""
    for target in changed_targets(call) if context.programs else ():
        for program in context.programs:
            if target.path == program or target.path.startswith(f"{program}/"):
                return _ask(f"{target.home_path or target.path}: tools.json has it run, so a change needs an approval")
    return None


def check_secrets(call: GateCall, context: ArgumentsContext) -> LayerAnswer | None:
    """A value of the secret store never leaves for a remote tool, and is asked about elsewhere.

    What only looks like a secret is asked about when it leaves.
    """
    known = [value for value in context.secret_values if len(value) >= SHORTEST]
    shapes = context.secret_kinds if call.remote else None
    if not known and shapes is None:
        return None
    suspicion: LayerAnswer | None = None
    for text in _texts(call.arguments):
        if any(value in text for value in known):
            if call.remote:
                return _deny("the arguments hold a value of the secret store, and the tool is remote")
            return _ask("the arguments hold a value of the secret store")
        if shapes is not None and suspicion is None and (kinds := tuple(shapes(text))):
            suspicion = _ask(f"the arguments hold what looks like a secret ({kinds[0]}), and the tool is remote")
    return suspicion


def check_shell(call: GateCall, context: ArgumentsContext) -> LayerAnswer | None:
    """A command line is asked about unless it is known to read, or to be daily work inside work/.

    A call that names no command looks at or ends what the agent itself began. What is understood but not known to be
    harmless is lifted by an allow rule, what is not understood by nothing but a person. Only `bypassPermissions` goes
    without these asks, which is what the mode is for; the sandbox holds there.
    """
    if call.kind != "builtin" or call.own_name != "execute" or context.mode == "bypassPermissions":
        return None
    command = call.arguments.get("command")
    if command is None and isinstance(call.arguments.get("job"), str):
        return None
    if not isinstance(command, str):
        return _ask("it names no command")
    from harnessd.permissions.shell import judge  # fifteen modules, which few starts need

    judged = judge(command)
    if judged.level == "unclear":
        return _ask(judged.reason)
    if judged.level == "unknown":
        return LayerAnswer(layer="arguments", verdict="ask", reason=judged.reason)
    if judged.level == "ordinary" and (program := _program_in(judged, context.programs)):
        return _ask(f"{program}: tools.json has it run, so a change needs an approval")
    return None


CHECKS: tuple[Callable[[GateCall, ArgumentsContext], LayerAnswer | None], ...] = (
    check_paths,
    check_programs,
    check_secrets,
    check_shell,
)


def _program_in(judged: "Judged", programs: Iterable[str]) -> str:
    """The first program of the home that a word of the line may mean; "" if there is none."""
    named = (*judged.targets, *(word for command in judged.commands for word in command.words[1:]))
    words = {f"/{word.text.removeprefix('./').rstrip('/')}" for word in named}
    for program in programs:
        if any(program.endswith(word) or f"{word}/" in program for word in words if len(word) > 1):
            return program
    return ""


def _check_target(target: Target, call: GateCall) -> LayerAnswer | None:
    shown = target.home_path or target.path
    if target.within == "outside":
        why = target.note or "it lies outside the home and the granted folders; `workdirs` grants a folder"
        return _deny(f"{shown}: {why}")
    if target.within == "hidden":
        return _deny(f"{shown}: it is hidden from the agent")
    if target.access == "read":
        return None
    if target.tier == "locked" or (target.within == "home" and target.tier is None):
        return _deny(f"{shown}: it is locked for the agent; files of its own belong in work/")
    if target.tier == "ask":
        return _ask(f"{shown}: a change of it needs an approval")
    if effective_tier(target, call.origin_of_context) == "ask":
        return _ask(f"{shown}: remote content is in the context, so a change of it needs an approval")
    if target.tier is None and ".git" in (step.casefold() for step in target.path.split("/")):
        return _ask(f"{shown}: git would run or obey what is written there")
    if target.shared and target.access == "write":
        return _ask(f"{shown}: the file has another name elsewhere (a hard link), which would change too")
    return None


def _texts(value: JsonObject) -> Iterator[str]:
    """Every text and number in the arguments, keys included; no recursion, since the model chooses the depth."""
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)


def _deny(reason: str) -> LayerAnswer:
    return LayerAnswer(layer="arguments", verdict="deny", reason=reason)


def _ask(reason: str) -> LayerAnswer:
    return LayerAnswer(layer="arguments", verdict="ask", reason=reason, safety=True)
