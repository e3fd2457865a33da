"""Where does it go, and how does it look: text for a person or JSON for a program?"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

import click
import orjson
from pydantic import BaseModel

from harnessd.cli.harmless import harmless


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or none of them."""

    colour: bool

    def dim(self, text: str) -> str:
        """What may be overlooked."""
        return click.style(text, dim=True) if self.colour else text

    def bold(self, text: str) -> str:
        """What is looked for."""
        return click.style(text, bold=True) if self.colour else text

    def good(self, text: str) -> str:
        """What went well, or was added."""
        return click.style(text, fg="green") if self.colour else text

    def bad(self, text: str) -> str:
        """What failed, or was taken away."""
        return click.style(text, fg="red") if self.colour else text

    def odd(self, text: str) -> str:
        """What wants attention."""
        return click.style(text, fg="yellow") if self.colour else text

    def place(self, text: str) -> str:
        """A file, an id, a place in a diff."""
        return click.style(text, fg="cyan") if self.colour else text


class Output:
    """Answers go to standard output, everything about them to standard error.

    `as_json`: only records are printed on standard output, one JSON object a line. Colour only on a terminal, and
    never when NO_COLOR is set.
    """

    def __init__(self, as_json: bool = False, *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self._out = out if out is not None else sys.stdout
        self._err = err if err is not None else sys.stderr
        self.style = Style(_wants_colour(self._out))
        self.side = Style(_wants_colour(self._err))
        self.is_terminal = self._out.isatty() and self._err.isatty()

    def line(self, text: str = "") -> None:
        """One line or more for a person, on standard output."""
        self.write(text + "\n")

    def write(self, text: str) -> None:
        """A piece of text on standard output, at once."""
        _put(self._out, text)

    def note(self, text: str) -> None:
        """A line about what happens, on standard error."""
        self.note_piece(text + "\n")

    def note_piece(self, text: str) -> None:
        """A piece of a line on standard error, at once."""
        _put(self._err, text)

    def record(self, data: BaseModel | Mapping[str, object]) -> None:
        """One JSON object on a line of its own; a model writes itself in camelCase, without what is absent."""
        if isinstance(data, BaseModel):
            self.line(data.model_dump_json(by_alias=True, exclude_none=True))
        else:
            self.line(orjson.dumps(data, default=str).decode())

    def text(self, foreign: str) -> str:
        """Text of a model or a tool for standard output: on a terminal without what could steer the terminal."""
        return harmless(foreign) if self._out.isatty() else foreign


def _put(stream: TextIO, text: str) -> None:
    """Writes at once. A reader that went away changes nothing about what is done: the rest goes nowhere."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
