"""What do the shell's own commands, and programs whose first words decide, do?"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from harnessd.permissions.shell.judged import READS, Finding, unclear, unknown
from harnessd.permissions.shell.options import only, places
from harnessd.permissions.shell.word import ANYTHING, Word, names

_UNARY = names("-b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -n -z")
_BINARY = names("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef =~ -a -o")
_NUMBERS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


def special(name: str) -> Callable[[Sequence[Word]], Finding] | None:
    """How command `name` is judged, if it needs more than a row of a table."""
    return _SPECIAL.get(name)


def _test(words: Sequence[Word]) -> Finding:
    """`-v` and `-R` evaluate a subscript, so does an arithmetic comparison in `[[`."""
    if any(word.many for word in words):
        return unclear("test: an unquoted variable may become an operator")
    return _tested(words, arithmetic=False)


def _double_test(words: Sequence[Word]) -> Finding:
    """To a shell that does not know `[[`, what stands behind `&&` or `||` is a command like any other."""
    for before, word in pairwise(words):
        if before.text in {"&&", "||"} and not (word.fixed and word.text in _UNARY):
            return unclear("[[: other shells would run what stands behind && or ||")
    return _tested([Word(word.text) for word in words if word.text not in {"(", ")"}], arithmetic=True)


def _tested(words: Sequence[Word], *, arithmetic: bool) -> Finding:
    tests: list[list[Word]] = [[]]
    for number, word in enumerate(words):
        if word.text in {"&&", "||"} or (word.text in {"-a", "-o"} and 0 < number < len(words) - 1 and tests[-1]):
            tests.append([])
        elif word.text != "!" or tests[-1]:
            tests[-1].append(word)
    for test in tests:
        texts = [word.text for word in test]
        if (len(test) == 2 and texts[0] in _UNARY) or len(test) <= 1:
            continue
        if len(test) != 3 or texts[1] not in _BINARY or texts[1] in {"<", ">"}:
            return unclear("test: what it tests is not plain")
        if arithmetic and texts[1] in _NUMBERS and not all(re.fullmatch(r"-?[0-9]+", text) for text in texts[::2]):
            return unclear("test: arithmetic can run commands")
    return READS


def _printf(words: Sequence[Word]) -> Finding:
    if words and (words[0].loose or words[0].text.startswith("-v")):
        return unclear("printf: it may set a variable, and run a subscript")
    return places(words)


def _cd(words: Sequence[Word]) -> Finding:
    if not words:
        return unknown("cd without a folder goes to the home directory")
    if len(words) > 1 or not words[0].fixed or words[0].text.startswith("-"):
        return unknown("cd: where that is shows only at the run")
    return places(words)


def _read(words: Sequence[Word]) -> Finding:
    shape = r"-[rsa]+|-[dpntN]|[a-z_][a-z0-9_]*|[0-9]+||[,:;|]|-d."
    return only(words, shape, "read: a name that it sets is not plain")


def _set(words: Sequence[Word]) -> Finding:
    return only(words, r"[-+][eux]+|[-+][eux]*o|pipefail|--", "set changes how the rest of the line is read")


def _declare(words: Sequence[Word]) -> Finding:
    return only(words, r"-[pxrg]", "it declares a variable in a way that is not plain")


def _tar(words: Sequence[Word]) -> Finding:
    if not words or not re.fullmatch(r"-?[tvzjJfO]*t[tvzjJfO]*|--list", words[0].text):
        return unknown("tar: only a list (`tar tf`) is known to only read")
    for word in words[1:]:
        if word.is_option and not re.fullmatch(
            r"-[vzjJf]+|--(?:verbose|gzip|bzip2|xz|wildcards|file=[^:]*|strip-components=[0-9]+)", word.text
        ):
            return unknown(f"tar {word}: not known to only read")
        if ":" in word.text or (ANYTHING in word.text and word.loose):
            return unclear(f"tar {word}: a name with a colon is another machine")
    return places(words[1:])


def _gzip(words: Sequence[Word]) -> Finding:
    first = words[0].text if words else ""
    if not re.fullmatch(r"-[dvkq1-9]*[tlc][tlcdvkq1-9]*|--(?:test|list|stdout)", first):
        return unknown("it writes files unless it is told to list, to test or to print (-l, -t, -c)")
    if any(word.is_option for word in words[1:]):
        return unknown("its options are not known to only read")
    return places(words[1:])


def _unzip(words: Sequence[Word]) -> Finding:
    if (
        not words
        or words[0].text not in {"-l", "-lv", "-v", "-t", "-p", "-Z", "-Z1", "-z"}
        or any(w.is_option for w in words[1:])
    ):
        return unknown("unzip: only a list (`unzip -l`) is known to only read")
    return places(words[1:])


def _pip(words: Sequence[Word]) -> Finding:
    texts = [word.text for word in words]
    if len(words) == 1 and texts[0] in {"--version", "-V"}:
        return READS
    good = texts[:1] in (["list"], ["show"], ["freeze"], ["check"]) and all(
        word.fixed
        and re.fullmatch(r"--format=\w+|-f|--files|[A-Za-z0-9_.\[\]-]+", word.text)
        and not word.text.startswith("--log")
        for word in words[1:]
    )
    options = [text for text in texts[1:] if text.startswith("-")]
    if good and all(re.fullmatch(r"--format=\w+|-f|--files", text) for text in options):
        return READS
    return unknown("pip: only its lists are known to only read")


_SPECIAL: Mapping[str, Callable[[Sequence[Word]], Finding]] = {
    "test": _test,
    "[": _test,
    "[[": _double_test,
    "printf": _printf,
    "cd": _cd,
    "read": _read,
    "set": _set,
    **dict.fromkeys(("export", "declare", "local", "readonly", "typeset", "unset"), _declare),
    "tar": _tar,
    **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz"), _gzip),
    "unzip": _unzip,
    **dict.fromkeys(("pip", "pip3"), _pip),
}
