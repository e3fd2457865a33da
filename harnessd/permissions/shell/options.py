"""Do the words of a command stay within its row of the table?"""

import re
from collections.abc import Sequence

from harnessd.permissions.shell.judged import READS, Finding, ordinary, unclear, unknown, worst
from harnessd.permissions.shell.places import reading, writing
from harnessd.permissions.shell.table import EXACT, FREE, GUARDED, ORDINARY, REFUSED, VERSIONS, Row
from harnessd.permissions.shell.word import Word, before_operands, named, shown


def by_table(name: str, words: Sequence[Word]) -> Finding:
    """The finding on command `name` with `words` behind it, by its row; `unknown` without one."""
    if any(word.text in VERSIONS.get(name, ()) for word in words) and len(words) == 1 and words[0].fixed:
        return READS
    if name in FREE:
        return places(words)
    if name in GUARDED:
        return worst((_guarded(name, GUARDED[name], words), places(words)))
    if name in REFUSED:
        return worst((_refused(name, *REFUSED[name], words), places(words)))
    if name in EXACT:
        return worst((_exact(name, *EXACT[name], words), places(words)))
    return _ordinary(name, words)


def places(words: Sequence[Word]) -> Finding:
    """Whether one of the words names a place that is asked about."""
    return worst(map(reading, words))


def _guarded(name: str, row: Row, words: Sequence[Word]) -> Finding:
    longs = {long.rstrip("="): long.endswith("=") for long in row.longs.split()}
    rest, operands, only_operands = list(words), 0, False
    while rest:
        word = rest.pop(0)
        text = word.text
        if word.loose and not only_operands:
            return unknown(f"{name}: {word} may become an option")
        if only_operands or not text.startswith("-") or text == "-":
            operands += 2 if word.many else 1
            if row.operand and not re.fullmatch(row.operand, text):
                return unknown(f"{name} {word}: not known to only read")
        elif text == "--":
            only_operands = True
        elif text.startswith("--"):
            long, equals, _ = text[2:].partition("=")
            if long not in longs:
                return _option(name, word.text)
            if longs[long] and not equals and rest and long not in {"iso-8601", "all-repeated"} and not _drop(rest):
                return unknown(f"{name} {word}: its value is not plain")
        else:
            problem = _cluster(text[1:], row, rest)
            if problem:
                return _option(name, f"-{problem}")
    if row.operands is not None and operands > row.operands:
        return unknown(f"{name}: what it is given may be where it writes")
    return READS


def _option(name: str, option: str) -> Finding:
    """An option that is not in the row: one that names where to write is a plain risk, any other may run something."""
    if re.fullmatch(r"-[ors]|--(?:output|set|revert)(?:=.*)?", option):
        return unknown(f"{name} {option}: it writes")
    return unclear(f"{name} {option}: an option that is not known")


def _cluster(letters: str, row: Row, rest: list[Word]) -> str:
    """The first letter of `-abc` that is not known; a value is taken from the rest."""
    for number, letter in enumerate(letters):
        if letter in row.valued:
            if number == len(letters) - 1 and rest and not _drop(rest):
                return letter
            return ""
        if letter == "I" and "I" in row.flags and "R" in row.flags:
            return ""  # date -Iseconds
        if letter not in row.flags:
            return letter
    return ""


def _drop(rest: list[Word]) -> bool:
    """Takes an option's value; one that may be several words is no plain one."""
    return not rest.pop(0).many


def _refused(name: str, letters: str, longs: tuple[str, ...], words: Sequence[Word]) -> Finding:
    for word in before_operands(words):
        if not named(word):
            return unclear(f"{name} {word}: which option that is shows only at the run")
        if word.loose:
            return unknown(f"{name}: {word} may become an option")
        text = word.text
        long = text[2:].partition("=")[0] if text.startswith("--") else ""
        short = text[1:] if text.startswith("-") and not long else ""
        if (long and any(bad.startswith(long) for bad in longs)) or set(short) & set(letters):
            return unclear(f"{name} {word}: it can run or write something")
    return READS


def _exact(name: str, alone: frozenset[str], valued: frozenset[str], words: Sequence[Word]) -> Finding:
    rest, operands = list(words), 0
    while rest:
        word = rest.pop(0)
        if word.loose or word.many:
            return unknown(f"{name}: {word} may become an option")
        if word.text in valued:
            if rest and not _drop(rest):
                return unknown(f"{name}: {word} may become an option")
        elif word.text.startswith("-") and word.text not in {*alone, "-"}:
            return _option(name, word.text)
        elif not word.text.startswith("-") or word.text == "-":
            operands += 1
    return unknown(f"{name}: the second name is where it writes") if operands > 1 else READS


def _ordinary(name: str, words: Sequence[Word]) -> Finding:
    line = (Word(name), *words)
    for length in (3, 2, 1):
        key = " ".join(word.text for word in line[:length])
        if key in ORDINARY and len(line) >= length:
            return _work(key, ORDINARY[key], line[length:])
    return unknown(f"{shown(line)}: not a command that is known to be harmless")


def _work(name: str, options: str, words: Sequence[Word]) -> Finding:
    findings = [ordinary(f"{name} writes inside work/")]
    message = name == "git commit"
    for word in words:
        if word.is_option and not re.fullmatch(options, word.text):
            findings.append(unknown(f"{name} {word}: an option that is not known to be harmless"))
        elif not word.is_option and not (message and word.fixed):
            findings.append(writing(word))
    return worst(findings)


def only(words: Sequence[Word], allowed: str, why: str) -> Finding:
    """`READS` if every word is fixed and matches; else unclear."""
    good = all(word.fixed and re.fullmatch(allowed, word.text) for word in words)
    return READS if good else unclear(why)
