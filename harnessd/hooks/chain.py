"""The chain: which hooks there are, where they stand and in which order.

::

    before_run      workspace_context     pin; prompt; run.started
                    dynamic_tools         tools.json → servers, scripts, rules
                    dynamic_skills        skills/ → index, the `skill` tool
                    dynamic_subagents     subagents/ + built-in roles → the `delegate` tool
    before_model    the four above, by stat; compaction
    before_tool     the operator's own hooks, as a layer of the gate
    after_tool      tool_result_eviction (where the result is trimmed), checks
    before_finish   checks
    after_run       session_persistence, memory_flush, memory_maintenance

A hook that fails is reported as a problem of the home and the run goes on without it; only a promise that
cannot be kept (`HarnessdError`: no disk, no home) ends the run.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from harnessd.errors import HarnessdError, StorageError
from harnessd.facts.event import HomeProblem
from harnessd.facts.run import ProblemNote
from harnessd.facts.state import OpenCall
from harnessd.hooks.context import RunContext
from harnessd.tools.tool import Outcome

Hook = Callable[[RunContext], Awaitable[None]]
AfterTool = Callable[[RunContext, OpenCall, Outcome], Awaitable[Outcome]]
BeforeFinish = Callable[[RunContext], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Chain:
    """The hooks at each point, in order. `before_finish` answers with what still has to be done, or None."""

    before_run: tuple[Hook, ...] = ()
    before_model: tuple[Hook, ...] = ()
    after_tool: tuple[AfterTool, ...] = ()
    before_finish: tuple[BeforeFinish, ...] = ()
    after_run: tuple[Hook, ...] = ()

    async def run_before_run(self, context: RunContext) -> None:
        """Everything that the run reads of its home; nothing more once it was asked to stop."""
        for hook in self.before_run:
            if context.stopping:
                return
            await _guarded(hook, context)

    async def run_before_model(self, context: RunContext) -> None:
        """What changed since the turn before."""
        for hook in self.before_model:
            await _guarded(hook, context)

    async def run_after_tool(self, context: RunContext, call: OpenCall, outcome: Outcome) -> Outcome:
        """The outcome as the model will see it."""
        for hook in self.after_tool:
            try:
                outcome = await hook(context, call, outcome)
            except HarnessdError:
                raise
            except Exception as error:  # noqa: BLE001 - one of the three named places: one hook
                _report(hook, context, error)
        return outcome

    async def run_before_finish(self, context: RunContext) -> str | None:
        """What must be done before the agent may call it done; None if nothing."""
        for hook in self.before_finish:
            try:
                findings = await hook(context)
            except HarnessdError:
                raise
            except Exception as error:  # noqa: BLE001 - one of the three named places: one hook
                _report(hook, context, error)
            else:
                if findings:
                    return findings
        return None

    async def run_after_run(self, context: RunContext) -> None:
        """What is kept of the run. It has ended: only a disk that refuses is more than a problem now."""
        for hook in self.after_run:
            try:
                await hook(context)
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - one of the three named places: one hook
                _report(hook, context, error)


async def _guarded(hook: Hook, context: RunContext) -> None:
    try:
        await hook(context)
    except HarnessdError:
        raise
    except Exception as error:
        if context.definition is None:
            raise  # nobody may act for a home that could not be read
        _report(hook, context, error)


def _report(hook: object, context: RunContext, error: Exception) -> None:
    name = getattr(hook, "__qualname__", type(hook).__name__)
    note = ProblemNote(
        code="hook-failed",
        severity="error",
        message=f"the hook {name} failed: {type(error).__name__}: {error}",
        fix="the run goes on without it",
    )
    context.record(HomeProblem(problem=note))
