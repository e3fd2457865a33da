"""Which simple commands of a command line does a rule mean?"""

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache

from harnessd.permissions.shell import SimpleCommand, judge
from harnessd.permissions.shell.judge import own_name
from harnessd.permissions.shell.word import Word

_BETWEEN = "\x1f"
"""Parts the words of a command where a rule is compared with it, so that a quoted blank is no end of a word."""


MOST_WORDS = 20_000
"""Words of a line that is not understood among which a command is looked for; in a longer one anything may be."""

MOST_WORDS_OF_ONE = 50


def allowed_by(specs: Sequence[str], command: str, *, reads_pass: bool = True) -> tuple[str, ...]:
    """The specs by which the whole line is allowed; none if it is not.

    The line must be understood, and each simple command in it match a spec or (`reads_pass`) only read; nothing else
    that it does, such as to write by a redirection, is allowed by a rule. A spec that is the very line allows it.
    """
    judged = judge(command)
    if judged.level == "unclear" or not judged.commands:
        return ()
    exact = tuple(spec for spec in specs if spec == command.strip() and "*" not in spec)
    if exact or judged.beside.level != "reads":
        return exact
    used: list[str] = []
    for one in judged.commands:
        by = next((spec for spec in specs if _allows(spec, one)), None)
        if by is not None:
            used.append(by)
        elif one.finding.level != "reads" or not reads_pass:
            return ()
    return tuple(dict.fromkeys(used))


def meant_by(spec: str, command: str) -> bool:
    """Whether any simple command of the line may be what the spec names, however it is quoted, nested or wrapped.

    In a line that is not understood a command may begin at any word.
    """
    judged = judge(command)
    for one in judged.commands:
        if any(_matches(spec, way, between=" ") or _matches(spec, way, between=_BETWEEN) for way in _ways(one)):
            return True
    if judged.level != "unclear":
        return any(_begins(spec, part.split()) for part in _parts(command))
    words = [part.split() for part in _parts(command)]
    if sum(map(len, words)) > MOST_WORDS:
        return True
    return any(_begins(spec, part[at : at + MOST_WORDS_OF_ONE]) for part in words for at in range(len(part)))


def _allows(spec: str, one: SimpleCommand) -> bool:
    """A word that may become an option, or several, is more than the rule says."""
    return not any(word.loose or word.many for word in one.words) and _matches(
        spec, _named(one.words), between=_BETWEEN
    )


def _ways(one: SimpleCommand) -> Iterable[tuple[str, ...]]:
    for words in (one.words, *one.ways):
        yield tuple(str(word) for word in words)
        yield _named(words)
        yield (words[0].text.rpartition("/")[2], *(str(word) for word in words[1:]))


def _named(words: tuple[Word, ...]) -> tuple[str, ...]:
    first = words[0].text
    return (own_name(first) or first, *(str(word) for word in words[1:]))


def _matches(spec: str, words: tuple[str, ...], *, between: str) -> bool:
    return shape(spec, between).fullmatch(between.join(words)) is not None


@lru_cache(maxsize=4096)
def shape(spec: str, between: str = " ") -> re.Pattern[str]:
    """The spec as a pattern: its text is itself, `*` is any text, `:*` and ` *` at the end any words or none."""
    open_end = spec.endswith((":*", " *"))
    try:
        words = shlex.split(spec[:-2] if open_end else spec)
    except ValueError:
        words = (spec[:-2] if open_end else spec).split()
    parts = re.sub(r"\*+", "*", between.join(words)).split("*")
    first, *rest = map(re.escape, parts)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    end = f"(?:{re.escape(between)}.*)?" if open_end else ""
    return re.compile(f"{first}{middle}{last}{end}", re.DOTALL)


_SEPARATORS = re.compile(r"[;&|\n\r(){}`<>]")
_ASSIGNMENTS = re.compile(r"(?:\s*[A-Za-z_][A-Za-z0-9_]*=\S*\s+)*")


def _parts(command: str) -> Iterable[str]:
    """The line cut at everything that may part commands: what is left where its syntax is not understood."""
    bare = re.sub(r"\\\n|[\\'\"]", "", command)
    for text in (command, bare):
        for part in (text, *_SEPARATORS.split(text)):
            yield _ASSIGNMENTS.sub("", part, count=1)


def _begins(spec: str, words: Sequence[str]) -> bool:
    if not words:
        return False
    named = (words[0].rpartition("/")[2], *words[1:])
    return _matches(spec, tuple(words), between=" ") or _matches(spec, named, between=" ")
