"""How is a call made of a server that may ask a person on the way?"""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from harnessd.facts.message import JsonObject, Origin
from harnessd.facts.run import Question
from harnessd.facts.state import QuestionAnswer
from harnessd.tools.elicitation import ROUNDS_AT_MOST, Wanted, forgot
from harnessd.tools.mcp import Answered, Link
from harnessd.tools.patience import paused
from harnessd.tools.tool import Asks, NobodyToAsk, Outcome, ToolContext, failed


@dataclass(eq=False, slots=True)
class _Call:
    """A call under way; `patience` ends it. One question at a time is put to its person."""

    context: ToolContext
    patience: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    asked: int = 0


@dataclass(frozen=True)
class Exchange:
    """The calls that are under way on the connection to one server."""

    server: str
    origin: Callable[[], Origin]
    _calls: list[_Call] = field(default_factory=list)

    async def make(
        self, link: Link, tool: str, context: ToolContext, arguments: JsonObject, seconds: float
    ) -> Answered | Asks | Outcome:
        """Makes a call, or goes on with one whose questions are answered; an `Outcome` if it can't be gone on with.

        Raises whatever `mcp_failure.failure_of` understands.
        """
        not_visited = (one for one in context.answers if one.question.way == "again" and one.outcome != "allowed")
        for one in not_visited:
            text = f"{self.server} wants a page visited first, and that was {one.outcome}; nothing was done."
            return failed(one.outcome, text, status="denied" if one.outcome == "denied" else "cancelled")
        call = _Call(context)
        self._calls.append(call)
        try:
            answer = await self._answer(link, tool, call, arguments, seconds)
        finally:
            self._calls.remove(call)
        return self._wanted(answer, context) if isinstance(answer, Wanted) else answer

    async def ask(self, question: Question) -> QuestionAnswer:
        """Puts what the server asks while a call waits to the person who stands behind that call.

        Raises `NobodyToAsk` if it is not certain which call that is: an answer must not reach another's question.
        """
        if len(self._calls) != 1:
            several = f"{len(self._calls)} calls are under way" if self._calls else "no call is under way"
            raise NobodyToAsk(f"{several} on this connection, so nobody can be asked; call one at a time")
        call = self._calls[0]
        async with call.turn:
            call.asked += 1
            if call.asked > ROUNDS_AT_MOST:
                raise NobodyToAsk(f"this call has asked {ROUNDS_AT_MOST} questions already")
            update = {"server": self.server, "round": call.asked, "way": "held"}
            with paused(call.patience):
                return await call.context.ask(question.model_copy(update=update))

    async def _answer(
        self, link: Link, tool: str, call: _Call, arguments: JsonObject, seconds: float
    ) -> Answered | Wanted:
        """What the server answers to the call, or to the answers that its questions had.

        Where it does not know its own state any more (it was started anew, or took too long for it) the call is made
        from its beginning, which did nothing yet, and what it asks in the same words is answered as before.
        """
        context, answers = call.context, call.context.answers
        known: tuple[QuestionAnswer, ...] = ()
        while True:
            try:
                answer = await link.call(
                    tool,
                    arguments,
                    seconds=seconds,
                    key=context.idempotency_key,
                    tell_progress=context.delta,
                    answers=answers,
                    patience=call.patience,
                )
            except Exception as error:
                if known or not answers or not forgot(error):
                    raise
                answers, known = (), answers
                call.patience = anyio.CancelScope()
                continue
            again = answer.answered_by(known, answers) if isinstance(answer, Wanted) else ()
            if not again:
                return answer
            answers = (*answers, *again)
            call.patience = anyio.CancelScope()

    def _wanted(self, wanted: Wanted, context: ToolContext) -> Outcome | Asks:
        """The server asks, and is called again with the answers."""
        rounds = max((one.question.round for one in context.answers), default=0)
        why = wanted.refused or (f"it has asked {rounds} times already" if rounds >= ROUNDS_AT_MOST else "")
        if why:
            return failed("cannot_ask", f"The server {self.server} can't go on: {why}.", origin=self.origin())
        return Asks(wanted.asked_by(self.server, rounds + 1))
