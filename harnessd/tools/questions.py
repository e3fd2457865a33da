"""How is a question of a call's server put to a person, and how does the answer come back to the call?

A question is an approval of its own. Either the call ends for now and is run again with the answers, in this process or
another; or it is held: the server waits in it. After a crash a held call that may be repeated is run again, and what it
asks anew in the same words has the approval, or the answer, that is on record.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from harnessd.facts.event import Event, ToolApprovalRequired, ToolApprovalResolved
from harnessd.facts.run import Approval, Question
from harnessd.facts.state import QuestionAnswer
from harnessd.ids import new_id
from harnessd.journal.stamp import from_now
from harnessd.tools.elicitation import same_question
from harnessd.tools.patience import paused
from harnessd.tools.recorder import Recorder
from harnessd.tools.tool import Ask, NobodyToAsk


@dataclass(frozen=True)
class Questions:
    """Puts questions. `answer_to` waits until the approval of that id is decided; None: no call can be held."""

    ledger: Recorder
    record: Callable[[Event], None]
    expires_at: Callable[[], str | None]
    answer_to: Callable[[str], Awaitable[None]] | None
    may_ask: Callable[[], bool]

    def put(self, about: Approval, questions: Sequence[Question]) -> tuple[QuestionAnswer, ...] | None:
        """Asks a person, for the call that `about` describes; the answers at once where nobody may be asked."""
        if not self.may_ask():
            return tuple(_declined(question) for question in questions)
        for question in questions:
            self._ask(about, question)
        return None

    @contextmanager
    def held(self, call_id: str, about: Callable[[], Approval], scope: anyio.CancelScope) -> Iterator[Ask]:
        """What the call that `about` describes asks with while the block runs; `scope` is its deadline."""
        earlier = self._on_record(call_id)
        waits: list[anyio.CancelScope] = []
        over = False

        async def ask(question: Question) -> QuestionAnswer:
            if over:
                raise NobodyToAsk("the call has ended")
            known = earlier.pop(0) if earlier else None
            if known is None or known.question is None or not same_question(known.question, question):
                known = None
                earlier.clear()
                self.withdraw(call_id, "its server asks something else now")
            if isinstance(known, QuestionAnswer):
                return known
            if not self.may_ask():
                return _declined(question)
            if self.answer_to is None:
                raise NobodyToAsk("nobody can be asked while the call waits")
            approval_id = known.id if known is not None else self._ask(about(), question)
            await self.ledger.barrier()
            with anyio.CancelScope() as wait, paused(scope):
                waits.append(wait)
                await self.answer_to(approval_id)
            answer = self._answer(call_id, approval_id)
            if answer is None:
                raise NobodyToAsk("the call has ended")
            return answer

        try:
            yield ask
        finally:
            over = True
            for wait in waits:
                wait.cancel()

    def withdraw(self, call_id: str, note: str) -> None:
        """Takes back what a call still asks."""
        for one in self.ledger.state.pending_approvals:
            if one.tool_call_id == call_id and one.question is not None:
                resolved = ToolApprovalResolved(
                    approval_id=one.id, tool_call_id=call_id, outcome="cancelled", note=note
                )
                self.record(resolved)

    def _ask(self, about: Approval, question: Question) -> str:
        update = {
            "id": new_id("apr"),
            "question": question,
            "requested_at": from_now(),
            "expires_at": self.expires_at(),
        }
        approval = about.model_copy(update=update)
        self.record(ToolApprovalRequired(approval=approval))
        return approval.id

    def _on_record(self, call_id: str) -> list[QuestionAnswer | Approval]:
        """What the call asked in a former life while it was held, in order: answered, or still open."""
        run = self.ledger.state.active_run
        calls = run.calls if run is not None else ()
        answered = (one for entry in calls if entry.call.id == call_id for one in entry.answers)
        waiting = (one for one in self.ledger.state.pending_approvals if one.tool_call_id == call_id)
        known: tuple[QuestionAnswer | Approval, ...] = (*answered, *waiting)
        return [one for one in known if one.question is not None and one.question.way == "held"]

    def _answer(self, call_id: str, approval_id: str) -> QuestionAnswer | None:
        run = self.ledger.state.active_run
        calls = run.calls if run is not None else ()
        answers = (one for entry in calls if entry.call.id == call_id for one in entry.answers)
        return next((one for one in answers if one.approval_id == approval_id), None)


def _declined(question: Question) -> QuestionAnswer:
    return QuestionAnswer(question=question, outcome="denied", note="nobody is asked in this mode")
