"""What does a command line consist of, whatever reads its syntax: commands, assignments, redirections."""

from dataclasses import dataclass

from harnessd.permissions.shell.word import Word


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`; `value` is None where the name gets what only the run decides (a loop, `read`)."""

    name: str
    value: Word | None
    array: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """`> target`; of a here-document or here-string there is nothing to say but what it expands."""

    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Call:
    """One simple command as written; without words it only assigns or redirects."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    declares: str = ""
    """`export`, `declare` …: the assignments are that command's."""


@dataclass(frozen=True, slots=True)
class Line:
    """A command line that was understood: all simple commands in it, nested ones included, in no promised order."""

    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Obscure:
    """A command line that was not understood, or that should not be; why."""

    reason: str
