"""What waits for a person, in all homes and in the sessions of subagents too?"""

from aiohttp import web

from harnessd.api.answer import answer_at_length
from harnessd.api.keys import RUNTIME
from harnessd.facts.base import Record
from harnessd.facts.run import Approval


class WaitingEntry(Record):
    """An approval and where it is decided: by a control sent to that session of that agent.

    `agent_id` is the resident of the home that asked: `main` or a subagent.
    """

    home: str = ""
    agent_id: str = ""
    session_id: str = ""
    title: str = ""
    user_id: str | None = None
    approval: Approval = Approval()


class WaitingList(Record):
    """Everything that waits, oldest first."""

    approvals: tuple[WaitingEntry, ...] = ()


async def listed(request: web.Request) -> web.StreamResponse:
    """GET /api/approvals."""
    waiting = request.app[RUNTIME].waiting()
    return await answer_at_length(
        request,
        WaitingList(
            approvals=tuple(
                WaitingEntry(
                    home=one.home,
                    agent_id=one.agent_id,
                    session_id=one.session_id,
                    title=one.title,
                    user_id=one.user_id,
                    approval=one.approval,
                )
                for one in waiting
            )
        ),
    )
