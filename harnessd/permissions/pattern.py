"""What does one rule mean, and which calls does it match?"""

import functools
import re
import unicodedata
from collections.abc import Mapping
from typing import Literal

from harnessd.facts.base import Record
from harnessd.facts.run import Verdict
from harnessd.home.subagents import BUILT_IN_TOOLS
from harnessd.permissions.call import GateCall, Target, changed_targets

BUILTINS = frozenset(BUILT_IN_TOOLS)
"""The names that a bare rule keeps for the built-in tool, also while that tool is not offered."""

FOREIGN_NAMES: Mapping[str, str] = {
    "Read": "read",
    "Glob": "read",
    "Grep": "read",
    "LS": "read",
    "Write": "write",
    "Edit": "write",
    "MultiEdit": "write",
    "NotebookEdit": "write",
    "Bash": "execute",
    "Task": "delegate",
    "Agent": "delegate",
    "Skill": "skill",
    "TodoWrite": "todo",
}
"""Claude-style tool names in rules → ours."""

Match = Literal["no", "yes", "ambiguous"]


class Rule(Record):
    """A parsed rule: tool name (maybe with `*`) and what stands in the parentheses, None for the whole tool.

    `name` is ours, `written` as the rule has it: `Bash(ls:*)` → name `execute`, written `Bash`, spec `ls:*`.
    """

    text: str
    name: str
    written: str
    spec: str | None = None

    @property
    def sweeping(self) -> bool:
        """Whether it names neither a tool nor a server: `*`, `mcp__*`, `mcp__*__read`."""
        prefix, star, _ = self.name.partition("*")
        names_server = prefix.startswith("mcp__") and "__" in prefix[5:]
        return bool(star) and not names_server and (prefix.startswith("mcp__") or "mcp__".startswith(prefix))


class BadRule(Record):
    """A rule that can't be read, and why. `name` is the tool that it seems to be about, "" if even that is unclear."""

    text: str
    reason: str
    name: str = ""


_SHAPE = re.compile(r"(?P<name>[A-Za-z0-9_.*-]+)(?:\((?P<spec>.*)\))?", re.DOTALL)


@functools.lru_cache(maxsize=4096)
def parse_rule(text: str) -> Rule | BadRule:
    """`text` as a rule: `query_log`, `execute(git status:*)`, `write(skills/**)`, `mcp__github__*`."""
    stripped = text.strip()
    found = _SHAPE.fullmatch(stripped)
    if found is None:
        seems = re.match(r"[A-Za-z0-9_.*-]+", stripped)
        written = seems.group() if seems else ""
        problem = (
            "a closing parenthesis is missing" if "(" in stripped and not stripped.endswith(")") else "no tool name"
        )
        if seems and problem == "no tool name":
            problem = "a tool name holds only letters, digits, '_', '-', '.' and '*'"
        return BadRule(text=text, reason=problem, name=FOREIGN_NAMES.get(written, written))
    written, spec = found["name"], found["spec"]
    name = FOREIGN_NAMES.get(written, written)
    if re.fullmatch(r"mcp__[^*]+?", name) and "__" not in name[5:]:
        name += "__*"  # `mcp__github` is the whole server
    if spec is not None:
        spec = spec.strip()
        if not spec:
            return BadRule(
                text=text, reason="nothing stands in the parentheses; leave them out to mean the tool", name=name
            )
        if spec == "**" or (name == "execute" and spec in {"*", ":*"}):
            spec = None
    return Rule(text=text, name=name, written=written, spec=spec)


def match(rule: Rule, call: GateCall, names: Mapping[str, tuple[str, ...]], verdict: Verdict) -> Match:
    """Whether `rule`, which stands in the list `verdict`, is about `call`.

    `names` maps a tool's own name to the names under which it is offered (a built-in's and a script's is its own).
    An `allow` is read narrowly, `ask` and `deny` widely: an allow needs every changed path to match and every
    simple command of a line that does more than read, a deny is content with one path or one command. `ambiguous`
    comes only from an `allow` with a bare name that several servers have.
    """
    by_name = names_tool(rule, call.tool, call.own_name, call.kind == "mcp", names, verdict)
    if by_name == "yes" and verdict == "allow" and not _same_server(rule, call):
        return "no"
    if rule.spec is None:
        return by_name
    if verdict != "allow" and by_name == "no" and _changes_by_another_tool(rule, call):
        by_name = "yes"
    if by_name == "no":
        return "no"
    return by_name if _spec_matches(rule, rule.spec, call, verdict) else "no"


def names_tool(
    rule: Rule, tool: str, own_name: str, is_mcp: bool, names: Mapping[str, tuple[str, ...]], verdict: Verdict
) -> Match:
    """Whether the rule's name means the tool that is offered as `tool`."""
    wanted = {rule.name} if verdict == "allow" else {rule.name, rule.written}
    if tool in wanted:
        return "yes"
    if "*" in rule.name:
        return "yes" if _wildcard(rule.name).fullmatch(tool) else "no"
    if not is_mcp:
        return "yes" if own_name == "edit" and rule.name == "write" else "no"  # DESIGN §5: `write` (with `edit`)
    if own_name not in wanted:
        return "no"
    if verdict == "deny":
        return "yes"
    offered = {*names.get(own_name, ()), tool}
    if rule.name in BUILTINS or rule.name in offered:
        return "no"
    return "ambiguous" if len(offered) > 1 and verdict == "allow" else "yes"


def _same_server(rule: Rule, call: GateCall) -> bool:
    """Whether `mcp__github__*` is not taken for a server that is called `github__other`."""
    if call.server is None or not rule.name.endswith("__*") or rule.name.count("*") > 1:
        return True
    return rule.name == f"mcp__{call.server}__*"


def _changes_by_another_tool(rule: Rule, call: GateCall) -> bool:
    """Whether a rule on writing a path is about this call because it changes files too (`remember` and MEMORY.md)."""
    return rule.name in {"write", "edit"} and call.kind == "builtin" and bool(changed_targets(call))


_NAMING_ARGUMENT = {"skill": "name", "delegate": "agent", "run_graph": "name"}


def _spec_matches(rule: Rule, spec: str, call: GateCall, verdict: Verdict) -> bool:
    if call.kind == "builtin" and call.own_name == "execute":
        command = call.arguments.get("command")
        if not isinstance(command, str):
            return False
        from harnessd.permissions.commands import allowed_by, meant_by  # with the judge, which few starts need

        return bool(allowed_by((spec,), command)) if verdict == "allow" else meant_by(spec, command)
    if call.targets:
        changed = changed_targets(call) if rule.name in {"write", "edit"} else ()
        hits = [_path_matches(spec, target, verdict) for target in changed or call.targets]
        return all(hits) if verdict == "allow" else any(hits)
    if verdict == "allow":
        argument = _NAMING_ARGUMENT.get(call.own_name) if call.kind == "builtin" else None
        value = call.arguments.get(argument) if argument else None
        return isinstance(value, str) and _glob_matches(spec, value)
    return any(isinstance(value, str) and _glob_matches(spec, value) for value in call.arguments.values())


def _path_matches(spec: str, target: Target, verdict: Verdict) -> bool:
    """Whether the spec, a glob relative to the home or an absolute one, means the target's real path."""
    wide = verdict != "allow"
    pattern = spec[1:] if spec.startswith("//") else spec.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    if pattern.startswith("/"):
        return _path_glob_matches(pattern, target.path, wide)
    if target.home_path is not None and _path_glob_matches(pattern, target.home_path, wide):
        return True
    if not wide:
        return False
    floating = pattern if pattern.startswith("**/") else f"**/{pattern}" if "/" not in pattern else None
    return floating is not None and _path_glob_matches(floating, target.path.lstrip("/"), wide)


def _path_glob_matches(pattern: str, path: str, wide: bool) -> bool:
    if _glob_matches(pattern, path):
        return True
    if not wide:
        return False
    pattern, path = unicodedata.normalize("NFC", pattern), unicodedata.normalize("NFC", path)
    # A deny on a folder is a deny on what it holds.
    return _glob_matches(pattern, path) or _glob_matches(f"{pattern}/**", path)


def _glob_matches(pattern: str, path: str) -> bool:
    """`**` is any number of steps (at the end at least one), `*` and `?` stay in one step, all else is itself.

    Linear in pattern times path, since a hostile home may choose both.
    """
    steps, names = pattern.split("/"), path.split("/")
    reached = {0}
    for number, step in enumerate(steps, start=1):
        if step == "**":
            reached = set(range(min(reached) + (number == len(steps)), len(names) + 1))
        else:
            shape = _wildcard(step, single=True)
            reached = {at + 1 for at in reached if at < len(names) and shape.fullmatch(names[at])}
        if not reached:
            return False
    return len(names) in reached


@functools.lru_cache(maxsize=4096)
def _wildcard(pattern: str, *, single: bool = False) -> re.Pattern[str]:
    """`*` is any text, with `single` also `?` any character; everything else is itself.

    Each `*` takes the first place where what follows it fits and never looks back, which is enough and linear.
    """
    parts = [re.escape(part) for part in re.sub(r"\*+", "*", pattern).split("*")]
    if single:
        parts = [part.replace(r"\?", ".") for part in parts]
    first, *rest = parts
    if not rest:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{first}{middle}.*{rest[-1]}", re.DOTALL)
