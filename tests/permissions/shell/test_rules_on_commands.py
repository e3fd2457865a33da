"""W4, P1: what a rule on `execute(…)` means for a line of several, wrapped and quoted commands."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.permissions.call import GateCall
from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.rules import RuleSet, rule_for, rules_answer
from tests.permissions.calls import builtin


def run(command: str) -> GateCall:
    return builtin("execute", command=command)


def verdict(command: str, **lists: tuple[str, ...]) -> str:
    return rules_answer(run(command), (RuleSet(**lists),), {}, sweeping=True).verdict


DENIED = [
    "rm x",
    "/bin/rm x",
    "\\rm x",
    'r"m" x',
    "'rm' x",
    "command rm x",
    "builtin command rm x",
    "env rm x",
    "env A=1 rm x",
    "nice -n 3 rm x",
    "timeout 5 rm x",
    "time rm x",
    "ls | xargs rm",
    "ls | xargs -I{} rm {}",
    "find . -exec rm {} \\;",
    "sh -c 'rm x'",
    'bash -c "ls; rm x"',
    "echo $(rm x)",
    "echo `rm x`",
    'echo "$(rm x)"',
    "cat <(rm x)",
    "ls; rm x",
    "ls && rm x",
    "ls\nrm x",
    "if true; then rm x; fi",
    "for i in a; do rm $i; done",
    "f() { rm x; }; f",
    "A=1 rm x",
    "rm x > /dev/null",
    "( rm x )",
    "{ rm x; }",
    "! rm x",
    "rm",
    "rm   -rf\tx",
    "a[$(rm x)]=1",
]


@pytest.mark.parametrize("command", DENIED)
async def test_p1_a_denied_command_is_denied_however_it_is_written(command: str) -> None:
    assert verdict(command, deny=("execute(rm:*)",)) == "deny"
    assert verdict(command, ask=("execute(rm:*)",)) == "ask"
    wide = GateContext(mode="bypassPermissions", ceiling="bypassPermissions", rules=(RuleSet(deny=("Bash(rm:*)",)),))
    assert (await decide(run(command), wide)).verdict == "deny"


@given(
    command=st.sampled_from(["rm x", "git push origin main", "env rm x"]),
    before=st.sampled_from(
        ["", "ls; ", "ls && ", "cat f | ", "A=1 ", "time ", "! ", "( ", "x=$( ", "ls\n", "[ -f x ] && "]
    ),
    after=st.one_of(
        st.sampled_from([" > f", " | cat", "; ls", " && ls", " )", "\nls", " #x", " $(ls)", " `", " '"]),
        st.text(max_size=12),
    ),
)
@settings(max_examples=400)
def test_p1_nothing_added_to_a_denied_command_undenies_it(command: str, before: str, after: str) -> None:
    line = f"{before}{command} {after}"
    assert verdict(line, deny=("execute(rm:*)", "execute(git push:*)"), allow=("execute", "execute(*)")) == "deny"


@pytest.mark.parametrize(
    "command", ["git -C sub push", "git --no-pager push", "git -c a.b=c push", "/usr/bin/git push"]
)
def test_p1_what_stands_before_a_subcommand_does_not_undeny_it(command: str) -> None:
    assert verdict(command, deny=("execute(git push:*)",)) == "deny"


MORE = [
    "; rm x",
    " && rm x",
    " || rm x",
    " | sh",
    " & rm x",
    "\nrm x",
    " $(rm x)",
    " `rm x`",
    " > out",
    " >> ../x",
    " <(rm x)",
]


@pytest.mark.parametrize("rule", ["execute(npm test)", "execute(npm test:*)", "execute(npm *)"])
@pytest.mark.parametrize("more", MORE)
def test_p1_an_allow_of_one_command_never_allows_another_behind_it(rule: str, more: str) -> None:
    assert verdict("npm test", allow=(rule,)) == "allow"
    assert verdict(f"npm test{more}", allow=(rule,)) != "allow"


@given(
    line=st.lists(st.sampled_from(["ls", "npm test", "make x", "cat f", "git push"]), min_size=1, max_size=4),
    between=st.sampled_from(["; ", " && ", " | ", "\n"]),
    granted=st.sets(st.sampled_from(["npm test", "make", "git push"])),
)
def test_p1_a_line_is_allowed_only_if_every_command_in_it_is(line: list[str], between: str, granted: set[str]) -> None:
    answer = verdict(between.join(line), allow=tuple(f"execute({name}:*)" for name in sorted(granted)))
    writers = [one for one in line if one not in {"ls", "cat f"}]
    covered = all(any(one.startswith(name) for name in granted) for one in writers)
    assert (answer == "allow") == (covered and bool(writers))


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("execute(git commit:*)", 'git commit -m "a; rm b"', True),
        ("execute(git commit:*)", "git commit -m 'a $(b) c'", True),
        ("execute(git commit:*)", 'git commit -m "$(cat msg)"', False),  # a quoted dash may come first
        ("execute(make)", "make", True),
        ("execute(make)", "make -f evil", False),
        ("execute(make)", "/usr/bin/make", True),
        ("execute(make)", "./make", False),
        ("execute(make)", "/tmp/make", False),
        ("execute(make)", "env make", True),
        ("execute(make)", "PATH=. make", False),
        ("execute(make:*)", "make $x", False),
        ("execute(make:*)", "make *", False),
        ("execute(make a b)", 'make "a b"', False),
        ("execute(env:*)", "env make", False),
        ("execute(timeout:*)", "timeout 5 make", False),
        ("execute(make)", "cd sub && make", True),
        ("execute(make)", "make 2>&1 | tail -5", True),
        ("execute(make)", "make > log", False),
        ("execute(make:*)", "sh -c make", True),
        ("execute(sh:*)", "sh -c 'rm x'", False),
        ("execute(sh:*)", "sh x.sh", True),
        ("execute(./run.sh)", "./run.sh", True),
    ],
)
def test_p1_what_an_allow_rule_means(rule: str, command: str, allowed: bool) -> None:
    assert (verdict(command, allow=(rule,)) == "allow") == allowed


def test_the_reason_names_every_rule_that_allowed_a_part() -> None:
    rules = RuleSet(allow=("execute(make:*)", "execute(npm test)"))
    answer = rules_answer(run("make && npm test"), (rules,), {}, sweeping=True)
    assert answer.verdict == "allow"
    assert "execute(make:*)" in answer.reason
    assert "execute(npm test)" in answer.reason


def test_an_answer_for_a_line_of_several_commands_is_good_for_that_line_only() -> None:
    rule = rule_for(run("make && npm test"))
    assert rule == "execute(make && npm test)"
    assert verdict("make && npm test", allow=(rule,)) == "allow"
    assert verdict("make && npm test; rm x", allow=(rule,)) == "none"
    assert verdict("make", allow=(rule,)) == "none"
    assert rule_for(run("eval x")) is None


async def test_p1_only_an_allow_rule_lifts_the_ask_about_an_unknown_command_and_nothing_that_of_an_unclear_one() -> (
    None
):
    rules = (RuleSet(allow=("execute(make:*)", "execute")),)
    assert (await decide(run("make"), GateContext(mode="default"))).verdict == "ask"
    assert (await decide(run("make"), GateContext(mode="default", rules=rules))).verdict == "allow"
    assert (await decide(run("eval make"), GateContext(mode="default", rules=rules))).verdict == "ask"


async def test_looking_at_a_job_reads_and_needs_no_command() -> None:
    look = builtin("execute", effect="read", job="job_1", action="look")
    assert (await decide(look, GateContext(mode="plan"))).verdict == "allow"
    assert (await decide(builtin("execute"), GateContext(mode="default"))).verdict == "ask"
