"""What does a person see while a run goes on?"""

from typing import Protocol

from harnessd.cli.harmless import one_line
from harnessd.cli.output import Output
from harnessd.cli.render import approval_text, call_text, result_line, told
from harnessd.facts.event import (
    AssistantTextDelta,
    Delta,
    Event,
    HomeChanged,
    MessageCreated,
    ToolApprovalRequired,
    ToolApprovalResolved,
    ToolCallCompleted,
    ToolCallCreated,
    ToolCallDelta,
    ToolCallRunning,
    TurnStarted,
    write_event,
)
from harnessd.facts.message import AssistantMessage, JsonObject, text_of
from harnessd.facts.state import State
from harnessd.home.layout import MEMORY


class Screen(Protocol):
    """Shows what comes out of a session."""

    def show(self, item: Event | Delta) -> None:
        """One fact, or one piece of a text that grows."""
        ...

    def rest(self) -> None:
        """Nothing more comes for now: leave no half line behind."""
        ...


def screen_for(out: Output, state: State) -> Screen:
    """The screen that suits the output, for a session as it stands: for a person or for a program."""
    return Records(out) if out.as_json else Live(out, state)


class Records:
    """Events as they stand in the journal, one a line; deltas are not shown, their whole text follows."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def show(self, item: Event | Delta) -> None:
        """Prints an event."""
        if isinstance(item, Event):
            self._out.record(write_event(item))

    def rest(self) -> None:
        """Every line is whole already."""


class Live:
    """Text on standard output as it comes, tool calls and what else happens as short lines on standard error."""

    def __init__(self, out: Output, state: State | None = None) -> None:
        calls = state.active_run.calls if state and state.active_run else ()
        pending = state.pending_approvals if state else ()
        self._out = out
        self._written: dict[str, int] = {}
        self._current = ""
        self._arguments: dict[str, JsonObject | None] = {one.call.id: one.arguments for one in calls}
        self._names = {one.call.id: one.call.name for one in calls}
        self._questions = {one.id for one in pending if one.question is not None}
        self._own_paths: set[str] = set()
        self._in_line = False
        self._passing = False

    def show(self, item: Event | Delta) -> None:
        """Prints what a person wants to know of it."""
        match item:
            case AssistantTextDelta(message_id=message_id, offset=offset, text=text):
                self._text(message_id, offset, text)
            case MessageCreated(message=AssistantMessage() as message):
                self._text(message.id, 0, text_of(message))
                self._end_line()
                self._written.pop(message.id, None)
            case TurnStarted():
                self._pass("…")
            case ToolCallCreated():
                self._arguments[item.tool_call_id] = item.arguments
                self._names[item.tool_call_id] = item.tool_name
            case ToolCallRunning(tool_call_id=call):
                self._pass(f"  · {call_text(self._names.get(call, 'tool'), self._arguments.get(call))}")
            case ToolCallDelta(stream="output", text=text) if text.strip():
                self._pass(f"    {one_line(text.strip().splitlines()[-1], 76)}")
            case ToolCallCompleted(tool_call_id=call):
                self._names.pop(call, None)
                arguments = self._arguments.pop(call, None)
                if item.commit:
                    self._own_paths.add(_changed_path(arguments))
                self._note(result_line(item, arguments, self._out.side))
            case ToolApprovalRequired(approval=approval):
                if approval.question is not None:
                    self._questions.add(approval.id)
                self._note(approval_text(approval, self._out.side))
            case HomeChanged(paths=paths) if paths and self._own_paths.issuperset(map(_as_changed, paths)):
                self._own_paths.clear()  # the call's own line told it
            case ToolApprovalResolved(arguments=given) if given is not None and item.approval_id not in self._questions:
                self._arguments[item.tool_call_id] = given  # the person's, with which the call is made
                self._note(told(item, self._out.side) or "")
            case Event():
                if line := told(item, self._out.side):
                    self._note(line)

    def rest(self) -> None:
        """Ends the line that is being written."""
        self._end_line()
        self._clear()

    def _text(self, message_id: str, offset: int, text: str) -> None:
        """The part of a message that is not on the screen yet; pieces may be missing or come twice."""
        if message_id != self._current:
            self._end_line()
            self._current = message_id
        written = self._written.get(message_id, 0)
        if offset > written:
            return  # a piece was lost on the way: the whole text comes with the message
        fresh = text[written - offset :]
        if not fresh:
            return
        self._clear()
        self._written[message_id] = written + len(fresh)
        shown = self._out.text(fresh)
        if shown:
            self._out.write(shown)
            self._in_line = not shown.endswith("\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._out.write("\n")
            self._in_line = False

    def _note(self, text: str) -> None:
        self._end_line()
        self._clear()
        self._out.note(text)

    def _pass(self, text: str) -> None:
        """A line that the next one replaces; only a terminal can do that."""
        if self._out.is_terminal and not self._in_line:
            self._clear()
            self._out.note_piece(self._out.side.dim(text))
            self._passing = True

    def _clear(self) -> None:
        if self._passing:
            self._out.note_piece("\r\x1b[K")
            self._passing = False


def _changed_path(arguments: JsonObject | None) -> str:
    """The file that a call committed: what it names, else a memory."""
    return str((arguments or {}).get("path", MEMORY))


def _as_changed(path: str) -> str:
    """The path as `_changed_path` tells it: a user's own memory is a memory too."""
    return MEMORY if path.endswith("/" + MEMORY) else path
