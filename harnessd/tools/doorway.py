"""How a tool changes a definition file: through the home's one door, with the answer told to the model."""

from dataclasses import replace

from harnessd.home.change import Change
from harnessd.home.door import Committed, Conflicted, NeedsApproval, Refused
from harnessd.home.tiers import Tier
from harnessd.tools.tool import Outcome, Preview, ToolContext, failed, succeeded


def preview_change(context: ToolContext, change: Change) -> Preview | Outcome:
    """What a person is asked about; an `Outcome` if the door would refuse. Blocks."""
    shown = context.door.preview_now(change, context.user_id, context.origin)
    if isinstance(shown, Refused | Conflicted):
        return _told(shown)
    return Preview(shown.diff, shown.base)


async def commit_change(context: ToolContext, change: Change) -> Outcome:
    """Makes the change as a commit in the agent's name; what only a person may allow needs an approval."""
    allowed: Tier = "ask" if context.approved else "auto"
    return _told(
        await context.door.commit(change, context.author, context.cause, allow_tier=allowed, user_id=context.user_id)
    )


def _told(answer: Committed | Refused | Conflicted | NeedsApproval) -> Outcome:
    match answer:
        case Committed():
            notes = "".join(f"\n{note}" for note in answer.notes)
            text = f"{answer.subject} (commit {answer.commit[:10]}).{notes}"
            done = succeeded(text, changed=True, commit=answer.commit)
            return replace(done, wrote=(answer.path, answer.blob or ""))
        case Refused(code="no-change"):
            return succeeded(f"{answer.path}: {answer.message}; nothing was changed.")
        case Refused():
            place = f"{answer.path}:{answer.line}" if answer.line else answer.path
            hint = f"; {answer.hint}" if answer.hint else ""
            return failed(answer.code, f"Refused, nothing was changed. {place}: {answer.message}{hint}")
        case Conflicted():
            return failed("conflict", f"Nothing was changed. {answer.path}: {answer.message}. Read it again.")
        case NeedsApproval():
            return failed(
                "needs_approval", f"Nothing was changed: {answer.path} changes only with a person's approval."
            )
