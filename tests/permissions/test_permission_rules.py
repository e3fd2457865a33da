"""Rules: what each form matches, and what it must not."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.permissions.call import GateCall
from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.pattern import BadRule, Rule, match, parse_rule
from harnessd.permissions.rules import RuleSet, bad_rules, denied_whole, rule_for, rules_answer
from tests.permissions.calls import AUTO_EDIT, READER, ROOT_EDIT, WRITER, builtin, mcp, script, target

NAMES = {
    "query_log": ("mcp__logs__query_log",),
    "search": ("mcp__github__search", "mcp__web__search"),
    "write": ("write", "mcp__fs__write"),
    "deploy": ("deploy", "mcp__ops__deploy"),
}


def run(command: str) -> GateCall:
    return builtin("execute", command=command)


def edit(path: str) -> GateCall:
    return builtin("edit", target(path, within="work" if path.startswith("work/") else "home"))


REMEMBER = builtin("remember", target("MEMORY.md", within="home", tier="auto"))
ROWS = [
    # rule, call, as allow, as ask, as deny
    ("query_log", mcp("logs", "query_log"), "yes", "yes", "yes"),
    ("mcp__logs__query_log", mcp("logs", "query_log"), "yes", "yes", "yes"),
    ("mcp__logs__query_log", mcp("other", "query_log"), "no", "no", "no"),
    ("search", mcp("github", "search"), "ambiguous", "yes", "yes"),
    ("search", mcp("web", "search"), "ambiguous", "yes", "yes"),
    ("write", mcp("fs", "write"), "no", "no", "yes"),
    ("deploy", mcp("ops", "deploy"), "no", "no", "yes"),
    ("deploy", script("deploy"), "yes", "yes", "yes"),
    ("read", mcp("fs", "read"), "no", "no", "yes"),
    ("Read", mcp("fs", "read"), "no", "no", "yes"),
    ("Read", mcp("fs", "Read"), "no", "no", "yes"),
    ("mcp__github__*", mcp("github", "search"), "yes", "yes", "yes"),
    ("mcp__github", mcp("github", "search"), "yes", "yes", "yes"),
    ("mcp__github__*", mcp("githubx", "search"), "no", "no", "no"),
    ("mcp__github__*", mcp("github__evil", "search"), "no", "yes", "yes"),
    ("mcp__*__search", mcp("web", "search"), "yes", "yes", "yes"),
    ("mcp__github__get_*", mcp("github", "get_issue"), "yes", "yes", "yes"),
    ("mcp__github__get_*", mcp("github", "set_issue"), "no", "no", "no"),
    ("*", READER, "yes", "yes", "yes"),
    ("write", ROOT_EDIT, "yes", "yes", "yes"),
    ("write", AUTO_EDIT, "yes", "yes", "yes"),
    ("edit", ROOT_EDIT, "no", "no", "no"),
    ("Edit", ROOT_EDIT, "yes", "yes", "yes"),
    ("Write(skills/**)", AUTO_EDIT, "yes", "yes", "yes"),
    ("write(skills/**)", AUTO_EDIT, "yes", "yes", "yes"),
    ("write(skills/**)", edit("work/skills/x"), "no", "no", "no"),
    ("write(skills)", AUTO_EDIT, "no", "yes", "yes"),
    ("write(skills/)", AUTO_EDIT, "yes", "yes", "yes"),
    ("write(./skills/**)", AUTO_EDIT, "yes", "yes", "yes"),
    ("write(skills/*)", AUTO_EDIT, "no", "yes", "yes"),
    ("write(skills/*)", edit("skills/tea.md"), "yes", "yes", "yes"),
    ("write(**/*.py)", edit("work/a/b.py"), "yes", "yes", "yes"),
    ("write(**/*.py)", edit("a.py"), "yes", "yes", "yes"),
    ("write(**/*.py)", edit("work/a.pyc"), "no", "no", "no"),
    ("write(**/*.py)", builtin("write", target("/srv/a.py", within="workdir")), "no", "yes", "yes"),
    ("write(/srv/**)", builtin("write", target("/srv/a.py", within="workdir")), "yes", "yes", "yes"),
    ("write(//srv/**)", builtin("write", target("/srv/a.py", within="workdir")), "yes", "yes", "yes"),
    ("write(/srv/**)", builtin("write", target("/srv-2/a.py", within="workdir")), "no", "no", "no"),
    ("write(skills/**/x?.md)", edit("skills/x1.md"), "yes", "yes", "yes"),
    ("write(skills/**/x?.md)", edit("skills/a/b/x1.md"), "yes", "yes", "yes"),
    ("write(skills/**/x?.md)", edit("skills/a/b/x.md"), "no", "no", "no"),
    ("write(work/a*b*c)", edit("work/axbxbxc"), "yes", "yes", "yes"),
    ("write(work/a*b*c)", edit("work/axb/xc"), "no", "no", "no"),
    ("write(work/**)", edit("work"), "no", "no", "no"),
    ("write(*.env)", edit("work/deep/x.env"), "no", "yes", "yes"),
    ("write(work/[ab])", edit("work/a"), "no", "no", "no"),
    ("write(work/[ab])", edit("work/[ab]"), "yes", "yes", "yes"),
    ("write(work/caf\u00e9)", edit("work/cafe\u0301"), "no", "yes", "yes"),
    ("write(MEMORY.md)", REMEMBER, "no", "yes", "yes"),
    ("remember", REMEMBER, "yes", "yes", "yes"),
    ("write(work/**)", builtin("write", target("work/a"), target("AGENTS.md", within="home")), "no", "yes", "yes"),
    ("read(work/**)", READER, "yes", "yes", "yes"),
    ("write(work/**)", READER, "no", "no", "no"),
    ("skill(tea)", builtin("skill", effect="read", name="tea"), "yes", "yes", "yes"),
    ("Skill(tea)", builtin("skill", effect="read", name="teal"), "no", "no", "no"),
    ("delegate(explore)", builtin("delegate", agent="general", task="explore"), "no", "yes", "yes"),
    ("mcp__fs__get(/etc/**)", mcp("fs", "get", path="/etc/passwd"), "no", "yes", "yes"),
    ("execute(git status:*)", run("git status"), "yes", "yes", "yes"),
    ("execute(git status:*)", run("git status --short"), "yes", "yes", "yes"),
    ("Bash(git status:*)", run("git  status -s"), "yes", "yes", "yes"),
    ("execute(git status:*)", run("git statusx"), "no", "no", "no"),
    ("execute(git status:*)", run("git status; rm -rf /"), "no", "yes", "yes"),
    ("execute(git status:*)", run("git status\nrm -rf /"), "no", "yes", "yes"),
    ("execute(git status:*)", run("git status $(rm x)"), "no", "yes", "yes"),
    ("execute(git status:*)", run("git status > AGENTS.md"), "no", "yes", "yes"),
    ("execute(rm:*)", run("cd x && rm -rf y"), "yes", "yes", "yes"),
    ("execute(rm:*)", run("A=1 rm -rf y"), "no", "yes", "yes"),
    ("execute(rm:*)", run("echo `rm y`"), "yes", "yes", "yes"),
    ("execute(npm run *)", run("npm run build"), "yes", "yes", "yes"),
    ("execute(npm run *)", run("npm run"), "yes", "yes", "yes"),
    ("execute(npm test)", run("npm test"), "yes", "yes", "yes"),
    ("execute(npm test)", run("npm test x"), "no", "no", "no"),
    ("execute(*)", run("anything | at all"), "yes", "yes", "yes"),
    ("Bash", run("x"), "yes", "yes", "yes"),
]


@pytest.mark.parametrize(("text", "call", "allow", "ask", "deny"), ROWS)
def test_p1_what_a_rule_matches(text, call, allow, ask, deny):
    rule = parse_rule(text)
    assert isinstance(rule, Rule)
    assert (match(rule, call, NAMES, "allow"), match(rule, call, NAMES, "ask"), match(rule, call, NAMES, "deny")) == (
        allow,
        ask,
        deny,
    )


@pytest.mark.parametrize(
    "text", ["", "  ", "write(skills/**", "write()", "write( )", "a b", "(x)", "wr\u0131te", "x(y)z"]
)
def test_p1_a_bad_rule_is_a_value_with_a_reason(text):
    rule = parse_rule(text)
    assert isinstance(rule, BadRule)
    assert rule.reason
    assert bad_rules(RuleSet(deny=(text,))) == (rule,)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_p1_any_text_is_a_rule_or_a_bad_rule(text):
    rule = parse_rule(text)
    for call in (READER, ROOT_EDIT, WRITER, run("ls")):
        if isinstance(rule, Rule) and match(rule, call, NAMES, "allow") == "yes":
            assert match(rule, call, NAMES, "deny") == "yes"


@pytest.mark.parametrize(
    ("text", "call", "wanted"),
    [
        ("write(skills/**", ROOT_EDIT, "ask"),
        ("write(skills/**", WRITER, "ask"),
        ("read(", READER, "ask"),
        ("read(", WRITER, "allow"),
    ],
)
@pytest.mark.parametrize("where", ["deny", "ask"])
async def test_h5_a_restriction_that_cannot_be_read_asks(text, call, wanted, where):
    rules = RuleSet.model_validate({where: (text,), "allow": ("write", "read", WRITER.tool)})
    decision = await decide(call, GateContext(mode="bypassPermissions", ceiling="bypassPermissions", rules=(rules,)))
    assert decision.verdict == wanted


async def test_h5_a_grant_that_cannot_be_read_grants_nothing():
    rules = RuleSet(allow=("mcp__github__create_issue(", "create issue"))
    assert (await decide(WRITER, GateContext(rules=(rules,)))).verdict == "ask"


@pytest.mark.parametrize("call", [READER, ROOT_EDIT, WRITER, script("x", effect="read"), mcp("a", "b", effect="read")])
async def test_h5_without_a_valid_tools_file_only_builtin_readers_work(call):
    rules = RuleSet(only_builtin_readers=True, allow=("*",))
    decision = await decide(call, GateContext(mode="bypassPermissions", ceiling="bypassPermissions", rules=(rules,)))
    assert decision.verdict == ("allow" if call is READER else "deny")


async def test_p1_an_ambiguous_bare_name_asks_for_the_full_one():
    call = mcp("github", "search")
    context = GateContext(mode="bypassPermissions", ceiling="bypassPermissions", known_tools=NAMES)
    assert (await decide(call, context)).verdict == "allow"
    for mode in ("default", "bypassPermissions"):
        asked = await decide(
            call, GateContext(mode=mode, ceiling=mode, known_tools=NAMES, rules=(RuleSet(allow=("search",)),))
        )
        assert (asked.verdict, asked.layer, asked.rule) == ("ask", "rules", "search")
    clear = RuleSet(allow=("search", "mcp__github__search"))
    assert (await decide(call, GateContext(known_tools=NAMES, rules=(clear,)))).verdict == "allow"


@dataclass(frozen=True)
class Tool:
    name: str
    own_name: str
    kind: Literal["builtin", "script", "mcp"] = "builtin"
    effect: Literal["read", "write"] = "write"


@pytest.mark.parametrize(
    ("deny", "tool", "hidden"),
    [
        ("write", Tool("write", "write"), True),
        ("write", Tool("edit", "edit"), True),
        ("write(**)", Tool("write", "write"), True),
        ("write(skills/**)", Tool("write", "write"), False),
        ("Bash", Tool("execute", "execute"), True),
        ("execute(*)", Tool("execute", "execute"), True),
        ("search", Tool("mcp__web__search", "search", "mcp"), True),
        ("mcp__web", Tool("mcp__web__search", "search", "mcp"), True),
        ("mcp__web", Tool("mcp__webx__search", "search", "mcp"), False),
        ("*", Tool("read", "read"), True),
        ("write(", Tool("write", "write"), False),
    ],
)
def test_p1_a_tool_denied_whole_is_not_offered(deny, tool, hidden):
    assert denied_whole((RuleSet(), RuleSet(deny=(deny,))), tool) is hidden


def test_h5_without_a_valid_tools_file_only_builtin_readers_are_offered():
    rules = (RuleSet(only_builtin_readers=True),)
    assert not denied_whole(rules, Tool("read", "read", effect="read"))
    assert denied_whole(rules, Tool("write", "write"))
    assert denied_whole(rules, Tool("mcp__a__b", "b", "mcp", "read"))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (WRITER, WRITER.tool),
        (script("deploy"), "deploy"),
        (run("git status -s"), "execute(git status -s)"),
        (run("git status; rm x"), "execute(git status; rm x)"),
        (run("git status:*"), None),
        (ROOT_EDIT, "write(work/x.txt)"),
        (builtin("write", target("/srv/a b.py", within="workdir")), "write(/srv/a b.py)"),
        (builtin("write", target("work/*")), None),
        (builtin("write", target("work/a"), target("work/b")), None),
        (builtin("write", target("work/a ")), None),
        (REMEMBER, "remember(MEMORY.md)"),
        (builtin("delegate", agent="explore"), "delegate"),
        (builtin("connect", action="try", url="https://a.example"), None),
    ],
)
def test_p1_an_answer_for_the_session_grants_no_more_than_was_asked(call, wanted):
    assert rule_for(call) == wanted


async def test_p1_every_answer_names_its_rule():
    rules = RuleSet(deny=("mcp__github__*",), source="operator")
    decision = await decide(WRITER, GateContext(rules=(rules,)))
    assert (decision.verdict, decision.layer, decision.rule) == ("deny", "rules", "mcp__github__*")
    assert "operator" in decision.reason


ONLY = [
    # a header's list, a call, whether it may go on
    (("write(work/in/**)",), builtin("write", target("work/in/x")), True),
    (("write(work/in/**)",), builtin("write", target("work/x")), False),
    (("write(work/in/**)",), builtin("write", target("work/in/x"), target("work/x")), False),
    (("write(work/in/**)",), builtin("edit", target("work/x")), False),
    (("write(work/in/**)", "edit"), builtin("edit", target("work/x")), True),
    (("write(work/in/**)", "write"), builtin("write", target("work/x")), True),
    (("write(work/in/**)", "*"), builtin("write", target("work/x")), True),
    (("write(work/in/**)",), READER, True),
    (("execute(git log:*)",), run("git log --oneline"), True),
    (("execute(git log:*)",), run("git push"), False),
    (("execute(git log:*)",), run("git log; git push"), False),
    (("execute(git log:*)", "execute(git diff:*)"), run("git diff"), True),
    (("Bash(git log:*)",), run("git push"), False),
    (("delegate(explore)",), builtin("delegate", effect="read", agent="explore", task="x"), True),
    (("delegate(explore)",), builtin("delegate", effect="read", agent="general", task="explore"), False),
    (("query_log(x)",), mcp("logs", "query_log"), False),
    (("write(work/in/**",), builtin("write", target("work/in/x")), False),
    ((), run("git push"), True),
]


@pytest.mark.parametrize(("listed", "call", "goes_on"), ONLY)
def test_w4_a_header_that_narrows_a_tool_denies_every_other_call_and_grants_none(
    listed: tuple[str, ...], call: GateCall, goes_on: bool
) -> None:
    allowing = RuleSet(allow=("*",), source="operator")
    narrowed = rules_answer(call, (allowing, RuleSet(only=listed)), {}, sweeping=True)
    assert (narrowed.verdict == "allow") == goes_on
    assert goes_on or narrowed.verdict == "deny"
    assert rules_answer(call, (RuleSet(only=listed),), {}, sweeping=True).verdict in {"none", "deny"}
