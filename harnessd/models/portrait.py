"""What the offline model reads in the system text: who it is, what it knows, its skills, its rules."""

import re
from dataclasses import dataclass
from functools import partial

_SECTION = re.compile(
    r"^(?:#{1,6}\s+|<|\[|=+\s*|-{2,}\s*)[^\n]{0,40}?\b(AGENTS|KNOWLEDGE|MEMORY)(?:\.md)?\b[^\n]*$",
    re.MULTILINE,
)
_ENTRY = re.compile(r"(?im)^\s*[-*]\s+[`*]*([a-z0-9][a-z0-9-]*)[`*]*\s*(?:[:—–(-]\s*(.*))?$")
_QUOTED = r"(?:\"([^\"\n]+)\"|“([^”\n]+)”|'([^'\n]+)'|`([^`\n]+)`|([^\n.]+))"
_EVERY = r"(?:every|each|all|your)\s+(?:answers?|repl(?:y|ies)|responses?|messages?)"
_BEGIN = re.compile(rf"\b(?:begin|start)\s+{_EVERY}\s+with\s+{_QUOTED}", re.IGNORECASE)
_SIGN = re.compile(rf"\b(?:sign|end|close|finish)\s+{_EVERY}\s+(?:with|as)\s+{_QUOTED}", re.IGNORECASE)
_CALL = re.compile(rf"(?i)\b(?:call|address)\s+(?:the\s+)?(?:user|person|me)\s+(?:as\s+|by\s+)?{_QUOTED}")
_STYLE = re.compile(r"\balways\s+(?:answer|reply|respond|write|speak)\s+in\s+([^\n.]+)", re.IGNORECASE)
_OBJECT_OF = "|".join(
    rf"(?<=\b{word} )"
    for word in re.findall(r"\w+", "about ask at by for from give gives help helps of on tell tells to told with")
)
_MINE = (
    (r"you(?: are|['’]re)\b", "I am"),
    (r"you were\b", "I was"),
    (r"yourself\b", "myself"),
    (r"yours\b", "mine"),
    (r"your\b", "my"),
    (rf"(?:{_OBJECT_OF})you\b", "me"),
    (r"you(?=\s*(?:[.,;:!?)]|\Z))", "me"),
    (r"you\b", "I"),
)
"""A word that is said to somebody, and the same word said by them; the first that fits counts."""
_SMALL = frozenset(
    re.findall(
        r"\w+",
        "a an and are at be can do does for from have how i in is it me my of on or our please say that the "
        "their this to use we what when which who with you your",
    )
)
_HELLO = {
    "french": "Bonjour.",
    "german": "Guten Tag.",
    "spanish": "Hola.",
    "italian": "Buongiorno.",
    "portuguese": "Olá.",
    "dutch": "Goedendag.",
    "russian": "Здравствуйте.",
    "japanese": "こんにちは。",
    "latin": "Salve.",
}


def read_portrait(system: str) -> "Portrait":
    """The parts of a system text, found by headings that name AGENTS, KNOWLEDGE and MEMORY.

    Without such headings the whole text counts as each of them.
    """
    marks = list(_SECTION.finditer(system))
    if not marks:
        return Portrait(system, system, system)
    texts = {"AGENTS": system[: marks[0].start()], "KNOWLEDGE": "", "MEMORY": ""}
    ends = [mark.start() for mark in marks[1:]] + [len(system)]
    for mark, end in zip(marks, ends, strict=True):
        # A section in tags ends with its tag, one under a heading with the next heading that names a file.
        inside = re.split(r"(?m)^</", system[mark.end() : end])[0]
        texts[mark[1].upper()] += "\n" + inside
    return Portrait(texts["AGENTS"], texts["KNOWLEDGE"] + "\n" + texts["MEMORY"], system)


@dataclass(frozen=True)
class Portrait:
    """`agents`: who it is and its rules; `knowledge`: what it knows; `whole`: all of the system text."""

    agents: str
    knowledge: str
    whole: str

    def who(self) -> str:
        """The first paragraphs of prose of AGENTS.md, or an empty text."""
        text = re.sub(r"\A\s*---\n.*?\n---\n", "", self.agents, flags=re.DOTALL)
        prose = [
            " ".join(paragraph.split())
            for paragraph in re.split(r"\n\s*\n", re.sub(r"^#.*$", "\n", text, flags=re.MULTILINE))
            if paragraph.strip() and not re.match(r"\s*[-*<|`]", paragraph)
        ]
        return _first_person("\n\n".join(prose[:2]))

    def known(self, about: str) -> str:
        """The lines of memory and knowledge that share a word with `about` (all facts if it is empty)."""
        words = _words(about)
        lines = [line.strip() for line in self.knowledge.splitlines()]
        lines = [line for line in lines if line and not line.startswith(("#", "<", "---"))]
        if words:
            scored = [(len(words & _words(line)), line) for line in lines]
            best = max((score for score, _ in scored), default=0)
            lines = [line for score, line in scored if score and score == best]
        elif about:
            return ""
        return "\n".join(dict.fromkeys(lines[:20]))

    def skill_for(self, about: str) -> str:
        """The name in a list of the prompt that fits best what is asked, or an empty text."""
        words = _words(about)
        best, name = 0.0, ""
        index = re.search(r"(?ims)^#{1,6}\s+skills\b[^\n]*\n(.*?)(?=^#|\Z)", self.whole)
        for entry in _ENTRY.finditer(index[1] if index else self.whole):
            named = _words(entry[1].replace("-", " "))
            score = 2.0 * len(words & named) + len(words & _words(entry[2] or ""))
            if named & words and score > best:
                best, name = score, entry[1]
        return name

    def dress(self, text: str) -> str:
        """The text as the rules of AGENTS.md want it: opening, signature, name of the user, style."""
        if found := _STYLE.search(self.agents):
            text = _styled(text, found[1].lower())
        if name := _rule(_CALL, self.agents):
            text = f"{name}, {text}"
        if opening := _rule(_BEGIN, self.agents):
            apart = "\n\n" if re.match(r"[#>|`<]|[-*+] |\d+[.)] ", text) else " "
            text = f"{opening}{apart}{text}"
        if signature := _rule(_SIGN, self.agents):
            text = f"{text}\n\n{signature}"
        return text


def _first_person(text: str) -> str:
    """AGENTS.md speaks to the agent; here the agent says the same of itself."""
    for pattern, mine in _MINE:
        text = re.sub(rf"\b(?:{pattern})", partial(_as_begun, mine), text, flags=re.IGNORECASE)
    return text


def _as_begun(mine: str, found: re.Match[str]) -> str:
    """`mine`, with a capital letter if what it replaces has one."""
    return mine[:1].upper() + mine[1:] if found[0][:1].isupper() else mine


def _words(text: str) -> frozenset[str]:
    found = re.findall(r"\w+", text.lower())
    return frozenset(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found) - _SMALL


def _rule(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group.strip() for group in found.groups() if group), "") if found else ""


def _styled(text: str, style: str) -> str:
    if re.search(r"capital|upper", style):
        return text.upper()
    if "lower" in style:
        return text.lower()
    hello = next((word for language, word in _HELLO.items() if language in style), "")
    return f"{hello} (I was asked for {style.strip()}; I can only greet in it.) {text}" if hello else text
