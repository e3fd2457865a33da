"""May this call run? Six layers answer, and one order of precedence decides."""

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio

from harnessd.facts.run import Decision, Layer, LayerAnswer, Mode, Verdict
from harnessd.permissions.arguments import ArgumentsContext, arguments_answer
from harnessd.permissions.call import GateCall
from harnessd.permissions.classifier import Classifier, build_classifier_input
from harnessd.permissions.hooks import Hook
from harnessd.permissions.modes import mode_answer, narrower, under_ceiling, wants_classifier
from harnessd.permissions.rules import RuleSet, rules_answer

CLASSIFIER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class GateContext:
    """What the gate knows beside the call; made anew for each call, from what is true then.

    `ceiling` is the operator's for the mode; `parents` are the modes in force for the runs above a subagent.
    `request` is the user's own words, all that the classifier learns of the conversation. `session_allowed` are allow
    rules that a person granted for this session. `known_tools` maps a tool's own name to the names it is offered by.
    `secret_values`, `secret_kinds` and `programs` are as in `ArgumentsContext`.
    """

    mode: Mode = "default"
    ceiling: Mode = "auto"
    parents: tuple[Mode, ...] = ()
    rules: tuple[RuleSet, ...] = ()
    request: str = ""
    session_allowed: tuple[str, ...] = ()
    known_tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()
    classifier: Classifier | None = None
    secret_values: tuple[str, ...] = ()
    secret_kinds: Callable[[str], Iterable[str]] | None = None
    programs: tuple[str, ...] = ()

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Every mode that the call must pass: its own under the ceiling, and those above it."""
        return (*under_ceiling(self.mode, self.ceiling), *self.parents)


async def decide(call: GateCall, context: GateContext) -> Decision:
    """The decision on one call, with the answer of each layer in order. Changes nothing; raises nothing of its own.

    `ask` means that a person has to answer; the person's layer says `none` here, since nobody has been asked yet.
    """
    rules = _rules(call, context)
    mode = mode_answer(call, context.modes, allow_rule=rules.verdict == "allow")
    arguments = arguments_answer(call, _arguments_context(context))
    hooks = await _ask_hooks(call, context.hooks)
    before = (rules, mode, arguments, hooks)
    classifier = await _ask_classifier(call, context, before)
    nobody = "mode dontAsk denies what would be asked" if "dontAsk" in context.modes else ""
    return settle((*before, classifier, _silent("person", "not asked yet")), nobody_to_ask=nobody)


def settle(answers: tuple[LayerAnswer, ...], *, nobody_to_ask: str = "") -> Decision:
    """The order of precedence: any deny, then any safety ask, then a rule, then the mode's default.

    A rule that asks is lifted by nothing but a person. Any other ask is lifted by an allow rule only. A hook's
    allow lifts nothing. Where nobody allows, the call is asked about. `nobody_to_ask`
    (mode dontAsk) denies what would be asked, and is the reason.
    """
    decision = _first(answers, "deny") or _safety(answers) or _first(answers, "ask", "rules")
    decision = decision or _first(answers, "allow", "rules") or _first(answers, "ask")
    decision = decision or _first(answers, "allow", "mode", "classifier")
    if decision is None:
        decision = Decision(verdict="ask", layer="mode", reason="no layer allows it", answers=answers)
    if decision.verdict == "ask" and nobody_to_ask:
        reason = f"{decision.reason}; {nobody_to_ask}"
        return decision.model_copy(update={"verdict": "deny", "layer": "mode", "reason": reason})
    return decision


def answered(decision: Decision, verdict: Literal["allow", "deny"], reason: str) -> Decision:
    """The decision once a person has answered an ask; a denial of the layers stands whatever the person says.

    For a call that waited, `decision` is a new one: rules and paths may have changed since the question.
    """
    person = LayerAnswer(layer="person", verdict=verdict, reason=reason)
    answers = (*(answer for answer in decision.answers if answer.layer != "person"), person)
    if decision.verdict == "deny":
        return decision.model_copy(update={"answers": answers})
    return _decision(verdict, person, answers)


def child_modes(parent: GateContext, mode: Mode | None) -> tuple[Mode, Mode, tuple[Mode, ...]]:
    """`(mode, ceiling, parents)` for a subagent that declares `mode` (None: its parent's); never wider than that."""
    return mode or parent.mode, parent.ceiling, parent.modes


def _first(answers: tuple[LayerAnswer, ...], verdict: Verdict, *layers: Layer) -> Decision | None:
    for answer in answers:
        if answer.verdict == verdict and (not layers or answer.layer in layers):
            return _decision(verdict, answer, answers)
    return None


def _safety(answers: tuple[LayerAnswer, ...]) -> Decision | None:
    return next((_decision("ask", a, answers) for a in answers if a.verdict == "ask" and a.safety), None)


def _decision(verdict: Verdict, by: LayerAnswer, answers: tuple[LayerAnswer, ...]) -> Decision:
    return Decision(verdict=verdict, layer=by.layer, reason=by.reason, rule=by.rule, answers=answers)


def _rules(call: GateCall, context: GateContext) -> LayerAnswer:
    rules, allowed = context.rules, context.session_allowed
    if allowed:
        rules = (*rules, RuleSet(source="session", allow=allowed))
    return rules_answer(call, rules, context.known_tools, sweeping=context.ceiling == "bypassPermissions")


def _arguments_context(context: GateContext) -> ArgumentsContext:
    return ArgumentsContext(
        mode=functools.reduce(narrower, context.modes),
        secret_values=context.secret_values,
        secret_kinds=context.secret_kinds,
        programs=context.programs,
    )


async def _ask_hooks(call: GateCall, hooks: tuple[Hook, ...]) -> LayerAnswer:
    """All programs at once; the strictest answer, the first of equals."""
    if not hooks:
        return _silent("hooks", "the operator has no before_tool program")
    answers: list[LayerAnswer | None] = [None] * len(hooks)

    async def ask(at: int, hook: Hook) -> None:
        answer = await _guarded("hooks", lambda: hook(call))
        answers[at] = answer.model_copy(update={"layer": "hooks", "safety": answer.verdict == "ask"})

    async with anyio.create_task_group() as group:
        for at, hook in enumerate(hooks):
            group.start_soon(ask, at, hook)
    given = [answer for answer in answers if answer is not None]
    return min(given, key=lambda answer: ("deny", "ask", "allow", "none").index(answer.verdict))


async def _ask_classifier(call: GateCall, context: GateContext, before: tuple[LayerAnswer, ...]) -> LayerAnswer:
    """Asks it only where its answer can matter; otherwise says why not."""
    if not wants_classifier(call, context.modes):
        return _silent("classifier", "the mode does not leave this call to it")
    settled = settle(before)
    if settled.verdict == "deny" or settled.layer != "mode":
        return _silent("classifier", f"not asked, since {settled.layer} decided: {settled.reason}")
    if context.classifier is None:
        return LayerAnswer(layer="classifier", verdict="ask", reason="there is no classifier, so a person is asked")
    seen = build_classifier_input(context.request, call)
    if seen is None:
        return LayerAnswer(layer="classifier", verdict="ask", reason="the call is too long to be shown to it whole")
    classifier = context.classifier
    answer = await _guarded("classifier", lambda: classifier(seen), seconds=CLASSIFIER_SECONDS)
    if answer.verdict == "none":
        return LayerAnswer(layer="classifier", verdict="ask", reason="the classifier gave no answer")
    return answer.model_copy(update={"layer": "classifier", "rule": None})


async def _guarded(
    layer: Layer, ask: Callable[[], Awaitable[LayerAnswer]], seconds: float | None = None
) -> LayerAnswer:
    """One hook's or classifier's answer; its failure is a safety ask."""
    try:
        with anyio.fail_after(seconds):
            return await ask()
    except Exception as error:  # noqa: BLE001 - one of the named places: somebody else's code may raise anything
        reason = f"it failed ({type(error).__name__}: {error}), so a person is asked"
        return LayerAnswer(layer=layer, verdict="ask", reason=reason, safety=True)


@functools.lru_cache(maxsize=256)
def _silent(layer: Layer, reason: str) -> LayerAnswer:
    """Kept, since nearly every call hears the same."""
    return LayerAnswer(layer=layer, verdict="none", reason=reason)
