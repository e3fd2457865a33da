"""What is one word of a command, once quotes are gone and before anything is expanded?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ANYTHING = "\0"
"""Stands in a word's text for what only the run decides: a variable, the output of a command, what a glob matches."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word. `many`: it may become several words or none. `loose`: one that it becomes may begin with a dash.

    `computed`: a variable, a command's output or what xargs reads is in it, so that its text may be anything.
    """

    text: str
    many: bool = False
    loose: bool = False
    computed: bool = False

    @property
    def fixed(self) -> bool:
        """Whether it is known to the last character."""
        return ANYTHING not in self.text and not self.many

    @property
    def is_option(self) -> bool:
        """Whether it may be taken for an option."""
        return self.loose or (self.text.startswith("-") and self.text != "-")

    def __str__(self) -> str:
        return self.text.replace(ANYTHING, "…")


def before_operands(words: Sequence[Word]) -> Iterator[Word]:
    """The words that may be options: all up to a `--`, unless that may itself be the value of an option."""
    before = Word("")
    for word in words:
        if word.text == "--" and not before.text.startswith("-"):
            return
        yield word
        before = word


def named(word: Word) -> bool:
    """Whether an option's name is known: `--since=$x` is, `--$x`, `--o*` and `-$x` may turn into any other."""
    return not word.text.startswith("-") or ANYTHING not in word.text.partition("=")[0]


def shown(words: tuple[Word, ...], most: int = 60) -> str:
    """The words for a person, at most so many characters."""
    text = " ".join(map(str, words)).replace("\n", " ")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def names(text: str) -> frozenset[str]:
    """The words of a table's row."""
    return frozenset(text.split())
