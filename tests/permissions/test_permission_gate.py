"""The gate: who wins when the layers disagree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.facts.run import LayerAnswer
from harnessd.permissions.call import GateCall
from harnessd.permissions.classifier import MOST_CHARACTERS, ClassifierInput, build_classifier_input
from harnessd.permissions.gate import GateContext, answered, decide, settle
from harnessd.permissions.rules import RuleSet
from tests.permissions.calls import ASK_TIER, AUTO_EDIT, LOCKED, READER, ROOT_EDIT, WRITER, builtin, target

LAYERS = ("rules", "mode", "arguments", "hooks", "classifier", "person")
VERDICTS = st.sampled_from(["allow", "ask", "deny", "none"])
ANSWERS = st.tuples(
    *[
        st.builds(
            LayerAnswer,
            layer=st.just(layer),
            verdict=VERDICTS,
            reason=st.just(layer),
            rule=st.none(),
            safety=st.booleans(),
        )
        for layer in LAYERS
    ]
)


@settings(deadline=None)
@given(ANSWERS, st.booleans())
def test_p1_the_order_of_precedence(answers, asking):
    decision = settle(answers, nobody_to_ask="" if asking else "mode dontAsk denies what would be asked")
    by = {answer.layer: answer for answer in answers}
    verdicts = {answer.verdict for answer in answers}
    ask = "ask" if asking else "deny"
    if "deny" in verdicts:
        wanted = "deny"
    elif any(answer.verdict == "ask" and answer.safety for answer in answers):
        wanted = ask
    elif by["rules"].verdict in {"ask", "allow"}:
        wanted = ask if by["rules"].verdict == "ask" else "allow"
    elif "ask" in verdicts:
        wanted = ask
    else:
        wanted = "allow" if "allow" in {by["mode"].verdict, by["classifier"].verdict} else ask
    assert decision.verdict == wanted
    assert decision.answers == answers
    assert decision.reason


@settings(deadline=None)
@given(ANSWERS, st.integers(0, 5))
def test_p1_a_stricter_answer_never_loosens_the_decision(answers, at):
    order = {"allow": 0, "ask": 1, "deny": 2}
    for stricter in (
        answers[at].model_copy(update={"verdict": "deny"}),
        answers[at].model_copy(update={"verdict": "ask", "safety": True}),
    ):
        if answers[at].verdict == "deny":
            continue
        changed = (*answers[:at], stricter, *answers[at + 1 :])
        assert order[settle(changed).verdict] >= order[settle(answers).verdict]


@settings(deadline=None)
@given(ANSWERS)
def test_p1_a_hook_that_allows_lifts_nothing(answers):
    silent = tuple(
        answer.model_copy(update={"verdict": "none"})
        if answer.layer in {"hooks", "person", "arguments"} and answer.verdict == "allow"
        else answer
        for answer in answers
    )
    assert settle(answers).verdict == settle(silent).verdict


ALLOW_ALL = RuleSet(allow=("*", "write", "edit", "write(**)", "remember", WRITER.tool), source="operator")
REMOTE_EDIT = AUTO_EDIT.model_copy(update={"origin_of_context": "remote"})
GIT_HOOK = builtin("write", target("/srv/app/.git/hooks/pre-commit", within="workdir"))


@pytest.mark.parametrize("call", [ASK_TIER, REMOTE_EDIT, GIT_HOOK], ids=["tier-ask", "remote-origin", "git-hook"])
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "auto", "bypassPermissions"])
async def test_w4_no_allow_rule_and_no_mode_lifts_a_safety_ask(call, mode):
    context = GateContext(
        mode=mode, ceiling="bypassPermissions", rules=(ALLOW_ALL,), session_allowed=(call.tool,), classifier=yes
    )
    decision = await decide(call, context)
    assert decision.verdict == "ask"
    assert any(answer.safety for answer in decision.answers)
    denied = await decide(call, GateContext(mode="dontAsk", ceiling="bypassPermissions", rules=(ALLOW_ALL,)))
    assert denied.verdict == "deny"


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "auto", "dontAsk", "bypassPermissions", "plan"])
async def test_w4_locked_stays_locked(mode):
    context = GateContext(mode=mode, ceiling="bypassPermissions", rules=(ALLOW_ALL,), session_allowed=("write",))
    assert (await decide(LOCKED, context)).verdict == "deny"


async def yes(_seen: ClassifierInput) -> LayerAnswer:
    return LayerAnswer(layer="classifier", verdict="allow", reason="fine")


class Recorder:
    """A classifier that records what it was shown."""

    def __init__(self, verdict: str = "allow") -> None:
        self.seen: list[ClassifierInput] = []
        self.verdict = verdict

    async def __call__(self, seen: ClassifierInput) -> LayerAnswer:
        self.seen.append(seen)
        return LayerAnswer(layer="mode", verdict=self.verdict, reason="as told", safety=False)


async def test_p3_the_classifier_is_shown_the_request_and_the_call_and_nothing_else():
    noisy = WRITER.model_copy(
        update={"arguments": {"title": "bug"}, "reasoning": "CANARY-AGENT", "last_result": "CANARY-TOOL"}
    )
    loose_target = target().model_copy(update={"note": "CANARY-NOTE", "comment": "CANARY-AGENT"})
    noisy = noisy.model_copy(update={"targets": (loose_target,)})
    recorder = Recorder()
    decision = await decide(noisy, GateContext(mode="auto", classifier=recorder, request="file a bug"))
    (seen,) = recorder.seen
    assert decision.verdict == "allow"
    assert decision.layer == "classifier"
    assert "CANARY" not in seen.model_dump_json()
    assert seen.model_dump() == {
        "request": "file a bug",
        "tool": WRITER.tool,
        "kind": "mcp",
        "effect": "write",
        "remote": True,
        "arguments": {"title": "bug"},
        "targets": ({"path": "/h/work/x.txt", "access": "write", "within": "work"},),
    }


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4), st.text(max_size=50))
def test_p3_the_input_is_a_function_of_request_and_call(arguments, request):
    call = GateCall(tool="x", own_name="x", kind="script", arguments=arguments)
    seen = build_classifier_input(request, call)
    assert seen is not None
    assert (seen.request, seen.arguments, seen.tool) == (request, arguments, "x")
    assert not seen.model_extra


async def test_p3_a_call_that_cannot_be_shown_whole_is_asked_about():
    recorder = Recorder()
    long = builtin("write", target(), content="x" * MOST_CHARACTERS)
    decision = await decide(long, GateContext(mode="auto", classifier=recorder))
    assert decision.verdict == "ask"
    assert recorder.seen == []


@pytest.mark.parametrize(
    ("call", "context"),
    [
        (READER, GateContext(mode="auto")),
        (ASK_TIER, GateContext(mode="auto")),
        (LOCKED, GateContext(mode="auto")),
        (WRITER, GateContext(mode="default")),
        (WRITER, GateContext(mode="auto", rules=(RuleSet(deny=("create_issue",)),))),
        (WRITER, GateContext(mode="auto", rules=(RuleSet(ask=("create_issue",)),))),
        (WRITER, GateContext(mode="auto", rules=(RuleSet(allow=(WRITER.tool,)),))),
        (builtin("execute", command="eval ls"), GateContext(mode="auto")),
    ],
)
async def test_p3_the_classifier_is_asked_only_where_it_can_matter(call, context):
    recorder = Recorder()
    with_classifier = GateContext(mode=context.mode, rules=context.rules, classifier=recorder)
    decision = await decide(call, with_classifier)
    assert recorder.seen == []
    assert decision.answers[4].verdict == "none"
    assert decision.answers[4].reason


@pytest.mark.parametrize("verdict", ["none", "raise"])
async def test_p1_a_classifier_that_fails_means_ask(verdict):
    async def broken(_seen: ClassifierInput) -> LayerAnswer:
        if verdict == "raise":
            raise RuntimeError("model overloaded")
        return LayerAnswer(layer="classifier", verdict="none")

    assert (await decide(ROOT_EDIT, GateContext(mode="auto", classifier=broken))).verdict == "ask"


async def test_p1_a_yes_of_the_classifier_does_not_lift_the_shells_ask():
    decision = await decide(builtin("execute", command="eval ls"), GateContext(mode="auto", classifier=yes))
    assert (decision.verdict, decision.layer) == ("ask", "arguments")


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [(["allow", "none"], "allow"), (["none", "ask"], "ask"), (["ask", "deny"], "deny"), (["raise", "allow"], "ask")],
)
async def test_p1_hooks_can_only_restrict(answers, wanted):
    def hook(verdict: str):
        async def answer(_call: GateCall) -> LayerAnswer:
            if verdict == "raise":
                raise ValueError("boom")
            return LayerAnswer(layer="rules", verdict=verdict, reason="hook")

        return answer

    hooks = tuple(hook(verdict) for verdict in answers)
    context = GateContext(rules=(RuleSet(allow=(WRITER.tool,)),), hooks=hooks)
    decision = await decide(WRITER, context)
    assert decision.verdict == wanted
    assert decision.answers[3].layer == "hooks"
    assert (await decide(WRITER, GateContext(hooks=(hook("allow"),)))).verdict == "ask"


async def test_p1_a_persons_session_grant_lifts_an_ask_rule_but_no_deny():
    asks = RuleSet(ask=("create_issue",), source="operator")
    assert (await decide(WRITER, GateContext(rules=(asks,)))).verdict == "ask"
    granted = GateContext(rules=(asks,), session_allowed=(WRITER.tool,))
    assert (await decide(WRITER, granted)).verdict == "allow"
    denies = RuleSet(deny=("create_issue",), source="home")
    assert (await decide(WRITER, GateContext(rules=(denies,), session_allowed=(WRITER.tool,)))).verdict == "deny"


@settings(deadline=None)
@given(ANSWERS, st.sampled_from(["allow", "deny"]))
def test_f1_a_persons_answer_decides_what_was_asked_and_never_lifts_a_denial(answers, verdict):
    before = settle(answers)
    after = answered(before, verdict, "looked at the diff")
    assert after.verdict == ("deny" if before.verdict == "deny" else verdict)
    assert after.answers[-1] == LayerAnswer(layer="person", verdict=verdict, reason="looked at the diff")
    assert [answer.layer for answer in after.answers] == list(LAYERS)
