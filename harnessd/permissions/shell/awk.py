"""Does an `awk` program only print to its own output?"""

import re
from collections.abc import Sequence

from harnessd.permissions.shell.judged import READS, Finding, unclear, unknown
from harnessd.permissions.shell.places import reading
from harnessd.permissions.shell.word import Word, names

_TOKEN = re.compile(
    r"""
    (?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<comment>\#[^\n]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<space>\s+|\\\n)
    |(?P<mark>\|\||&&|>=|<=|==|!=|!~|\+\+|--|[-+*/%^]=|\*\*|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED = names("system getline close fflush ENVIRON PROCINFO ARGV ARGC SYMTAB FUNCTAB")


def awk_finding(words: Sequence[Word]) -> Finding:
    """`READS` if the program is given in the line and neither runs, nor writes, nor reads by a name of its own."""
    rest = list(words)
    while rest and rest[0].is_option:
        word = rest.pop(0)
        if word.text == "--":
            break
        if word.loose:
            return unknown(f"awk: {word} may become an option")
        if word.text in {"-F", "-v"} and rest and not rest[0].many and (word.text == "-F" or _sets(rest[0].text)):
            rest.pop(0)
        elif not (re.fullmatch(r"-F.+", word.text, re.DOTALL) or (word.text.startswith("-v") and _sets(word.text[2:]))):
            return unclear(f"awk {word}: not known to only read")
    if not rest or not rest[0].fixed:
        return unknown("awk: its program shows only at the run")
    if problem := _problem(rest[0].text):
        return unclear(f"awk: {problem}, so its program is not known to only read")
    return next((found for word in rest[1:] if (found := reading(word)) is not READS), READS)


def _sets(text: str) -> bool:
    return re.match(r"[A-Za-z_][A-Za-z0-9_]*=", text) is not None


def _problem(program: str) -> str:
    """The first thing in the program that is not plain; "" if there is none."""
    at, before, printing = 0, "", False
    risky = _RISKY.search(program) is not None
    while at < len(program):
        if program[at] == "/" and before in _EITHER and risky:
            return "a slash may divide or begin a pattern"
        if program[at] == "/" and before not in _BEFORE_DIVISION:
            end = _pattern_end(program, at)
            if end < 0:
                return "a pattern is not plain"
            at, before = end, "pattern"
            continue
        found = _TOKEN.match(program, at)
        if found is None:
            return "it is not understood"
        kind, piece = found.lastgroup, found.group()
        at = found.end()
        if kind in {"space", "comment"}:
            if "\n" in piece and not piece.startswith("\\") and before in _BEFORE_NEWLINE:
                printing, before = False, ";"
            continue
        if kind == "name" and piece in _REFUSED:
            return piece
        if piece in {"|", "|&", "@", "`", "\\", "'"} or (kind == "mark" and piece in {'"', "#"}):
            return f"it holds {piece}"
        if piece in {"print", "printf"}:
            printing = True
        elif piece in {";", "}", "{"}:
            printing = False
        if piece == ">" and (printing or before == ">"):
            return "it prints to a file"
        before = piece if kind == "mark" or piece in _BEFORE_WORDS or piece in _EITHER else "value"
    return ""


_EITHER = frozenset((")", "++", "--", "length"))
_BEFORE_DIVISION = _EITHER | {"value", "pattern", "]"}
"""A slash behind anything else begins a pattern; behind `)` or `length` it may do either."""

_BEFORE_WORDS = names("print printf return in else do case exit delete")
_BEFORE_NEWLINE = _BEFORE_DIVISION | {"}", "{", ";", "print", "printf", "return", ""}
"""Behind these a line's end ends a statement; behind an operator some awks read on."""

_RISKY = re.compile(r"system|getline|close|fflush|[|>@]|ENVIRON|PROCINFO|ARG[VC]|SYMTAB|FUNCTAB")


_BRACKETS = re.compile(r"\[(?!\^\])\^?(?:\[:[a-z]+:\]|\\[^\]\[/\n]|[^\]\[/\\\n])+\]")
"""Where awks agree on the end of them: no bracket in them but a class, and no slash."""


def _pattern_end(program: str, at: int) -> int:
    """Behind `/…/`; -1 where awks differ (in what ends brackets) or it does not end."""
    part = at + 1
    while part < len(program) and program[part] != "\n":
        if program[part] == "\\":
            part += 1
        elif program[part] == "[":
            brackets = _BRACKETS.match(program, part)
            if brackets is None:
                return -1
            part = brackets.end() - 1
        elif program[part] == "/":
            return part + 1
        part += 1
    return -1
