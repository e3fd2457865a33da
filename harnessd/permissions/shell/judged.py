"""What can be said of a command line, and of one simple command in it?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harnessd.permissions.shell.word import Word

Level = Literal["reads", "ordinary", "unknown", "unclear"]
"""From harmless to not understood.

`reads`: known to read only. `ordinary`: known daily work that writes within work/. `unknown`: understood syntax, but a
command that is not known, or known to be risky. `unclear`: not understood, or made to hide what it does.
"""
LEVELS: tuple[Level, ...] = ("reads", "ordinary", "unknown", "unclear")


@dataclass(frozen=True, slots=True)
class Finding:
    """The level of one part of a line, and why."""

    level: Level
    reason: str


READS = Finding("reads", "it only reads")


def ordinary(reason: str) -> Finding:
    """Known daily work."""
    return Finding("ordinary", reason)


def unknown(reason: str) -> Finding:
    """Understood, but not known to be harmless."""
    return Finding("unknown", reason)


def unclear(reason: str) -> Finding:
    """Not understood."""
    return Finding("unclear", reason)


def worst(findings: Iterable[Finding]) -> Finding:
    """The finding of the highest level, the first of equals; `READS` of none."""
    return max(findings, key=lambda finding: LEVELS.index(finding.level), default=READS)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command as it will run, behind its wrappers: its words after unquoting, its level.

    `ways` are all the words by which a deny rule may know it: as written, behind each wrapper, and without what may
    stand before a subcommand.
    """

    words: tuple[Word, ...]
    ways: tuple[tuple[Word, ...], ...]
    finding: Finding


@dataclass(frozen=True, slots=True)
class Judged:
    """What a command line may do: the worst of its parts, and why; and every simple command that was seen in it.

    `beside` is the worst of what is no simple command: assignments and redirections; `targets`: where it redirects to.
    """

    level: Level
    reason: str
    commands: tuple[SimpleCommand, ...] = ()
    beside: Finding = READS
    targets: tuple[Word, ...] = ()
