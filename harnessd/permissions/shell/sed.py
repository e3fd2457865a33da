"""Does a `sed` script only print?"""

import re
from collections.abc import Sequence

from harnessd.permissions.shell.judged import READS, Finding, unclear, unknown, worst
from harnessd.permissions.shell.places import reading
from harnessd.permissions.shell.word import Word

_ADDRESS = r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n]|\\[^\n])*/[IM]?|\+[0-9]+|~[0-9]+)"
_START = re.compile(rf"[\s;{{}}]*(?:{_ADDRESS}\s*(?:,\s*{_ADDRESS})?)?\s*!?\s*")
_PLAIN = re.compile(r"[pPdDnNgGhHxl=qQ](?:(?<=[qQ])\s*[0-9]*)?\s*(?=[;}\n]|$)")
_TEXT = re.compile(r"[aic](?:\\\n|[ \t]+)[^\n]*(?:\n|$)")
_JUMP = re.compile(r"(?::|[btT])[ ]*[A-Za-z0-9_]*\s*(?=[;}\n]|$)")
_FLAGS = re.compile(r"[gpiI0-9]*\s*(?=[;}\n]|$)")


def sed_finding(words: Sequence[Word]) -> Finding:
    """`READS` if every script is known to print only and no option writes."""
    scripts: list[str] = []
    said = READS
    operands: list[Word] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.loose:
            return unknown(f"sed: {word} may become an option")
        if word.text == "--":
            operands += rest
            break
        if word.text in {"-e", "-ne", "-nE", "-En", "-nr", "-rn", "--expression"} and word.text.endswith(
            ("e", "expression")
        ):
            if not rest or not rest[0].fixed:
                return unknown("sed: its script shows only at the run")
            scripts.append(rest.pop(0).text)
        elif word.text.startswith("--expression="):
            scripts.append(word.text.partition("=")[2])
        elif re.fullmatch(
            r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|sandbox|debug)",
            word.text,
        ):
            continue
        elif re.fullmatch(r"-[nErsuz]*i[.a-z~]*|--in-place(?:=[.a-z~]*)?", word.text):
            said = unknown("sed -i changes the files themselves")
        elif word.text.startswith("-") and word.text != "-":
            return unclear(f"sed {word}: not known to only read")
        else:
            operands.append(word)
    if not scripts:
        if not operands or not operands[0].fixed:
            return unknown("sed: its script shows only at the run")
        scripts.append(operands.pop(0).text)
    for script in scripts:
        if not _prints_only(script):
            return unclear(f"sed {script[:40]!r}: its script is not known to only print")
    return worst((said, *map(reading, operands)))


def _prints_only(script: str) -> bool:
    at = 0
    while at < len(script):
        at = _after(_START, script, at)
        if at == len(script):
            return True
        letter = script[at]
        if letter in "sy":
            end = _substitution(script, at)
        elif letter == "#":
            end = (script.find("\n", at) + 1) or len(script)
        else:
            end = next((_after(shape, script, at) for shape in (_PLAIN, _TEXT, _JUMP) if shape.match(script, at)), -1)
        if end <= at:
            return False
        at = end
    return True


def _substitution(script: str, at: int) -> int:
    """The end of `s/a/b/flags` or `y/a/b/`, -1 if it is not plain."""
    mark = script[at + 1 : at + 2]
    if not mark or mark.isalnum() or mark in "\\\n \t;{}[]":
        return -1
    part, seen, bracket = at + 2, 0, False
    while part < len(script) and seen < 2:
        if script[part] == "\\":
            part += 1
        elif script[part] == "[" and seen == 0 and mark in script[part : script.find("]", part + 1) + 1]:
            bracket = True  # a mark inside brackets: versions differ in whether it ends the part
        elif script[part] == mark:
            seen += 1
        part += 1
    if seen < 2 or bracket:
        return -1
    found = _FLAGS.match(script, part)
    return found.end() if found and (script[at] == "s" or not found.group().strip()) else -1


def _after(shape: re.Pattern[str], text: str, at: int) -> int:
    found = shape.match(text, at)
    return found.end() if found else at
