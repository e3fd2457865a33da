"""Which tools fit these words best?"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harnessd.tools.tool import Tool

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMMON = {
    "a", "an", "and", "any", "can", "for", "from", "in", "into", "is", "it", "me", "my", "of", "on", "or", "that",
    "the", "this", "to", "tool", "use", "with",
}  # fmt: skip
_NAME, _SERVER, _TEXT, _BEGINNING = 3.0, 2.0, 1.0, 0.5


@dataclass(frozen=True)
class Ranking:
    """The tools that are searched. Words count the more the fewer tools have them, in a name more than elsewhere."""

    tools: Sequence[Tool]

    def best(self, query: str, at_most: int) -> list[Tool]:
        """The best first, equals by name; a query of nothing but names gives just those. Works for a while."""
        names = re.split(r"[\s,;]+", query.strip(" \t\n,;"))
        if all(name in self._by_name for name in names):
            return list(dict.fromkeys(self._by_name[name] for name in names))[:at_most]
        wanted = words(query)
        scored = [(self._score(index, wanted), tool) for tool, index in zip(self.tools, self._indexes, strict=True)]
        best = sorted(((score, tool) for score, tool in scored if score > 0), key=lambda pair: (-pair[0], pair[1].name))
        return [tool for _, tool in best[:at_most]]

    @cached_property
    def _by_name(self) -> dict[str, Tool]:
        """Offered names, and own names that are not ambiguous."""
        own = Counter(tool.own_name for tool in self.tools)
        known = {tool.own_name: tool for tool in self.tools if own[tool.own_name] == 1}
        return known | {tool.name: tool for tool in self.tools}

    @cached_property
    def _indexes(self) -> list[dict[str, float]]:
        return [_index(tool) for tool in self.tools]

    @cached_property
    def _having(self) -> Counter[str]:
        return Counter(word for index in self._indexes for word in index)

    def _score(self, index: dict[str, float], wanted: Sequence[str]) -> float:
        return sum(self._points(index, word) for word in wanted)

    def _points(self, index: dict[str, float], word: str) -> float:
        found = index.get(word)
        if found is not None:
            return found * math.log(1 + len(self.tools) / self._having[word])
        if len(word) < 3:
            return 0.0
        # The beginning of a word: "repo" finds "repository", and the other way round.
        near = [value for other, value in index.items() if len(other) >= 3 and _begins(other, word)]
        return _BEGINNING * max(near, default=0.0)


def words(text: str) -> tuple[str, ...]:
    """The words of a text as they are compared: without case, accents and plural; Chinese in pairs of characters."""
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", text))
    plain = "".join(character for character in plain if not unicodedata.combining(character)).casefold()
    found: dict[str, None] = {}
    for word in _WORD.findall(unicodedata.normalize("NFC", plain)):
        for part in _pairs(word):
            if part not in _COMMON:
                found[_singular(part)] = None
    return tuple(found)


def _pairs(word: str) -> list[str]:
    if not _WIDE.search(word) or len(word) < 3:
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _begins(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _index(tool: Tool) -> dict[str, float]:
    properties = tool.input_schema.get("properties")
    parameters = " ".join(properties) if isinstance(properties, dict) else ""
    index = dict.fromkeys(words(f"{tool.description[:2000]} {parameters}"), _TEXT)
    index |= dict.fromkeys(words(tool.server or ""), _SERVER)
    return index | dict.fromkeys(words(tool.own_name), _NAME)
