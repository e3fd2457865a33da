"""How does a question of an MCP server become one for a person, and the answer one for the server?

Servers of 2026 answer a call with what they want to know and a sealed state; the call is made once more with both.
Older ones ask while the call waits (a form, or a page to visit), or refuse it until a page was visited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from harnessd.facts.message import JsonObject
from harnessd.facts.run import Question
from harnessd.facts.state import QuestionAnswer
from harnessd.home.hidden import strip_hidden
from harnessd.tools.arguments import BadSchema, Invalid, check_arguments, compile_schema
from harnessd.tools.tool import Ask

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext, ElicitationFnT
    from mcp_types import ElicitRequestParams, ElicitResult, ErrorData, InputRequiredResult

QUESTIONS_AT_MOST = 8
"""Questions that a server may put at a time."""

ROUNDS_AT_MOST = 16
"""How often one call may ask."""

MESSAGE_AT_MOST = 4000
SCHEMA_AT_MOST = 32_768
STATE_AT_MOST = 65_536

_ACTIONS: dict[str, Literal["accept", "decline", "cancel"]] = {"allowed": "accept", "denied": "decline"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a server wants to know before it goes on with a call, or why it cannot be asked of anybody."""

    questions: tuple[Question, ...] = ()
    refused: str = ""

    def asked_by(self, server: str, round: int) -> tuple[Question, ...]:  # noqa: A002 - the field's name
        """The questions, with who asks them and how often the call did."""
        return tuple(one.model_copy(update={"server": server, "round": round}) for one in self.questions)

    def answered_by(
        self, known: Sequence[QuestionAnswer], given: Sequence[QuestionAnswer]
    ) -> tuple[QuestionAnswer, ...]:
        """The answers of the round that follows those `given`, if they are to these very questions; else none."""
        number = max((one.question.round for one in given), default=0) + 1
        before = {one.question.request_id: one for one in known if one.question.round == number}
        if not self.questions or {one.request_id for one in self.questions} != before.keys():
            return ()
        asked = tuple(one.model_copy(update={"round": number}) for one in self.questions)
        if not all(same_question(before[one.request_id].question, one) for one in asked):
            return ()
        return tuple(before[one.request_id].model_copy(update={"question": one}) for one in asked)


def same_question(one: Question, other: Question) -> bool:
    """Whether an answer to the one is an answer to the other, both of one server."""
    return (one.message, one.answer_schema, one.url) == (other.message, other.answer_schema, other.url)


def forgot(error: BaseException) -> bool:
    """Whether a server refuses the answers since it does not know its own state any more."""
    from mcp.shared.exceptions import MCPError

    if not isinstance(error, MCPError):
        return False
    data = error.error.data
    return isinstance(data, dict) and data.get("reason") == "invalid_request_state"


def wanted_by(result: "InputRequiredResult") -> Wanted:
    """What a call's answer asks for, in the 2026 form."""
    state, requests = result.request_state, result.input_requests or {}
    if not requests:
        return Wanted(refused="it wants to be asked again and again")
    if len(requests) > QUESTIONS_AT_MOST:
        return Wanted(refused=f"it asks {len(requests)} questions at a time, more than {QUESTIONS_AT_MOST}")
    if state is not None and len(state) > STATE_AT_MOST:
        return Wanted(refused=f"it wants {len(state):,} characters kept with its question")
    questions: list[Question] = []
    for key, request in requests.items():
        if request.method != "elicitation/create":
            return Wanted(refused=f"it asks for {request.method}, which harnessd does not offer")
        question = _question(request.params)
        if isinstance(question, str):
            return Wanted(refused=question)
        update = {"way": "resend", "request_id": key, "request_state": state}
        questions.append(question.model_copy(update=update))
    return Wanted(tuple(questions))


def asked_beforehand(error: BaseException) -> Wanted | None:
    """The pages that a server of 2025 wants visited before the call is made again; None if the error is another."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import URL_ELICITATION_REQUIRED, ElicitationRequiredErrorData
    from pydantic import ValidationError

    if not isinstance(error, MCPError) or error.error.code != URL_ELICITATION_REQUIRED:
        return None
    try:
        pages = ElicitationRequiredErrorData.model_validate(error.error.data).elicitations
    except ValidationError:
        return None
    if not pages or len(pages) > QUESTIONS_AT_MOST:
        return Wanted(refused=f"it wants {len(pages)} pages visited")
    questions: list[Question] = []
    for page in pages:
        question = _question(page)
        if isinstance(question, str):
            return Wanted(refused=question)
        questions.append(question.model_copy(update={"way": "again", "request_id": page.elicitation_id or ""}))
    return Wanted(tuple(questions))


def elicitation(ask: Ask) -> "ElicitationFnT":
    """What the library calls when a server asks while its call waits."""

    async def elicited(context: "ClientRequestContext", params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        from mcp_types import INVALID_REQUEST, ErrorData

        question = _question(params)
        if isinstance(question, str):
            return ErrorData(code=INVALID_REQUEST, message=question)
        try:
            return _result(await ask(question))
        except Exception as error:  # noqa: BLE001 - it belongs to the call, which ends by its own fault; the link lives on
            return ErrorData(code=INVALID_REQUEST, message=str(error)[:500])

    return elicited


def responses_to(answers: Sequence[QuestionAnswer]) -> "dict[str, Any] | None":
    """The answers to the last questions of a call, by the server's own ids."""
    if not answers:
        return None
    last = answers[-1].question.round
    return {one.question.request_id: _result(one) for one in answers if one.question.round == last}


def check_answer(question: Question, arguments: JsonObject | None) -> JsonObject | Invalid | None:
    """The answer that a person gave, with the form's defaults where nothing was said, if it fits.

    `Invalid` names the field and the rule; None: there is nothing to say.
    """
    if question.url is not None:
        if arguments:
            return Invalid("there is nothing to fill in: open the page, then allow", line=0)
        return None
    check = compile_schema(_closed(question.answer_schema or {}))
    if isinstance(check, BadSchema):
        return Invalid(f"the question cannot be answered: {check.reason}", line=0)
    whole: JsonObject = {}
    said = arguments or {}
    for name, about, _ in question.blanks:
        if name in said or "default" in about:
            whole[name] = said[name] if name in said else about["default"]
    given = check_arguments({**whole, **said}, check)
    if isinstance(given, Invalid):
        return replace(given, rule=given.rule.replace("The arguments do not fit the tool", "the answer does not fit"))
    return given


def _closed(schema: JsonObject) -> JsonObject:
    """A misspelt field is an error that names it; forms have no others than those they list."""
    return schema if "additionalProperties" in schema else {**schema, "additionalProperties": False}


def _question(params: Any) -> Question | str:
    """The question in what a server sent; a sentence if it can't be asked."""
    message = strip_hidden(str(params.message))
    if len(message) > MESSAGE_AT_MOST:
        message = f"{message[:MESSAGE_AT_MOST]} [… {len(message) - MESSAGE_AT_MOST:,} characters left out]"
    if params.mode == "url":
        url = str(params.url)
        if not url.startswith(("https://", "http://")) or len(url) > MESSAGE_AT_MOST or not url.isprintable():
            return "the page that it wants visited has no http or https address"
        return Question(message=message, url=url)
    schema: Mapping[str, Any] | Any = params.requested_schema
    if not isinstance(schema, Mapping) or len(repr(schema)) > SCHEMA_AT_MOST:
        return "its form is too large, or no form"
    taken = dict(schema)
    check = compile_schema(taken)
    if isinstance(check, BadSchema):
        return f"its form is not usable: {check.reason}"
    return Question(message=message, answer_schema=taken)


def _result(answer: QuestionAnswer) -> "ElicitResult":
    from mcp_types import ElicitResult

    action = _ACTIONS.get(answer.outcome, "cancel")
    if action != "accept" or answer.question.url is not None:
        return ElicitResult(action=action)
    return ElicitResult(action="accept", content=answer.arguments or {})
