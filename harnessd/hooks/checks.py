"""after_tool and before_finish: the home's declared checks; what they find goes back to the model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harnessd.facts.message import TextPart
from harnessd.facts.state import OpenCall
from harnessd.home.problem import Problem
from harnessd.home.tools_file import Check
from harnessd.hooks.context import RunContext
from harnessd.permissions.call import GateCall, Target
from harnessd.permissions.pattern import BadRule, match, parse_rule
from harnessd.sandbox.bubblewrap import Ran, Sandbox, TimedOut, Unavailable
from harnessd.tools.tool import Outcome

CHECK_SECONDS = 60.0
SHOWN = 6_000
"""Characters of a check's output that the model is shown."""


@dataclass(frozen=True)
class Checks:
    """Runs checks in the sandbox. `trusted` says whether this home may start processes at all."""

    sandbox_for: Callable[[RunContext], Sandbox]
    trusted: Callable[[RunContext], bool]

    async def after_tool(self, context: RunContext, call: OpenCall, outcome: Outcome) -> Outcome:
        """Adds the findings of every check declared for what this call changed."""
        if outcome.status != "ok" or call.effect != "write":
            return outcome
        findings = [
            found
            for check in context.home_now.tools.checks
            if check.after and _concerns(check.after, call, context.home.path)
            if (found := await self._run(context, check)) is not None
        ]
        if not findings:
            return outcome
        return replace(outcome, parts=(*outcome.parts, *(TextPart(text=found) for found in findings)))

    async def before_finish(self, context: RunContext) -> str | None:
        """The findings of the checks that must pass before the agent may call it done.

        A subagent's work is checked when its parent calls it done.
        """
        if context.above is not None:
            return None
        for check in context.home_now.tools.checks:
            if check.before == "finish" and (found := await self._run(context, check)) is not None:
                return found
        return None

    async def _run(self, context: RunContext, check: Check) -> str | None:
        """What the check found, None if it passed or could not run (which is a problem of the home)."""
        if not self.trusted(context):
            _inert(context, check, "this home is not trusted, so its checks do not run", "harnessd trust AGENT")
            return None
        seconds = check.timeout or CHECK_SECONDS
        ran = await self.sandbox_for(context).run(["sh", "-c", check.command], seconds=seconds)
        match ran:
            case Ran(status=0):
                return None
            case Ran(status, output):
                return f"The check `{check.command}` failed (exit {status}):\n{output[-SHOWN:]}"
            case TimedOut(seconds, output):
                return f"The check `{check.command}` did not end within {seconds:g} s:\n{output[-SHOWN:]}"
            case Unavailable(message, hint):
                _inert(context, check, message, hint)
                return None


def _inert(context: RunContext, check: Check, message: str, fix: str) -> None:
    context.problem(
        Problem(
            path="tools.json",
            code="check-not-run",
            severity="error",
            message=f"the check `{check.command}` did not run: {message}",
            fix=fix,
        )
    )


def _concerns(pattern: str, call: OpenCall, home: Path) -> bool:
    """Whether a pattern such as `write(**/*.py)` means this call; it is read as widely as a deny rule."""
    rule = parse_rule(pattern)
    if isinstance(rule, BadRule):
        return False
    path = str((call.arguments or {}).get("path", ""))
    target = Target(path=str(home / path), access="write", within="home", home_path=path)
    name = call.call.name
    gate_call = GateCall(
        tool=name, own_name=name, kind="builtin", arguments=call.arguments or {}, targets=(target,) if path else ()
    )
    return match(rule, gate_call, {}, "deny") == "yes"
