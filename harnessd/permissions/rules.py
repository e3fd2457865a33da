"""What do the operator's, the home's and the session's rules say about a call?"""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from harnessd.facts.base import Record
from harnessd.facts.run import LayerAnswer, Verdict
from harnessd.permissions.call import GateCall
from harnessd.permissions.pattern import BadRule, Rule, match, names_tool, parse_rule

Source = Literal["operator", "home", "session"]


class RuleSet(Record):
    """The rules of one source.

    `only_builtin_readers` is what a home gets whose tools.json has no valid version at all. `only` grants nothing: of
    a tool that it names with a specification (`execute(git log:*)`), just the calls that match may go on to the rest.
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    source: Source = "home"
    only_builtin_readers: bool = False


class Offered(Protocol):
    """A tool as far as rules look at it."""

    @property
    def name(self) -> str:
        """The name offered to the model."""

    @property
    def own_name(self) -> str:
        """The name on its server; equal to `name` for built-ins and scripts."""

    @property
    def kind(self) -> Literal["builtin", "script", "mcp"]:
        """What it is."""

    @property
    def effect(self) -> Literal["read", "write"]:
        """Whether it only reads."""


def rules_answer(
    call: GateCall, rule_sets: Iterable[RuleSet], names: Mapping[str, tuple[str, ...]], *, sweeping: bool
) -> LayerAnswer:
    """The rules' answer: a deny of any source, else a session's allow, else an ask, else an allow, else none.

    A session's allow is a person's answer to the very ask that a rule demands, so it stands before `ask` rules.
    `sweeping` says whether an allow rule of a home that names no tool and no server (`*`) counts; it is as wide
    as `bypassPermissions` and needs the same ceiling. A deny or ask rule that can't be read asks about every call
    it might mean, and nothing lifts that.
    """
    sets = tuple(rule_sets)
    for rules in sets:
        if rules.only_builtin_readers and not (call.kind == "builtin" and call.effect == "read"):
            reason = "tools.json has no valid version, so only built-in tools that read are open"
            return LayerAnswer(layer="rules", verdict="deny", reason=reason)
    if hit := _first(call, sets, "deny", names, sweeping):
        return hit
    if outside := _outside(call, sets, names):
        return outside
    if unread := _unread(call, sets):
        return unread
    session = tuple(rules for rules in sets if rules.source == "session")
    return (
        _first(call, session, "allow", names, sweeping)
        or _first(call, sets, "ask", names, sweeping)
        or _first(call, sets, "allow", names, sweeping)
        or LayerAnswer(layer="rules", verdict="none", reason="no rule matches")
    )


def denied_whole(rule_sets: Iterable[RuleSet], tool: Offered) -> bool:
    """Whether every call of the tool is denied, so that it need not be offered to the model."""
    for rules in rule_sets:
        if rules.only_builtin_readers and not (tool.kind == "builtin" and tool.effect == "read"):
            return True
        for rule in map(parse_rule, rules.deny):
            if isinstance(rule, BadRule) or rule.spec is not None:
                continue
            if names_tool(rule, tool.name, tool.own_name, tool.kind == "mcp", {}, "deny") == "yes":
                return True
    return False


def bad_rules(rules: RuleSet) -> tuple[BadRule, ...]:
    """The rules that can't be read, for `lint`."""
    parsed = map(parse_rule, (*rules.allow, *rules.ask, *rules.deny))
    return tuple(rule for rule in parsed if isinstance(rule, BadRule))


def unreadable(rule: str) -> str | None:
    """Why a rule can't be read, for `lint`; None if it can."""
    parsed = parse_rule(rule)
    return parsed.reason if isinstance(parsed, BadRule) else None


def rule_for(call: GateCall) -> str | None:
    """The narrowest allow rule that lets the same kind of call through again; None if a rule can't say it.

    For "allow for this session" and "always": one command, the files touched, or one tool of one server.
    """
    if call.kind != "builtin":
        return call.tool
    if call.own_name == "connect":
        return None  # it was one look at one address; a rule for the tool would open every other one
    if call.own_name == "execute":
        command = call.arguments.get("command")
        text = f"execute({command})" if isinstance(command, str) else ""
        return _if_it_matches(text, call)
    if call.targets:
        (only, *others) = call.targets
        path = only.home_path if only.home_path is not None else only.path
        return None if others else _if_it_matches(f"{call.own_name}({path})", call)
    return call.tool


def _first(
    call: GateCall, sets: Iterable[RuleSet], verdict: Verdict, names: Mapping[str, tuple[str, ...]], sweeping: bool
) -> LayerAnswer | None:
    """The first rule in the lists `verdict` that matches; an ambiguous allow asks, unless a clear one follows."""
    ambiguous: LayerAnswer | None = None
    for rules in sets:
        texts = {"allow": rules.allow, "ask": rules.ask, "deny": rules.deny}[verdict]
        for rule in map(parse_rule, texts):
            if isinstance(rule, BadRule):
                continue
            if verdict == "allow" and rule.sweeping and rules.source != "operator" and not sweeping:
                continue
            found = match(rule, call, names, verdict)
            if found == "yes":
                return _answer(verdict, rule, f"the {_OWNER[rules.source]} rule {rule.text!r} says {verdict}")
            if found == "ambiguous" and ambiguous is None:
                reason = f"the rule {rule.text!r} could mean the tool of more than one server; write mcp__server__tool"
                ambiguous = _answer("ask", rule, reason)
    return ambiguous or (_together(call, sets) if verdict == "allow" else None)


def _together(call: GateCall, sets: Iterable[RuleSet]) -> LayerAnswer | None:
    """The allow of a line whose commands are allowed by several rules: none of them means the whole line."""
    rules = [rule for one in sets for rule in map(parse_rule, one.allow) if isinstance(rule, Rule)]
    used = _line_rules(call, rules)
    if not used:
        return None
    texts = " and ".join(repr(rule.text) for rule in used)
    return _answer("allow", used[0], f"the rules {texts} say allow, each of a part of the line")


def _line_rules(call: GateCall, rules: Iterable[Rule], *, reads_pass: bool = True) -> list[Rule]:
    """Of the rules on `execute(…)`, those that together mean the whole command line; empty if they do not."""
    command = call.arguments.get("command")
    if call.kind != "builtin" or call.own_name != "execute" or not isinstance(command, str):
        return []
    from harnessd.permissions.commands import allowed_by  # with the judge, which few starts need

    by_spec = {rule.spec: rule for rule in rules if rule.name == "execute" and rule.spec is not None}
    return [by_spec[spec] for spec in allowed_by(tuple(by_spec), command, reads_pass=reads_pass)]


def _outside(call: GateCall, sets: Iterable[RuleSet], names: Mapping[str, tuple[str, ...]]) -> LayerAnswer | None:
    """The denial of a call of a tool that a list narrows to certain calls, of which this is none."""
    for rules in sets:
        about = [rule for rule in map(parse_rule, rules.only) if _is_about(rule, call)]
        bare = any(isinstance(rule, Rule) and rule.spec is None for rule in about)
        if about and not bare and not _grants(about, call, names):
            texts = " or ".join(rule.text for rule in about)
            reason = f"of {call.own_name} this agent may use only {texts}"
            return LayerAnswer(layer="rules", verdict="deny", reason=reason, rule=about[0].text)
    return None


def _grants(about: Iterable[Rule | BadRule], call: GateCall, names: Mapping[str, tuple[str, ...]]) -> bool:
    rules = [rule for rule in about if isinstance(rule, Rule)]
    if call.kind == "builtin" and call.own_name == "execute":
        return bool(_line_rules(call, rules, reads_pass=False))
    return any(match(rule, call, names, "allow") == "yes" for rule in rules)


def _is_about(rule: Rule | BadRule, call: GateCall) -> bool:
    if isinstance(rule, BadRule):
        rule = Rule(text=rule.text, name=rule.name, written=rule.name)
    return names_tool(rule, call.tool, call.own_name, call.kind == "mcp", {}, "deny") == "yes"


def _unread(call: GateCall, sets: Iterable[RuleSet]) -> LayerAnswer | None:
    for rules in sets:
        for rule in map(parse_rule, (*rules.deny, *rules.ask)):
            if not isinstance(rule, BadRule):
                continue
            guess = Rule(text=rule.text, name=rule.name, written=rule.name)
            names_call = names_tool(guess, call.tool, call.own_name, call.kind == "mcp", {}, "deny") == "yes"
            if not rule.name or names_call or rule.name in {"write", "edit"}:
                reason = f"the {_OWNER[rules.source]} rule {rule.text!r} cannot be read: {rule.reason}"
                return LayerAnswer(layer="rules", verdict="ask", reason=reason, rule=rule.text, safety=True)
    return None


_OWNER: Mapping[Source, str] = {"operator": "operator's", "home": "home's", "session": "session's"}


def _answer(verdict: Verdict, rule: Rule, reason: str) -> LayerAnswer:
    return LayerAnswer(layer="rules", verdict=verdict, reason=reason, rule=rule.text)


def _if_it_matches(text: str, call: GateCall) -> str | None:
    """`text` if it is a rule that means this call literally: no part of a path or command may act as a wildcard."""
    rule = parse_rule(text)
    if isinstance(rule, BadRule) or rule.spec is None or set("*?") & set(rule.spec) or rule.text != rule.text.strip():
        return None
    return text if match(rule, call, {}, "allow") == "yes" else None
